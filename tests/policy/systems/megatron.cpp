#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/megatron.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::import_state;
using headroom::StateDict;
using support::Arguments;
using support::check_goes_on;
using support::first_difference;
using support::follow;
using support::message_of;
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("Megatron: its recorded sequences are followed") {
  CHECK(follow("megatron_dynamic.trace", [](Arguments get) {
          return presets::megatron(get("initial_scale", 0x1p32), get("min_scale", 1.0), get("growth_factor", 2.0),
                                   get("backoff_factor", 0.5), get.whole("growth_interval", 1000),
                                   static_cast<std::int32_t>(get.whole("hysteresis", 2)));
        }) == 54);
}

TEST_CASE("Megatron is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 60) + 10), any = start * pick(random, {1.0, 1.25, 1.1});
    const double growth = pick(random, {2.0, 1.1, 3.0}), backoff = pick(random, {0.5, 0.3, 0.9}),
                 floor = pick(random, {1.0, 3.7, 0.1});
    const std::int64_t interval = support::pick_interval(random);
    const auto hysteresis = static_cast<std::int32_t>(1 + random() % 5);
    CHECK(first_difference(presets::megatron(any, floor, growth, backoff, interval, hysteresis),
                           systems::Megatron{static_cast<float>(any), static_cast<float>(floor), static_cast<float>(growth),
                                             static_cast<float>(backoff), interval, hysteresis},
                           random) == "");
  }
}

TEST_CASE("Megatron: it grows to the largest scale, and what it refuses is named") {
  static_assert(presets::megatron(0x1p125, 1.0, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
  CHECK_THAT(message_of([] { (void)presets::megatron(4.0, 100.0); }), ContainsSubstring("min_scale is 100"));
  CHECK_THAT(message_of([] { (void)presets::megatron(0x1p32, 1.0, 2.0, 0.5, 1000, 0); }), ContainsSubstring("hysteresis is 0"));
}

TEST_CASE("Megatron's has no settings: they are the preset's, or the policy's that is given") {
  const StateDict state = {{"scale", 1024.0}, {"growth_tracker", 7}, {"hysteresis_tracker", -3}};
  const auto policy = import_state("megatron", state).get<headroom::BasicHysteresisScale<headroom::RefillOnGrowth>>();
  CHECK(policy.config() == presets::megatron().config());
  CHECK(policy.counter() == 7);
  CHECK(policy.hysteresis_left() == 0);
  CHECK(import_state("megatron", state, presets::megatron(0x1p20, 1.0, 2.0, 0.5, 10, 5)).config().hysteresis == 5);
  check_goes_on("megatron", systems::Megatron{65536.0F, 1.0F, 2.0F, 0.5F, 5, 3},
                presets::megatron(65536.0, 1.0, 2.0, 0.5, 5, 3), [](const systems::Megatron& system) {
                  return StateDict{{"scale", system.scale},
                                   {"growth_tracker", system.growth_tracker},
                                   {"hysteresis_tracker", system.hysteresis_tracker}};
                });
}

TEST_CASE("Megatron: the hysteresis left is at most the hysteresis") {
  CHECK_THAT(message_of([&] {
               (void)import_state("megatron", {{"scale", 1024.0}, {"growth_tracker", 7}, {"hysteresis_tracker", 9}});
             }),
             ContainsSubstring("hysteresis_tracker is 9; it must be in [-4611686018427387904, 2]"));
}

TEST_CASE("Megatron: settings of another kind of policy are refused") {
  CHECK_THAT(message_of([] {
               (void)import_state("megatron", {{"scale", 1024.0}, {"growth_tracker", 7}, {"hysteresis_tracker", 1}},
                                  headroom::DynamicLossScale());
             }),
             ContainsSubstring("the key 'hysteresis_left' is unknown"));
}
