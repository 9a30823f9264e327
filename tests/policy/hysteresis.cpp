#include <headroom/policy/hysteresis.hpp>

#include <type_traits>

#include "support/policies.hpp"

using headroom::BasicHysteresisScale;
using headroom::GradientReport;
using headroom::HysteresisConfig;
using headroom::HysteresisScale;
using headroom::RefillOnBackoff;
using headroom::RefillOnCleanStep;
using headroom::RefillOnGrowth;
using support::after;

namespace {

constexpr HysteresisConfig small_config() {
  HysteresisConfig config;
  config.scale.growth_interval = 4;
  config.scale.initial_scale = 1024.0F;
  config.hysteresis = 3;
  return config;
}
template <class Refill>
constexpr float scale_after(const char* steps) {
  return after(BasicHysteresisScale<Refill>(small_config()), steps).loss_scale();
}
template <class Refill>
constexpr int left_after(const char* steps) {
  return after(BasicHysteresisScale<Refill>(small_config()), steps).hysteresis_left();
}

// Rule 5: each overflow lowers the hysteresis by one. At 0 the scale backs off, and again on every further overflow.
static_assert(left_after<RefillOnCleanStep>("") == 3 && left_after<RefillOnCleanStep>("-") == 2);
static_assert(scale_after<RefillOnCleanStep>("--") == 1024.0F && scale_after<RefillOnCleanStep>("---") == 512.0F);
static_assert(scale_after<RefillOnCleanStep>("----") == 256.0F && left_after<RefillOnCleanStep>("----") == 0);

// Refilled on a clean step: only overflows in a row lower the scale.
static_assert(left_after<RefillOnCleanStep>("--+") == 3 && scale_after<RefillOnCleanStep>("--+--+--+--") == 1024.0F);
static_assert(scale_after<RefillOnCleanStep>("---+--") == 512.0F && scale_after<RefillOnCleanStep>("---+---") == 256.0F);

// Refilled on growth: clean steps between overflows do not refill it.
static_assert(left_after<RefillOnGrowth>("--+") == 1 && scale_after<RefillOnGrowth>("-+-+-") == 512.0F);
static_assert(scale_after<RefillOnGrowth>("-+-+-+-+-") == 128.0F && left_after<RefillOnGrowth>("---++++") == 3);
static_assert(scale_after<RefillOnGrowth>("---++++") == 1024.0F && scale_after<RefillOnGrowth>("---++++--") == 1024.0F);

// Refilled on a backoff: every third overflow lowers the scale. Growth refills it too.
static_assert(scale_after<RefillOnBackoff>("---") == 512.0F && left_after<RefillOnBackoff>("---") == 3);
static_assert(scale_after<RefillOnBackoff>("-----") == 512.0F && scale_after<RefillOnBackoff>("------") == 256.0F);
static_assert(scale_after<RefillOnBackoff>("-+-+-+-+-") == 512.0F && left_after<RefillOnBackoff>("--++++") == 3);

// Rules 1 and 2 hold as for DynamicLossScale. A tolerated overflow also sets the counter to 0.
static_assert(scale_after<RefillOnCleanStep>("+++-+++") == 1024.0F && scale_after<RefillOnCleanStep>("+++-++++") == 2048.0F);
static_assert(after(HysteresisScale(small_config()), "+++").counter() == 3 &&
              after(HysteresisScale(small_config()), "+++-").counter() == 0);
static_assert(after(HysteresisScale(small_config()), "++++").counter() == 0);

static_assert(HysteresisScale().loss_scale() == 32768.0F && HysteresisScale().hysteresis_left() == 2);
constexpr HysteresisScale start(small_config());
static_assert(start.adjust(GradientReport{false, 1.0}) == start.adjust(false));
static_assert(start.adjust(GradientReport{true, 0.0}) == start.adjust(true));
static_assert(noexcept(start.adjust(true)) && noexcept(start.adjust(GradientReport{})));
static_assert(std::is_trivially_copyable_v<HysteresisScale>);
static_assert(sizeof(HysteresisScale) - sizeof(HysteresisConfig) <= 32);
static_assert(!std::is_convertible_v<HysteresisConfig, HysteresisScale>);

}  // namespace
