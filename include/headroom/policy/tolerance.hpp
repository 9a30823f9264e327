#pragma once

#include <headroom/policy/dynamic.hpp>

#include <cstdint>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The settings of a rule that tolerates a share of overflows.
struct ToleranceConfig {
  LossScaleConfig scale;
  double overflow_tolerance = 0.0;  ///< share of the steps that may overflow; 0 or more

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("overflow_tolerance", &ToleranceConfig::overflow_tolerance, 0.0, detail::largest_double, "0 or more and finite");
  }
};

/// Grows after more than `growth_interval` steps since the last change, finite or not. An overflow that is tolerated counts
/// too, and the scale can grow on one. Cerebras' rule (steps_per_increase).
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

/// Backs off when more than a share of `overflow_tolerance` of the steps since the last change, as the growth piece counts
/// them, have overflowed. An early overflow is a large share and backs off at once; a late one is tolerated. With
/// GrowAfterAllSteps this is Cerebras' rule; the share is formed in float, as there.
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

/// Backs off on an overflow if at least a share of `overflow_tolerance` of the steps since the scale last changed, including
/// this one, have overflowed. Growth resets the count of steps, but not that of overflows. fairseq's rule; the share is formed
/// in double, as there.
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
  std::int64_t steps_ = 0, overflows_ = 0;  // since the last change of the scale, and since the last backoff
};

/// presets::cerebras_fp16 and presets::cerebras_cbfloat16
using CerebrasLossScale = BasicDynamicLossScale<GrowAfterAllSteps, BackOffWhenShareExceedsTolerance>;
/// presets::fairseq
using FairseqLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffWhenShareReachesTolerance>;

HEADROOM_DETAIL_END_NAMESPACE
