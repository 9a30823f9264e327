#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/presets.hpp>

#include <cstdint>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/policies.hpp"

using namespace headroom;
using namespace support;

namespace {

constexpr HysteresisConfig patience{{1024.0F, 4}, 3};
constexpr HysteresisScale patient(patience);
static_assert(after(patient, "---").loss_scale() == 512.0F);
static_assert(patient.adjust(GradientReport{false, 1.0}) == patient.adjust(false));
static_assert(patient.adjust(GradientReport{true, 0.0}) == patient.adjust(true));
static_assert(noexcept(patient.adjust(true)) && noexcept(patient.adjust(GradientReport{})));
static_assert(std::is_trivially_copyable_v<HysteresisScale>);
static_assert(sizeof(HysteresisScale) - sizeof(HysteresisConfig) <= 32);
static_assert(!std::is_convertible_v<HysteresisConfig, HysteresisScale>);
static_assert(HysteresisScale().loss_scale() == 32768.0F && HysteresisScale().counter() == 0 &&
              HysteresisScale().hysteresis_left() == 2);
static_assert(DeepSpeedLossScale() == presets::deepspeed(32768.0, 2.0, 2000));

DeepSpeedLossScale deepspeed(std::int32_t delayed_shift) {
  return DeepSpeedLossScale({{1024.0F, 3}, delayed_shift, false});
}

}  // namespace

TEST_CASE("new settings keep the hysteresis that is left, but not more than theirs") {
  HysteresisConfig changed = patience;
  changed.common.growth_interval = 9;
  const HysteresisScale spent = after(patient, "---").with_config(changed);
  CHECK(spent.hysteresis_left() == 0);
  CHECK(spent.adjust(false).loss_scale() == 256.0F);
  CHECK(after(patient, "-").with_config(changed).hysteresis_left() == 2);
  changed.hysteresis = 1;
  CHECK(patient.with_config(changed).hysteresis_left() == 1);
  CHECK(deepspeed(5).with_config({{}, 2, false}).hysteresis_left() == 2);
  CHECK(message_of([] { (void)deepspeed(0); }) ==
        "headroom: delayed_shift is 0; it must be at least 1");
}

TEST_CASE("a tolerance is 0 by default; one that is negative, Inf or NaN is refused") {
  CHECK(FairseqLossScale().config().overflow_tolerance == 0.0);
  const auto message = [](const double& tolerance) {
    return message_of([&] { (void)FairseqLossScale(ToleranceConfig{{}, tolerance}); });
  };
  for (const double& good : {0.0, -0.0, 2.0}) CHECK(message(good).empty());
  double bad = 0.0;
  support::set_bits(bad, headroom::binary64::quiet_nan_bits);
  CHECK(message(bad) == "headroom: overflow_tolerance is nan; it must be 0 or more and finite");
  support::set_bits(bad, headroom::binary64::infinity_bits);
  CHECK(message(bad) == "headroom: overflow_tolerance is inf; it must be 0 or more and finite");
  CHECK(message(-0.1) == "headroom: overflow_tolerance is -0.1; it must be 0 or more and finite");
}
