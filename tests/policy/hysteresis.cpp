#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/presets.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/policies.hpp"

using headroom::BasicHysteresisScale;
using headroom::DeepSpeedLossScale;
using headroom::GradientReport;
using headroom::HysteresisConfig;
using headroom::HysteresisScale;
using headroom::ToleranceConfig;
using support::after;
using support::message_of;

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

DeepSpeedLossScale deepspeed(std::int32_t delayed_shift, bool consecutive_hysteresis = false) {
  return DeepSpeedLossScale({{1024.0F, 3}, delayed_shift, consecutive_hysteresis});
}

/// What a policy has after some steps.
struct Expected {
  const char* steps;
  float scale;
  int left, counter;
};
template <class Policy>
void check_steps(const Policy& policy, std::initializer_list<Expected> all) {
  for (const Expected& expected : all) {
    INFO(Policy::policy_name() << " after " << expected.steps);
    const Policy found = after(policy, expected.steps);
    CHECK(found.loss_scale() == expected.scale);
    CHECK(found.hysteresis_left() == expected.left);
    CHECK(found.counter() == expected.counter);
  }
}

/// For each step, '+' (finite) or '-' (an overflow): '!' if the rule backs off, 'g' if it grows,
/// else '.'.
template <class Policy>
std::string changes(const char* steps, double tolerance, std::int64_t growth_interval) {
  Policy policy(ToleranceConfig{{1024.0F, growth_interval}, tolerance});
  std::string result;
  for (; *steps != '\0'; ++steps) {
    const float before = policy.loss_scale();
    policy = policy.adjust(*steps == '+');
    result += policy.loss_scale() < before ? '!' : policy.loss_scale() > before ? 'g' : '.';
  }
  return result;
}
const auto cerebras = changes<headroom::CerebrasLossScale>;
const auto fairseq = changes<headroom::FairseqLossScale>;

}  // namespace

TEST_CASE("which overflows lower the scale, and what refills the hysteresis") {
  check_steps(HysteresisScale(), {{"", 32768.0F, 2, 0}});
  CHECK(DeepSpeedLossScale() == headroom::presets::deepspeed(32768.0, 2.0, 2000));
  check_steps(patient, {{"-", 1024.0F, 2, 0},
                        {"---", 512.0F, 0, 0},
                        {"----", 256.0F, 0, 0},
                        {"--+--+--+--", 1024.0F, 1, 0},
                        {"---+--", 512.0F, 1, 0},
                        {"---+---", 256.0F, 0, 0},
                        {"+++-+++", 1024.0F, 3, 3},
                        {"+++-++++", 2048.0F, 3, 0}});
  check_steps(BasicHysteresisScale<headroom::RefillOnGrowth>(patience),
              {{"--+", 1024.0F, 1, 1},
               {"-+-+-", 512.0F, 0, 0},
               {"-+-+-+-+-", 128.0F, 0, 0},
               {"---++++--", 1024.0F, 1, 0}});
  check_steps(BasicHysteresisScale<headroom::RefillOnBackoff>(patience),
              {{"-----", 512.0F, 1, 0},
               {"------", 256.0F, 3, 0},
               {"-+-+-+-+-", 512.0F, 1, 0},
               {"--++++", 2048.0F, 3, 0}});
  check_steps(headroom::PaddleLossScale(patience),
              {{"-----", 512.0F, 1, 0}, {"--+--", 1024.0F, 1, 0}, {"--++++", 2048.0F, 3, 0}});
  check_steps(deepspeed(1), {{"--", 256.0F, 1, 0}});
  check_steps(deepspeed(3), {{"--", 1024.0F, 1, 0},
                             {"----", 256.0F, 1, 0},
                             {"--+-", 512.0F, 1, 0},
                             {"--++++", 2048.0F, 3, 4}});
  check_steps(deepspeed(3, true), {{"--+-", 1024.0F, 2, 0}, {"+++++++", 4096.0F, 3, 7}});
}

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

TEST_CASE(
    "a share equal to the tolerance backs off by fairseq's rule, and only a larger one by "
    "Cerebras'") {
  CHECK(cerebras("+-", 0.5, 9) == "..");
  CHECK(fairseq("+-", 0.5, 9) == ".!");
  CHECK(cerebras("+-", 0.49, 9) == ".!");
  CHECK(fairseq("+-", 0.51, 9) == "..");
  for (const auto& rule : {cerebras, fairseq}) {
    CHECK(rule("-++++-", 0.3, 9) == "!.....");  // an overflow in the first step is a large share
    CHECK(rule("-+--", 0.0, 9) == "!.!!");
  }
}

TEST_CASE("growth resets the steps, and by Cerebras' rule the overflows") {
  CHECK(cerebras("++-++++-", 0.4, 4) == "....g...");       // in the end 1 overflow in 3 steps
  CHECK(fairseq("++-+++++++-", 0.5, 4) == "......g...!");  // 2 overflows in 4 steps
}

TEST_CASE("a tolerance is 0 by default; one that is negative, Inf or NaN is refused") {
  CHECK(headroom::FairseqLossScale().config().overflow_tolerance == 0.0);
  const auto message = [](const double& tolerance) {
    return message_of([&] { (void)headroom::FairseqLossScale(ToleranceConfig{{}, tolerance}); });
  };
  for (const double& good : {0.0, -0.0, 2.0}) CHECK(message(good).empty());
  double bad = 0.0;
  support::set_bits(bad, headroom::binary64::quiet_nan_bits);
  CHECK(message(bad) == "headroom: overflow_tolerance is nan; it must be 0 or more and finite");
  support::set_bits(bad, headroom::binary64::infinity_bits);
  CHECK(message(bad) == "headroom: overflow_tolerance is inf; it must be 0 or more and finite");
  CHECK(message(-0.1) == "headroom: overflow_tolerance is -0.1; it must be 0 or more and finite");
}
