#include <headroom/policy/systems/nntrainer.hpp>

#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using support::after;
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("nntrainer: its recorded sequences are followed") {
  CHECK(support::follow("nntrainer.trace",
                        [](support::Arguments get) { return presets::nntrainer(get("initial_scale", 1.0)); }) == 4);
}

TEST_CASE("nntrainer is followed from random scales over random sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::cases(40); ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.1, 1.5, 1.6}), static_cast<int>(random() % 20));
    CHECK(support::first_difference(presets::nntrainer(start), systems::NNTrainer{static_cast<float>(start)}, random, false,
                                    8000) == "");
  }
}

TEST_CASE("nntrainer: overflows do not touch the counter") {
  headroom::LossScaleConfig config;
  config.growth_interval = 3;
  const headroom::NNTrainerLossScale policy(config);
  CHECK(after(policy, "++").counter() == 2);
  CHECK(after(policy, "++--").counter() == 2);
  CHECK(after(policy, "++--").loss_scale() == 8192.0F);
  CHECK(after(policy, "++--+").loss_scale() == 16384.0F);
  CHECK(after(policy, "++--+").counter() == 0);
}

TEST_CASE("nntrainer: the floor is 1, or what halving makes of a scale above 1.5") {
  static_assert(presets::nntrainer().config().min_scale == 1.0F);
  static_assert(presets::nntrainer(6.0).config().min_scale == 1.0F);
  static_assert(presets::nntrainer(7.0).config().min_scale == 0.875F);
  static_assert(presets::nntrainer(0.25).config().min_scale == 0.25F);
  CHECK_THAT(support::message_of([] { (void)presets::nntrainer(0.0); }), ContainsSubstring("loss_scale is 0"));
}
