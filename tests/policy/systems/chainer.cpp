#include <headroom/policy/any.hpp>
#include <headroom/policy/systems/chainer.hpp>
#include <headroom/state/text.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <utility>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::ChainerLossScale;
using headroom::LossScaleConfig;
using support::after;
using support::message_of;
namespace presets = headroom::presets;

static_assert(std::is_trivially_copyable_v<ChainerLossScale> && headroom::is_loss_scale_v<ChainerLossScale>);
static_assert(noexcept(std::declval<const ChainerLossScale&>().adjust(true)));

TEST_CASE("chainer: its recorded sequences are followed") {
  CHECK(support::follow("chainer.trace",
                        [](support::Arguments get) { return presets::chainer(get.whole("growth_interval", 1000)); }) == 7);
}

TEST_CASE("chainer is followed over random intervals and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const std::int64_t interval = 1 + static_cast<std::int64_t>(random() % (run % 2 == 0 ? 40 : 3000));
    CHECK(support::first_difference(presets::chainer(interval), systems::Chainer{interval}, random, false, 2000) == "");
  }
}

TEST_CASE("chainer: it doubles on every step until one overflows, then once in an interval, in [1, 65504]") {
  const auto policy = presets::chainer(4);
  CHECK(after(policy, "+++").loss_scale() == 8.0F);
  CHECK(after(policy, "++++++++++++++++++").loss_scale() == 65504.0F);
  CHECK(after(policy, "++++-").loss_scale() == 8.0F);
  CHECK(after(policy, "++++-++++").loss_scale() == 16.0F);
  CHECK(after(policy, "---").loss_scale() == 1.0F);
  CHECK(after(policy, "-").has_overflowed());
  CHECK_FALSE(policy.has_overflowed());
  CHECK(policy.step_factor() == std::pow(2.0, 0.25));
  CHECK(policy.counter() == 0);
  CHECK(ChainerLossScale() == presets::chainer());
  CHECK_THAT(message_of([] { (void)presets::chainer(0); }), ContainsSubstring("interval is 0; it must be at least 1"));
}

TEST_CASE("chainer: the scale is kept in double, and by states too") {
  auto policy = after(presets::chainer(7), "+++++++++-");
  int rounded = 0;
  for (int step = 0; step < 60; ++step) {
    policy = policy.adjust(true);
    const headroom::StateDict state = policy.state_dict();
    const double exact = state.at("loss_scale").real();
    CHECK(policy.loss_scale() == static_cast<float>(exact));
    rounded += exact == static_cast<double>(policy.loss_scale()) ? 0 : 1;
    CHECK(ChainerLossScale::from_state_dict(headroom::from_text(to_text(state))) == policy);
  }
  CHECK(rounded > 30);
}

TEST_CASE("chainer: settings change the factor of a step; the scale and what has been stay") {
  const auto policy = after(presets::chainer(7), "+++++-");
  LossScaleConfig config = policy.config();
  config.growth_interval = 2;
  config.growth_factor = 9.0;
  const ChainerLossScale changed = policy.with_config(config);
  CHECK(changed.loss_scale() == 16.0F);
  CHECK(changed.adjust(true).loss_scale() == 48.0F);
  CHECK(policy.with_settings({{"growth_interval", 1}}) == presets::chainer(1));
  CHECK(policy.with_loss_scale(0.5F).adjust(true).loss_scale() == 1.0F);
  CHECK_THAT(message_of([&] { (void)policy.with_loss_scale(65505.0F); }),
             ContainsSubstring("loss_scale is 65505, above max_scale, which is 65504"));
  CHECK_THAT(message_of([&] { (void)policy.with_settings({{"colour", 1}}); }), ContainsSubstring("'colour' is unknown"));
  config.growth_interval = 0;
  CHECK_THAT(message_of([&] { (void)ChainerLossScale(config); }), ContainsSubstring("growth_interval is 0"));
}

TEST_CASE("chainer: no product overflows, and growth to Inf can be refused") {
  LossScaleConfig config;
  config.initial_scale = 0x1p100F;
  config.growth_factor = 0x1.fffffffffffffp1023;
  CHECK(ChainerLossScale(config).adjust(true).loss_scale() == 0x1p126F);
  CHECK(ChainerLossScale(config).adjust(false).adjust(true).loss_scale() < 0x1p101F);
  config.refuse_infinite_growth = true;
  CHECK(ChainerLossScale(config).adjust(true) == ChainerLossScale(config));
  config.backoff_factor = 0x1p-1022;
  config.min_scale = 0x1p-126F;
  CHECK(ChainerLossScale(config).adjust(false).loss_scale() == 0x1p-126F);
}
