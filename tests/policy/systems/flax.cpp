#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/flax.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using support::after;
using support::first_difference;
using support::message_of;
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("flax: its recorded sequences are followed") {
  // Its counter is that of the steps since the last change, as ours is; the interval is the one that differs.
  CHECK(support::follow("flax.trace", [](support::Arguments get) {
          return presets::flax(get("growth_factor", 2.0), get("backoff_factor", 0.5), get.whole("growth_interval", 2000),
                               get("initial_scale", 65536.0), get("min_scale", 0x1p-126));
        }) == 22);
}

TEST_CASE("flax is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.1}), static_cast<int>(random() % 200) - 100);
    const double growth = pick(random, {2.0, 1.1, 3.0, 1.5}), backoff = pick(random, {0.5, 0.3, 0.9, 0.25});
    const double floor = pick(random, {0x1p-126, 1.0, 0.37, 0.0});
    const std::int64_t interval = support::pick_interval(random) - 1;
    CHECK(first_difference(presets::flax(growth, backoff, interval, start, floor),
                           systems::Flax{static_cast<float>(start), static_cast<float>(growth), static_cast<float>(backoff),
                                         interval, static_cast<float>(floor)},
                           random) == "");
  }
}

TEST_CASE("flax: it grows on the step after its interval") {
  static_assert(after(presets::flax(2.0, 0.5, 3), "+++").loss_scale() == 65536.0F);
  static_assert(after(presets::flax(2.0, 0.5, 3), "++++").loss_scale() == 131072.0F);
  static_assert(after(presets::flax(2.0, 0.5, 3), "++++++++").loss_scale() == 262144.0F);
  static_assert(after(presets::flax(2.0, 0.5, 0), "++").loss_scale() == 262144.0F);
  SUCCEED("checked by the compiler");
}

TEST_CASE("flax: a bad argument is named, with its value") {
  CHECK_THAT(message_of([] { (void)presets::flax(1.0); }), ContainsSubstring("growth_factor is 1"));
  CHECK_THAT(message_of([] { (void)presets::flax(2.0, 1.0); }), ContainsSubstring("backoff_factor is 1"));
  CHECK_THAT(message_of([] { (void)presets::flax(2.0, 0.5, -1); }), ContainsSubstring("growth_interval is -1"));
  CHECK_THAT(message_of([] { (void)presets::flax(2.0, 0.5, std::numeric_limits<std::int64_t>::max()); }),
             ContainsSubstring("growth_interval is 9223372036854775807"));
  CHECK_THAT(message_of([] { (void)presets::flax(2.0, 0.5, 2000, 0.0); }), ContainsSubstring("scale is 0"));
  CHECK_THAT(message_of([] { (void)presets::flax(2.0, 0.5, 2000, 1.0, -1.0); }), ContainsSubstring("minimum_scale is -1"));
}

TEST_CASE("flax: its state has scale and steps, and the settings are given") {
  support::check_goes_on("flax", systems::Flax{65536.0F, 2.0F, 0.5F, 5, 0x1p-126F}, presets::flax(2.0, 0.5, 5),
                         [](const systems::Flax& system) {
                           return headroom::StateDict{{"fin_steps", system.fin_steps}, {"scale", system.scale}};
                         });
  CHECK(headroom::import_state("flax", {{"fin_steps", 2000}, {"scale", 8.0}}).adjust(true).loss_scale() == 16.0F);
}
