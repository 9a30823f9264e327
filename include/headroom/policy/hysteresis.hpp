#pragma once

#include <headroom/policy/dynamic.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The settings of HysteresisScale.
struct HysteresisConfig {
  LossScaleConfig scale;        ///< the settings of every adaptive policy
  std::int32_t hysteresis = 2;  ///< overflows before the scale backs off; at least 1

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("hysteresis", &HysteresisConfig::hysteresis, 1, std::numeric_limits<std::int32_t>::max(), "at least 1");
  }
};

/// The settings of DeepSpeed's rule, by its names.
struct DelayedShiftConfig {
  LossScaleConfig scale;                ///< the settings of every adaptive policy
  std::int32_t delayed_shift = 1;       ///< overflows before the scale backs off; at least 1
  bool consecutive_hysteresis = false;  ///< true: every finite step refills; false: only growth does

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("delayed_shift", &DelayedShiftConfig::delayed_shift, 1, std::numeric_limits<std::int32_t>::max(), "at least 1");
    visit("consecutive_hysteresis", &DelayedShiftConfig::consecutive_hysteresis);
  }
};

namespace detail {

/// Which events besides growth refill the hysteresis, and to what value.
template <bool CleanStep, bool Backoff>
struct RefillOn {
  using Config = HysteresisConfig;
  static constexpr bool on_backoff = Backoff;
  static constexpr std::int32_t least = 0;  // what is left after a backoff that does not refill
  [[nodiscard]] HEADROOM_DETAIL_HD static constexpr bool on_clean_step(const Config&) noexcept { return CleanStep; }
  [[nodiscard]] HEADROOM_DETAIL_HD static constexpr std::int32_t all(const Config& c) noexcept { return c.hysteresis; }
};
/// The last of `delayed_shift` is never used up, so that every overflow backs off until a refill.
struct RefillOfDelayedShift : RefillOn<false, false> {
  using Config = DelayedShiftConfig;
  static constexpr const char* name = "delayed_shift";
  static constexpr std::int32_t least = 1;
  [[nodiscard]] HEADROOM_DETAIL_HD static constexpr bool on_clean_step(const Config& c) noexcept {
    return c.consecutive_hysteresis;
  }
  [[nodiscard]] HEADROOM_DETAIL_HD static constexpr std::int32_t all(const Config& c) noexcept { return c.delayed_shift; }
};

}  // namespace detail

/// Every finite step refills, so only `hysteresis` overflows in a row back off: apex's kernel and Megatron's documentation.
struct RefillOnCleanStep : detail::RefillOn<true, false> {
  static constexpr const char* name = "hysteresis";
};
/// Only growth refills it, as in Megatron's code. If every third step overflows, the scale falls to the floor.
struct RefillOnGrowth : detail::RefillOn<false, false> {
  static constexpr const char* name = "hysteresis_refill_on_growth";
};
/// Growth and backoffs refill it, so every `hysteresis` overflows back off once.
struct RefillOnBackoff : detail::RefillOn<false, true> {
  static constexpr const char* name = "hysteresis_refill_on_backoff";
};

/// A backoff rule of BasicDynamicLossScale. Backs off on the `hysteresis`th overflow, and on every further one until a refill.
template <class Refill = RefillOnCleanStep>
class BackOffAfterHysteresis {
 public:
  using Config = typename Refill::Config;
  static constexpr const char* name = Refill::name;
  constexpr explicit BackOffAfterHysteresis(const Config& config) noexcept : left_(Refill::all(config)) {}

  /// Overflows until it backs off.
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr std::int32_t hysteresis_left() const noexcept { return left_; }
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr bool backs_off(bool grads_finite, std::int64_t, const Config& config) noexcept {
    const bool is_last = !grads_finite && left_ <= 1;
    if (!grads_finite) left_ = is_last ? Refill::least : left_ - 1;
    if (grads_finite ? Refill::on_clean_step(config) : is_last && Refill::on_backoff) grow(config);
    return is_last;
  }
  HEADROOM_DETAIL_HD constexpr void grow(const Config& config) noexcept { left_ = Refill::all(config); }
  constexpr void configure(const Config& config) noexcept { left_ = std::min(left_, Refill::all(config)); }

  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config& config) {
    visit("hysteresis_left", &BackOffAfterHysteresis::left_, Refill::least, Refill::all(config));
  }

 private:
  std::int32_t left_;
};

