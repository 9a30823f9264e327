#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/emily.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/catch.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using headroom::AnyLossScale;
using headroom::import_state;
using headroom::StateDict;
using support::Arguments;
using support::check_goes_on;
using support::first_difference;
using support::follow;
namespace presets = headroom::presets;

TEST_CASE("Emily: its recorded sequences are followed") {
  CHECK(follow("emily.trace", [](Arguments get) {
          return presets::emily(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                                get.whole("growth_interval", 2000), get("min_scale", 1.0));
        }) == 20);
}

TEST_CASE("Emily is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 60) - 10);
    const std::int64_t interval = support::pick_interval(random);
    // Its scale is a double: ours is the same where no product is rounded.
    CHECK(first_difference(presets::emily(start, 2.0, 0.5, interval, 4.0), systems::Emily{start, 2.0, 0.5, interval, 4.0},
                           random) == "");
  }
}

TEST_CASE("Emily: it may start below its floor, and grows to the largest scale") {
  CHECK(presets::emily(0.25).adjust(false).loss_scale() == 1.0F);
  static_assert(presets::emily(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
}

TEST_CASE("Emily's is complete") {
  check_goes_on("emily", systems::Emily{1024.0, 2.0, 0.5, 5, 4.0}, AnyLossScale(presets::emily()),
                [](const systems::Emily& system) {
                  return StateDict{{"scale", system.scale},
                                   {"counter", system.counter},
                                   {"growth_factor", system.growth_factor},
                                   {"backoff_factor", system.backoff_factor},
                                   {"growth_interval", system.growth_interval},
                                   {"min_scale", system.min_scale}};
                });
}

TEST_CASE("Emily: a floor above where the preset begins is none too high for the state") {
  CHECK(import_state("emily", {{"scale", 0x1p21},
                               {"counter", 3},
                               {"growth_factor", 2.0},
                               {"backoff_factor", 0.5},
                               {"growth_interval", 2000},
                               {"min_scale", 0x1p20}})
            .adjust(false)
            .adjust(false)
            .loss_scale() == 0x1p20F);
}
