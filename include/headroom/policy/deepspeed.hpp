#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Grows on the finite steps `growth_interval` + 1, 2 `growth_interval` + 1, … since the last overflow. The counter counts all
/// of them and is not reset by growth.
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
  LossScaleConfig scale;
  std::int32_t delayed_shift = 1;       ///< overflows before the scale backs off; at least 1
  bool consecutive_hysteresis = false;  ///< whether any finite step refills, or only growth

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("delayed_shift", &DelayedShiftConfig::delayed_shift, 1, std::numeric_limits<std::int32_t>::max(), "at least 1");
    visit("consecutive_hysteresis", &DelayedShiftConfig::consecutive_hysteresis);
  }
};

/// DeepSpeed's hysteresis: an overflow uses up one of `delayed_shift` while more than one is left. With one left it backs off,
/// and that one stays. `consecutive_hysteresis` says which steps refill it.
class BackOffAfterDelayedShift {
 public:
  using Config = DelayedShiftConfig;
  static constexpr const char* name = "delayed_shift";
  constexpr explicit BackOffAfterDelayedShift(const Config& config) noexcept : left_(config.delayed_shift) {}

  /// At least 1.
  [[nodiscard]] constexpr std::int32_t hysteresis_left() const noexcept { return left_; }
  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t, const Config& config) noexcept {
    if (grads_finite) {
      if (config.consecutive_hysteresis) left_ = config.delayed_shift;
      return false;
    }
    if (left_ == 1) return true;
    --left_;
    return false;
  }
  constexpr void grow(const Config& config) noexcept { left_ = config.delayed_shift; }
  constexpr void configure(const Config& config) noexcept { left_ = std::min(left_, config.delayed_shift); }

  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config& config) {
    visit("hysteresis_left", &BackOffAfterDelayedShift::left_, 1, config.delayed_shift);
  }

 private:
  std::int32_t left_;
};

/// DeepSpeed's rule: presets::deepspeed.
using DeepSpeedLossScale = BasicDynamicLossScale<GrowEveryIntervalSinceOverflow, BackOffAfterDelayedShift>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
