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

namespace detail {

/// Which events besides growth refill the hysteresis, and to what value.
template <bool CleanStep, bool Backoff>
struct RefillOn {
  using Config = HysteresisConfig;
  static constexpr bool on_backoff = Backoff;
  static constexpr std::int32_t least = 0;  // what is left after a backoff that does not refill
  [[nodiscard]] static constexpr bool on_clean_step(const Config&) noexcept { return CleanStep; }
  [[nodiscard]] static constexpr std::int32_t all(const Config& config) noexcept { return config.hysteresis; }
};

}  // namespace detail

/// Every finite step refills the hysteresis, so only `hysteresis` overflows in a row back off. The rule of apex's kernel and of
/// Megatron's documentation.
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

/// A piece of BasicDynamicLossScale. Backs off on the `hysteresis`th overflow, and on every further one until the next refill.
template <class Refill = RefillOnCleanStep>
class BackOffAfterHysteresis {
 public:
  using Config = typename Refill::Config;
  static constexpr const char* name = Refill::name;
  constexpr explicit BackOffAfterHysteresis(const Config& config) noexcept : left_(Refill::all(config)) {}

  [[nodiscard]] constexpr std::int32_t hysteresis_left() const noexcept { return left_; }  ///< overflows until it backs off
  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t, const Config& config) noexcept {
    const bool is_last = !grads_finite && left_ <= 1;
    if (!grads_finite) left_ = is_last ? Refill::least : left_ - 1;
    if (grads_finite ? Refill::on_clean_step(config) : is_last && Refill::on_backoff) grow(config);
    return is_last;
  }
  constexpr void grow(const Config& config) noexcept { left_ = Refill::all(config); }
  constexpr void configure(const Config& config) noexcept { left_ = std::min(left_, Refill::all(config)); }

  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config& config) {
    visit("hysteresis_left", &BackOffAfterHysteresis::left_, Refill::least, Refill::all(config));
  }

 private:
  std::int32_t left_;
};

/// A DynamicLossScale that tolerates a few overflows: see BackOffAfterHysteresis. For gradients with rare spikes, for which
/// skipping the step is enough and the scale need not fall.
template <class Refill = RefillOnCleanStep, class Growth = GrowAfterFiniteSteps>
using BasicHysteresisScale = BasicDynamicLossScale<Growth, BackOffAfterHysteresis<Refill>>;

using HysteresisScale = BasicHysteresisScale<>;  ///< the rule of apex and Megatron

HEADROOM_DETAIL_END_NAMESPACE
