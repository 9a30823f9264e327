#include <headroom/policy/systems/apex.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/catch.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using support::Arguments;
using support::first_difference;
using support::follow;
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("apex: its recorded sequences are followed") {
  CHECK(follow("apex_hysteresis.trace", [](Arguments get) {
          return presets::apex(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                               get.whole("growth_interval", 2000), static_cast<std::int32_t>(get.whole("hysteresis", 2)));
        }) == 51);
}

TEST_CASE("apex is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 60) - 10), any = start * pick(random, {1.0, 1.25, 1.1});
    const double growth = pick(random, {2.0, 1.1, 3.0, 1.5}), backoff = pick(random, {0.5, 0.3, 0.9, 0.25});
    const std::int64_t interval = support::pick_interval(random);
    const auto hysteresis = static_cast<std::int32_t>(1 + random() % 5);
    CHECK(first_difference(presets::apex(any, growth, backoff, interval, hysteresis),
                           systems::Apex{static_cast<float>(any), growth, backoff, interval, hysteresis}, random) == "");
  }
}

TEST_CASE("apex: a growth to Inf is refused, however far below the largest scale it begins") {
  static_assert(presets::apex(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.7}), static_cast<int>(random() % 60) + 66);
    const double growth = pick(random, {2.0, 10.0, 1e3, 1e10, 1e38});
    const auto interval = static_cast<std::int64_t>(1 + random() % 4);
    const double backoff = pick(random, {0.5, 0.3, 1e-3, 1e-20});
    CHECK(first_difference(presets::apex(start, growth, backoff, interval, 2),
                           systems::Apex{static_cast<float>(start), growth, backoff, interval, 2}, random) == "");
  }
}
