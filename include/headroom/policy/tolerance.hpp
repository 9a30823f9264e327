#pragma once

#include <headroom/policy/dynamic.hpp>

#include <cstdint>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The settings of CerebrasLossScale and FairseqLossScale.
struct ToleranceConfig {
  LossScaleConfig scale;            ///< the settings of every adaptive policy
  double overflow_tolerance = 0.0;  ///< the share of steps that may overflow; 0 or more

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("overflow_tolerance", &ToleranceConfig::overflow_tolerance, 0.0, detail::largest_double, "0 or more and finite");
  }
};

/// Grows after more than `growth_interval` steps since the last change, finite or not: Cerebras' rule (steps_per_increase). The
/// scale can grow on an overflow that is tolerated.
class GrowAfterAllSteps : public detail::StepCounter {
 public:
  static constexpr const char* name = "steps";
  constexpr explicit GrowAfterAllSteps(const LossScaleConfig&) noexcept {}

  [[nodiscard]] constexpr bool grows(bool, const LossScaleConfig& config) noexcept {
    counter_ = detail::one_more(counter_);
    if (counter_ <= config.growth_interval) return false;
    counter_ = 0;
    return true;
  }
};

/// Backs off when the share of overflows since the last change exceeds `overflow_tolerance`. The growth rule counts the steps.
/// An overflow soon after the last change is a large share and backs off at once. With GrowAfterAllSteps this is Cerebras'
/// rule. The share is formed in float, as there.
class BackOffWhenShareExceedsTolerance {
 public:
  using Config = ToleranceConfig;
  static constexpr const char* name = "over_tolerance";
  constexpr explicit BackOffWhenShareExceedsTolerance(const Config&) noexcept {}

  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t counter, const Config& config) noexcept {
    if (!grads_finite) overflows_ = detail::one_more(overflows_);
    if (overflows_ == 0) return false;
    const float share = static_cast<float>(overflows_) / static_cast<float>(counter + 1);
    if (share <= static_cast<float>(config.overflow_tolerance)) return false;
    overflows_ = 0;
    return true;
  }
  constexpr void grow(const Config&) noexcept { overflows_ = 0; }
  constexpr void configure(const Config&) noexcept {}

  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config&) {
    visit("overflows", &BackOffWhenShareExceedsTolerance::overflows_, 0, detail::largest_counter);
  }

 private:
  std::int64_t overflows_ = 0;  // since the last change of the scale
};

/// fairseq's rule. Backs off on an overflow if overflows / steps is at least `overflow_tolerance`, including this step. The
/// overflows are those since the last backoff, and the steps those since the last change. The share is formed in double.
class BackOffWhenShareReachesTolerance {
 public:
  using Config = ToleranceConfig;
  static constexpr const char* name = "at_tolerance";
  constexpr explicit BackOffWhenShareReachesTolerance(const Config&) noexcept {}

  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t, const Config& config) noexcept {
    steps_ = detail::one_more(steps_);
    if (grads_finite) return false;
    overflows_ = detail::one_more(overflows_);
    if (static_cast<double>(overflows_) / static_cast<double>(steps_) < config.overflow_tolerance) return false;
    steps_ = overflows_ = 0;
    return true;
  }
  constexpr void grow(const Config&) noexcept { steps_ = 0; }
  constexpr void configure(const Config&) noexcept {}

  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config&) {
    visit("steps", &BackOffWhenShareReachesTolerance::steps_, 0, detail::largest_counter);
    visit("overflows", &BackOffWhenShareReachesTolerance::overflows_, 0, detail::largest_counter);
  }

 private:
  std::int64_t steps_ = 0, overflows_ = 0;  // since the last change; since the last backoff
};

/// The policy of presets::cerebras_fp16 and presets::cerebras_cbfloat16.
using CerebrasLossScale = BasicDynamicLossScale<GrowAfterAllSteps, BackOffWhenShareExceedsTolerance>;
/// The policy of presets::fairseq.
using FairseqLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffWhenShareReachesTolerance>;

HEADROOM_DETAIL_END_NAMESPACE
