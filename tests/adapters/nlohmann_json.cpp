#include <headroom/adapters/nlohmann_json.hpp>
#include <headroom/policy/any.hpp>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/any_policies.hpp"
#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::StateDict;
using nlohmann::json;
using nlohmann::ordered_json;

TEST_CASE("every policy is read back from JSON, with its keys in any order") {
  for (AnyLossScale policy : support::every_policy()) {
    for (int step = 0; step < 50; ++step) {
      const json unordered = policy.state_dict();
      REQUIRE(AnyLossScale::from_state_dict(json::parse(unordered.dump()).get<StateDict>()) == policy);
      const ordered_json ordered = policy.state_dict();
      REQUIRE(ordered_json::parse(ordered.dump()).get<StateDict>() == policy.state_dict());
      policy = policy.adjust(step % 3 != 0);
    }
  }
}

TEST_CASE("a number keeps its kind and every bit") {
  std::mt19937 random(support::seed);
  for (int i = 0; i < support::cases(20000); ++i) {
    double value = 0.0;
    // No subnormals: nlohmann does arithmetic with the number, which makes them 0 if the CPU flushes them. No state has any.
    support::set_bits(value, support::random_magnitude<headroom::binary64>(random, -1022, 1023) |
                                 (random() % 2 == 0 ? headroom::binary64::sign_mask : 0));
    const StateDict dict = {{"x", value}, {"n", static_cast<std::int64_t>(random()) - (std::int64_t{1} << 31)}};
    REQUIRE(ordered_json::parse(ordered_json(dict).dump()).get<StateDict>() == dict);
  }
  const StateDict whole = {{"x", 2.0},
                           {"n", 2},
                           {"low", std::numeric_limits<std::int64_t>::min()},
                           {"s", "text"},
                           {"l", std::vector<double>{1.5, 2.0}}};
  CHECK(ordered_json(whole).dump() == R"({"x":2.0,"n":2,"low":-9223372036854775808,"s":"text","l":[1.5,2.0]})");
  CHECK(ordered_json::parse(ordered_json(whole).dump()).get<StateDict>() == whole);
}

TEST_CASE("JSON that is not a state is an error that names the key, and changes nothing") {
  StateDict dict = {{"a", 1}};
  const auto refuse = [&](const char* text) { return support::message_of([&] { json::parse(text).get_to(dict); }); };
  CHECK_THAT(refuse(R"({"b": 2, "c": null})"),
             ContainsSubstring("c is null; it must be a number, true, false, a text or a list of numbers"));
  CHECK_THAT(refuse(R"({"c": [true]})"),
             ContainsSubstring("c is [true]; it must be a number, true, false, a text or a list of numbers"));
  CHECK_THAT(refuse(R"({"c": 18446744073709551615})"), ContainsSubstring("c is 18446744073709551615; it must be below 2^63"));
  CHECK_THAT(refuse("[1, 2]"), ContainsSubstring("a state is a JSON object, and not [1,2]"));
  CHECK(dict == StateDict{{"a", 1}});
}

TEST_CASE("JSON's true and false are read as booleans, and equal 1 and 0") {
  const auto state = nlohmann::json::parse(R"({"a": true, "b": false})").get<StateDict>();
  CHECK(state == StateDict{{"a", 1}, {"b", 0}});
  CHECK((state.at("a").is_boolean() && state.at("b").is_boolean()));
  CHECK(ordered_json(state).dump() == R"({"a":true,"b":false})");
}
