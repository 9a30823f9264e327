#include <headroom/policy/systems/fairseq.hpp>

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

TEST_CASE("fairseq is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 16)),
                 tolerance = pick(random, {0.0, 0.05, 0.1, 0.25, 0.5, 1.0});
    const std::int64_t interval = support::pick_interval(random);
    CHECK(first_difference(presets::fairseq(start, 2.0, interval, tolerance, 0.0, 0.0),
                           systems::Fairseq{start, 2.0, static_cast<double>(interval), tolerance, false}, random) == "");
  }
}

TEST_CASE("fairseq's share is formed in double: 7 of 10 are 0.7") {
  const auto policy = presets::fairseq(1024.0, 2.0, 2000, 0.7);
  CHECK(after(policy, "+++------").loss_scale() == 1024.0F);
  CHECK(after(policy, "+++-------").loss_scale() == 512.0F);
}

TEST_CASE("fairseq: the floor is the larger of its two") {
  CHECK(presets::fairseq(1024.0, 2.0, 2000, 0.0, 8.0, 2.0).config().scale.min_scale == 8.0F);
  CHECK(presets::fairseq(1024.0, 2.0, 2000, 0.0, 2.0, 8.0).config().scale.min_scale == 8.0F);
}
