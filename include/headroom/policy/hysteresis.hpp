#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The settings of a scale with hysteresis.
struct HysteresisConfig {
  LossScaleConfig scale;
  std::int32_t hysteresis = 2;  ///< overflows before the scale backs off; at least 1

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("hysteresis", &HysteresisConfig::hysteresis, 1, std::numeric_limits<std::int32_t>::max(), "at least 1");
  }
};

/// Any finite step refills the hysteresis, so only overflows in a row back off: apex's kernel, and Megatron's documentation.
struct RefillOnCleanStep {
  static constexpr const char* name = "hysteresis";
  static constexpr bool on_clean_step = true, on_backoff = false;
};
/// Only growth refills it: Megatron's code. An overflow every third step walks the scale down to the floor.
struct RefillOnGrowth {
  static constexpr const char* name = "hysteresis_refill_on_growth";
  static constexpr bool on_clean_step = false, on_backoff = false;
};
/// Growth refills it, and so does a backoff: every `hysteresis` overflows back off once.
struct RefillOnBackoff {
  static constexpr const char* name = "hysteresis_refill_on_backoff";
  static constexpr bool on_clean_step = false, on_backoff = true;
};

/// An overflow uses up one of `hysteresis`; when none is left the scale backs off, on that overflow and on every further one
/// until the refill. A piece of BasicDynamicLossScale.
template <class Refill = RefillOnCleanStep>
class BackOffAfterHysteresis {
 public:
  using Config = HysteresisConfig;
  static constexpr const char* name = Refill::name;
  constexpr explicit BackOffAfterHysteresis(const Config& config) noexcept : left_(config.hysteresis) {}

  [[nodiscard]] constexpr std::int32_t hysteresis_left() const noexcept { return left_; }
  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t, const Config& config) noexcept {
    if (grads_finite) {
      if (Refill::on_clean_step) left_ = config.hysteresis;
      return false;
    }
    if (left_ > 0) --left_;
    if (left_ > 0) return false;
    if (Refill::on_backoff) left_ = config.hysteresis;
    return true;
  }
  constexpr void grow(const Config& config) noexcept { left_ = config.hysteresis; }
  constexpr void configure(const Config& config) noexcept { left_ = std::min(left_, config.hysteresis); }

  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config& config) {
    visit("hysteresis_left", &BackOffAfterHysteresis::left_, 0, config.hysteresis);
  }

 private:
  std::int32_t left_;
};

/// A dynamic loss scale that tolerates overflows (see BackOffAfterHysteresis) and otherwise works like DynamicLossScale. For
/// gradients with rare spikes: skipping those steps is enough, and the scale need not fall.
template <class Refill = RefillOnCleanStep, class Growth = GrowAfterFiniteSteps>
using BasicHysteresisScale = BasicDynamicLossScale<Growth, BackOffAfterHysteresis<Refill>>;

using HysteresisScale = BasicHysteresisScale<>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