/// A DynamicLossScale that tolerates a few overflows, for gradients with rare spikes, for which skipping the step is enough.
template <class Refill = RefillOnCleanStep, class Growth = GrowAfterFiniteSteps>
using BasicHysteresisScale = BasicDynamicLossScale<Growth, BackOffAfterHysteresis<Refill>>;

using HysteresisScale = BasicHysteresisScale<>;  ///< the rule of apex and Megatron

/// Grows on finite steps `growth_interval` + 1, 2 `growth_interval` + 1, … since the last overflow. Growth keeps the counter.
class GrowEveryIntervalSinceOverflow : public detail::StepCounter {
 public:
  static constexpr const char* name = "stable_interval";
  constexpr explicit GrowEveryIntervalSinceOverflow(const LossScaleConfig&) noexcept {}
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    const std::int64_t stable = counter_;
    counter_ = grads_finite ? detail::one_more(counter_) : 0;
    return grads_finite && stable >= config.growth_interval && stable % config.growth_interval == 0;
  }
};

using BackOffAfterDelayedShift = BackOffAfterHysteresis<detail::RefillOfDelayedShift>;  ///< DeepSpeed's backoff
/// The policy of presets::deepspeed.
using DeepSpeedLossScale = BasicDynamicLossScale<GrowEveryIntervalSinceOverflow, BackOffAfterDelayedShift>;

/// The settings of CerebrasLossScale and FairseqLossScale.
struct ToleranceConfig {
  LossScaleConfig scale;            ///< the settings of every adaptive policy
  double overflow_tolerance = 0.0;  ///< the share of steps that may overflow; 0 or more

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("overflow_tolerance", &ToleranceConfig::overflow_tolerance, 0.0, detail::largest_double, "0 or more and finite");
  }
};

/// Grows after more than `growth_interval` steps since the last change, finite or not: Cerebras' steps_per_increase.
class GrowAfterAllSteps : public detail::StepCounter {
 public:
  static constexpr const char* name = "steps";
  constexpr explicit GrowAfterAllSteps(const LossScaleConfig&) noexcept {}
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr bool grows(bool, const LossScaleConfig& config) noexcept {
    counter_ = detail::one_more(counter_);
    if (counter_ <= config.growth_interval) return false;
    counter_ = 0;
    return true;
  }
};

/// Backs off when the share of overflows since the last change exceeds `overflow_tolerance`: Cerebras' rule, with
/// GrowAfterAllSteps. An overflow soon after a change is a large share and backs off at once. The share is formed in float.
class BackOffWhenShareExceedsTolerance {
 public:
  using Config = ToleranceConfig;
  static constexpr const char* name = "over_tolerance";
  constexpr explicit BackOffWhenShareExceedsTolerance(const Config&) noexcept {}
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr bool backs_off(bool grads_finite, std::int64_t counter,
                                                            const Config& config) noexcept {
    if (!grads_finite) overflows_ = detail::one_more(overflows_);
    if (overflows_ == 0) return false;
    const float share = static_cast<float>(overflows_) / static_cast<float>(counter + 1);
    if (share <= static_cast<float>(config.overflow_tolerance)) return false;
    overflows_ = 0;
    return true;
  }
  HEADROOM_DETAIL_HD constexpr void grow(const Config&) noexcept { overflows_ = 0; }
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
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr bool backs_off(bool grads_finite, std::int64_t, const Config& config) noexcept {
    steps_ = detail::one_more(steps_);
    if (grads_finite) return false;
    overflows_ = detail::one_more(overflows_);
    if (static_cast<double>(overflows_) / static_cast<double>(steps_) < config.overflow_tolerance) return false;
    steps_ = overflows_ = 0;
    return true;
  }
  HEADROOM_DETAIL_HD constexpr void grow(const Config&) noexcept { steps_ = 0; }
  constexpr void configure(const Config&) noexcept {}

  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config&) {
    visit("steps", &BackOffWhenShareReachesTolerance::steps_, 0, detail::largest_counter);
    visit("overflows", &BackOffWhenShareReachesTolerance::overflows_, 0, detail::largest_counter);
  }

 private:
  std::int64_t steps_ = 0, overflows_ = 0;  // since the last change; since the last backoff
};

using CerebrasLossScale = BasicDynamicLossScale<GrowAfterAllSteps, BackOffWhenShareExceedsTolerance>;  ///< presets::cerebras_…
using FairseqLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffWhenShareReachesTolerance>;  ///< presets::fairseq

HEADROOM_DETAIL_END_NAMESPACE
