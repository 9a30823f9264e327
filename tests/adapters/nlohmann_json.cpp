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

using headroom::StateDict;
using nlohmann::json;
using nlohmann::ordered_json;

TEST_CASE("every policy is read back from JSON, with its keys in any order") {
  for (headroom::AnyLossScale policy : support::every_policy()) {
    for (int step = 0; step < 50; ++step) {
      const json unordered = policy.state_dict();
      REQUIRE(headroom::AnyLossScale::from_state_dict(
                  json::parse(unordered.dump()).get<StateDict>()) == policy);
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
    // No subnormals: nlohmann does arithmetic with the number, which makes them 0 if the CPU
    // flushes them. No state has any.
    support::set_bits(value, support::random_magnitude<headroom::binary64>(random, -1022, 1023) |
                                 (random() % 2 == 0 ? headroom::binary64::sign_mask : 0));
    const StateDict dict = {{"x", value},
                            {"n", static_cast<std::int64_t>(random()) - (std::int64_t{1} << 31)}};
    REQUIRE(ordered_json::parse(ordered_json(dict).dump()).get<StateDict>() == dict);
  }
  const StateDict whole = {{"x", 2.0},
                           {"n", 2},
                           {"low", std::numeric_limits<std::int64_t>::min()},
                           {"s", "text"},
                           {"l", std::vector<double>{1.5, 2.0}}};
  CHECK(ordered_json(whole).dump() ==
        R"({"x":2.0,"n":2,"low":-9223372036854775808,"s":"text","l":[1.5,2.0]})");
  CHECK(ordered_json::parse(ordered_json(whole).dump()).get<StateDict>() == whole);
}

TEST_CASE("JSON that is not a state is an error that names key and type, and changes nothing") {
  StateDict dict = {{"a", 1}};
  const auto refuse = [&](const std::string& text) {
    return support::message_of([&] { json::parse(text).get_to(dict); });
  };
  // Too deep for a recursive function
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const std::string bad[][2] = {{"null", "null"},
                                {"[true]", "array"},
                                {"[1, \"2\"]", "array"},
                                {"{}", "object"},
                                {deep, "array"}};
  for (const auto& [value, type] : bad) {
    CHECK(refuse(R"({"b": 2, "c": )" + value + "}") ==
          "headroom: c is of type " + type +
              "; it must be a number, true, false, a text or a list of numbers");
  }
  CHECK(refuse(R"({"c": 9223372036854775808})") ==
        "headroom: c is 9223372036854775808; it must be below 2^63");
  CHECK(refuse(deep) == "headroom: a state must be a JSON object; this is of type array");
  CHECK(dict == StateDict{{"a", 1}});
}

TEST_CASE("a state that is read from JSON has the entries of the JSON and no others") {
  StateDict dict = {{"a", 1}, {"list", std::vector<double>{3.0}}, {"old", 1}};
  const char* const text =
      R"({"list":[],"mixed":[1,-2.5],"large":4611686018427387904,"largest":9223372036854775807,"t":true})";
  const StateDict expected = {{"list", std::vector<double>()},
                              {"mixed", std::vector<double>{1.0, -2.5}},
                              {"large", std::int64_t{1} << 62},
                              {"largest", std::numeric_limits<std::int64_t>::max()},
                              {"t", true}};
  ordered_json::parse(text).get_to(dict);
  CHECK(dict == expected);
  CHECK(dict.at("t").is_boolean());
  CHECK(
      ordered_json(dict).dump() ==
      R"({"list":[],"mixed":[1.0,-2.5],"large":4611686018427387904,"largest":9223372036854775807,"t":true})");
}
