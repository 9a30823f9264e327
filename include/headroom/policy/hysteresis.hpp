#pragma once

#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/policy/verbs.hpp>

#include <cstdint>

namespace headroom {

struct HysteresisConfig {
  LossScaleConfig scale;
  std::int32_t hysteresis = 2;  ///< overflows before the scale backs off; at least 1

  friend constexpr bool operator==(const HysteresisConfig& a, const HysteresisConfig& b) noexcept {
    return a.scale == b.scale && a.hysteresis == b.hysteresis;
  }
  friend constexpr bool operator!=(const HysteresisConfig& a, const HysteresisConfig& b) noexcept { return !(a == b); }
};

/// Any finite step refills the hysteresis, so only overflows in a row back off: apex's kernel, and Megatron's documentation.
struct RefillOnCleanStep {
  static constexpr bool on_clean_step = true, on_growth = true, on_backoff = false;
};
/// Only growth refills it: Megatron's code. An overflow every third step walks the scale down to the floor.
struct RefillOnGrowth {
  static constexpr bool on_clean_step = false, on_growth = true, on_backoff = false;
};
/// Growth refills it, and so does a backoff: every `hysteresis` overflows back off once.
struct RefillOnBackoff {
  static constexpr bool on_clean_step = false, on_growth = true, on_backoff = true;
};

/// A dynamic loss scale that tolerates overflows: each uses up one of `hysteresis`, and when none is left the scale backs off,
/// on that overflow and on every further one until the refill. Otherwise as BasicDynamicLossScale. For runs whose gradients
/// have rare spikes: skipping the step is enough for those, and the scale need not pay for it.
template <class Refill = RefillOnCleanStep>
class BasicHysteresisScale : public LossScaleVerbs<BasicHysteresisScale<Refill>> {
 public:
  /// Throws std::invalid_argument naming the field and its value where the configuration is out of range.
  constexpr explicit BasicHysteresisScale(const HysteresisConfig& config = {})
      : config_(config), scale_(config.scale.initial_scale), hysteresis_left_(config.hysteresis) {
    detail::check(config_.scale);
    if (config_.hysteresis < 1) {
      detail::throw_bad_value("hysteresis", static_cast<double>(config_.hysteresis), "at least 1");
    }
  }

  [[nodiscard]] constexpr float loss_scale() const noexcept { return scale_; }
  [[nodiscard]] constexpr float inv_scale() const noexcept { return 1.0F / scale_; }
  [[nodiscard]] constexpr const HysteresisConfig& config() const noexcept { return config_; }
  /// Finite steps since the last change of the scale (or overflow).
  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return counter_; }
  /// Overflows still to be tolerated, the one that backs off among them; 0 after it, until the refill.
  [[nodiscard]] constexpr std::int32_t hysteresis_left() const noexcept { return hysteresis_left_; }

  [[nodiscard]] constexpr BasicHysteresisScale adjust(bool grads_finite) const noexcept {
    return grads_finite ? after_clean_step() : after_overflow();
  }
  [[nodiscard]] constexpr BasicHysteresisScale adjust(const GradientReport& report) const noexcept {
    return adjust(report.finite);
  }

  friend constexpr bool operator==(const BasicHysteresisScale& a, const BasicHysteresisScale& b) noexcept {
    return a.config_ == b.config_ && a.scale_ == b.scale_ && a.counter_ == b.counter_ &&
           a.hysteresis_left_ == b.hysteresis_left_;
  }
  friend constexpr bool operator!=(const BasicHysteresisScale& a, const BasicHysteresisScale& b) noexcept { return !(a == b); }

 private:
  [[nodiscard]] constexpr BasicHysteresisScale after_clean_step() const noexcept {
    BasicHysteresisScale next = *this;
    const bool grows = ++next.counter_ >= config_.scale.growth_interval;
    if (grows) {
      next.counter_ = 0;
      next.scale_ = detail::grown(scale_, config_.scale);
    }
    if (Refill::on_clean_step || (Refill::on_growth && grows)) next.hysteresis_left_ = config_.hysteresis;
    return next;
  }
  [[nodiscard]] constexpr BasicHysteresisScale after_overflow() const noexcept {
    BasicHysteresisScale next = *this;
    next.counter_ = 0;
    if (next.hysteresis_left_ > 0) --next.hysteresis_left_;
    if (next.hysteresis_left_ == 0) {
      next.scale_ = detail::backed_off(scale_, config_.scale);
      if (Refill::on_backoff) next.hysteresis_left_ = config_.hysteresis;
    }
    return next;
  }

  HysteresisConfig config_;
  float scale_;
  std::int32_t hysteresis_left_;
  std::int64_t counter_ = 0;
};

using HysteresisScale = BasicHysteresisScale<>;

}  // namespace headroom
