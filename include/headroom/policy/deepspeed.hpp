#pragma once

#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>

#include <cstdint>
#include <limits>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// Grows on the finite steps `growth_interval` + 1, 2 `growth_interval` + 1, … since the last overflow. Growth does not reset
/// the counter.
class GrowEveryIntervalSinceOverflow : public detail::StepCounter {
 public:
  static constexpr const char* name = "stable_interval";
  constexpr explicit GrowEveryIntervalSinceOverflow(const LossScaleConfig&) noexcept {}

  [[nodiscard]] constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    const std::int64_t stable = counter_;
    counter_ = grads_finite ? detail::one_more(counter_) : 0;
    return grads_finite && stable >= config.growth_interval && stable % config.growth_interval == 0;
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

/// The last of `delayed_shift` is never used up, so that every overflow backs off until a refill.
struct RefillOfDelayedShift {
  using Config = DelayedShiftConfig;
  static constexpr const char* name = "delayed_shift";
  static constexpr bool on_backoff = false;
  static constexpr std::int32_t least = 1;
  [[nodiscard]] static constexpr bool on_clean_step(const Config& config) noexcept { return config.consecutive_hysteresis; }
  [[nodiscard]] static constexpr std::int32_t all(const Config& config) noexcept { return config.delayed_shift; }
};

}  // namespace detail

using BackOffAfterDelayedShift = BackOffAfterHysteresis<detail::RefillOfDelayedShift>;  ///< DeepSpeed's backoff

/// The policy of presets::deepspeed.
using DeepSpeedLossScale = BasicDynamicLossScale<GrowEveryIntervalSinceOverflow, BackOffAfterDelayedShift>;

HEADROOM_DETAIL_END_NAMESPACE
