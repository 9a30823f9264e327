#include <headroom/policy/import_state.hpp>

#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::import_state;
using headroom::StateDict;
using support::message_of;

namespace {

const StateDict torch_state = {
    {"scale", 1024.0}, {"growth_factor", 3.0}, {"backoff_factor", 0.25}, {"growth_interval", 5}, {"_growth_tracker", 3}};

}  // namespace

TEST_CASE("errors name the system's own key and the value") {
  const auto refused = [](const std::string& key, const headroom::StateValue& value) {
    StateDict state = torch_state;
    state.set(key, value);
    return message_of([&] { (void)import_state("torch", state); });
  };
  double infinity = 0.0;
  support::set_bits(infinity, headroom::binary64::infinity_bits);
  CHECK_THAT(refused("scale", 0.0), ContainsSubstring("scale is 0; it must be in [2^-126, 2^126]"));
  CHECK_THAT(refused("scale", infinity), ContainsSubstring("scale is inf"));
  CHECK_THAT(refused("scale", "big"), ContainsSubstring("scale is 'big'; it must be a number"));
  CHECK_THAT(refused("growth_factor", 1.0), ContainsSubstring("growth_factor is 1"));
  CHECK_THAT(refused("growth_interval", 0), ContainsSubstring("growth_interval is 0"));
  CHECK_THAT(refused("_growth_tracker", -1), ContainsSubstring("_growth_tracker is -1"));
  CHECK_THAT(refused("_growth_tracker", 1.0),
             ContainsSubstring("_growth_tracker is 1 as a real number; it must be a whole number"));
  CHECK_THAT(refused("colour", 1), ContainsSubstring("the key 'colour' is unknown; its value is 1"));
  CHECK_THAT(message_of([] {
               (void)import_state("openseq2seq_backoff", {{"scale", 65536.0}});
             }),
             ContainsSubstring("scale is 65536, above max_scale, which is 16384"));
  StateDict missing = torch_state;
  CHECK(missing.erase("_growth_tracker"));
  CHECK_THAT(message_of([&] { (void)import_state("torch", missing); }),
             ContainsSubstring("the key '_growth_tracker' is missing"));
  CHECK_THAT(message_of([] { (void)import_state("torch", {}); }), ContainsSubstring("the key 'scale' is missing"));
  CHECK_THAT(message_of([] { (void)import_state("pytorch", torch_state); }),
             ContainsSubstring(
                 "no state of 'pytorch' can be imported; known are torch, megatron, cerebras, emily, jmp, eformer, deepspeed"));
}

TEST_CASE("the systems whose states can be imported are those of the list that say how") {
  for (const auto& [system, import, is_static] : headroom::detail::StateFormats<headroom::detail::systems::All>::all) {
    const std::string message = message_of([name = system] { (void)import_state(name, {}); });
    const std::string expected = import == nullptr ? "no state of '" + std::string(system) + "' can be imported" : "is missing";
    CHECK_THAT(message, ContainsSubstring(expected));
    CHECK_FALSE(is_static({}));
  }
}
