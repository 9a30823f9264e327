#include <headroom/policy/systems/metaseq.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/catch.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using support::after;
using support::first_difference;
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("metaseq is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 16)),
                 tolerance = pick(random, {0.0, 0.05, 0.1, 0.25, 0.5, 1.0});
    const std::int64_t interval = support::pick_interval(random);
    const double factor = pick(random, {2.0, 1.5, 3.0, 1.25});
    CHECK(first_difference(presets::metaseq(start, factor, interval, tolerance, 0.0, 0.0),
                           systems::Fairseq{start, factor, static_cast<double>(interval), tolerance, true}, random,
                           true) == "");
  }
}

TEST_CASE("metaseq's window goes with the scale") {
  const auto policy = presets::metaseq(4.0, 2.0, 2);
  CHECK(after(policy, "++").loss_scale() == 8.0F);
  CHECK(after(policy, "++").growth().window() == 4.0);
  CHECK(after(policy, "++++").loss_scale() == 16.0F);  // 4 steps since the last overflow, as its modulus has it
  CHECK(after(policy, "++++").growth().window() == 8.0);
  CHECK(after(policy, "-").growth().window() == 1.0);
  CHECK(after(policy, "--").growth().window() == 1.0);
  CHECK(after(policy, "--+").loss_scale() == 2.0F);
  // Not cut off when it grows: 3 * 1.5 is no number of steps, 9 is the first that is a multiple of it.
  const auto broken = presets::metaseq(4.0, 1.5, 3);
  CHECK(after(broken, "+++").growth().window() == 4.5);
  CHECK(after(broken, "++++++++").loss_scale() == 6.0F);
  CHECK(after(broken, "+++++++++").loss_scale() == 9.0F);
  CHECK(after(broken, "+++-").growth().window() == 3.0);
  CHECK(after(presets::metaseq(4.0, 49.0, 98), "-").growth().window() == 2.0);  // 98 * (1.0 / 49) is below 2
}

TEST_CASE("a window that is not whole has the multiples that fmod says") {
  for (const double factor : {1.5, 1.25, 1.75, 1.1, 2.5}) {
    for (const std::int64_t window : {1, 2, 3, 5, 6}) {
      auto policy = presets::metaseq(1.0, factor, window);
      std::int64_t steps = 0;
      for (int step = 0; step < 2000; ++step) {
        const double before = policy.growth().window();
        policy = policy.adjust(true);
        const bool grew = policy.growth().window() != before;
        REQUIRE(grew == (std::fmod(static_cast<double>(++steps), before) == 0.0));
      }
    }
  }
}

TEST_CASE("a window never overflows") {
  constexpr auto most = static_cast<double>(headroom::detail::largest_counter);
  auto policy = presets::metaseq(1.0, 1e300, headroom::detail::largest_counter);
  CHECK(policy.growth().window() == most);
  auto growth = policy.growth();
  growth.back_off(policy.config().scale);
  CHECK(growth.window() == 1.0);
  CHECK(growth.grows(true, policy.config().scale));
  CHECK(growth.window() == most);
}

TEST_CASE("metaseq: the floor is the larger of its two") {
  CHECK(presets::metaseq(1024.0, 2.0, 256, 0.0, 0.0, 4.0).config().scale.min_scale == 4.0F);
}
