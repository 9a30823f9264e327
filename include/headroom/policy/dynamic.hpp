#pragma once

#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/policy/verbs.hpp>

#include <cstdint>

namespace headroom {

/// Grows after `growth_interval` finite steps since the last change. So jmp, torch.amp and Emily; from `>=`, which is Emily's,
/// a counter that is beyond the interval grows on the next finite step.
struct GrowAfterInterval {
  [[nodiscard]] static constexpr bool grows(std::int64_t counter, const LossScaleConfig& config) noexcept {
    return counter >= config.growth_interval;
  }
};

/// Every overflow backs off at once. So jmp, torch.amp and Emily.
struct BackOffAtOnce {
  [[nodiscard]] static constexpr float next_scale(float scale, const LossScaleConfig& config) noexcept {
    return detail::backed_off(scale, config);
  }
};

/// The dynamic loss scale of jmp.DynamicLossScale and torch.amp.GradScaler:
///
///     adjust(true):   counter += 1
///                     if counter >= growth_interval:  scale = min(scale * growth_factor, max_scale);  counter = 0
///     adjust(false):  counter = 0;  scale = max(scale * backoff_factor, min_scale)
///
/// An immutable value: adjust returns the next one. `Growth` says when to grow, `Backoff` what an overflow does.
template <class Growth = GrowAfterInterval, class Backoff = BackOffAtOnce>
class BasicDynamicLossScale : public LossScaleVerbs<BasicDynamicLossScale<Growth, Backoff>> {
 public:
  /// Throws std::invalid_argument naming the field and its value where the configuration is out of range.
  constexpr explicit BasicDynamicLossScale(const LossScaleConfig& config = {}) : config_(config), scale_(config.initial_scale) {
    detail::check(config_);
  }

  [[nodiscard]] constexpr float loss_scale() const noexcept { return scale_; }
  [[nodiscard]] constexpr float inv_scale() const noexcept { return 1.0F / scale_; }
  [[nodiscard]] constexpr const LossScaleConfig& config() const noexcept { return config_; }
  /// Finite steps since the last change of the scale (or overflow).
  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return counter_; }

  [[nodiscard]] constexpr BasicDynamicLossScale adjust(bool grads_finite) const noexcept {
    BasicDynamicLossScale next = *this;
    if (!grads_finite) {
      next.counter_ = 0;
      next.scale_ = Backoff::next_scale(scale_, config_);
    } else if (Growth::grows(++next.counter_, config_)) {
      next.counter_ = 0;
      next.scale_ = detail::grown(scale_, config_);
    }
    return next;
  }
  [[nodiscard]] constexpr BasicDynamicLossScale adjust(const GradientReport& report) const noexcept {
    return adjust(report.finite);
  }

  friend constexpr bool operator==(const BasicDynamicLossScale& a, const BasicDynamicLossScale& b) noexcept {
    return a.config_ == b.config_ && a.scale_ == b.scale_ && a.counter_ == b.counter_;
  }
  friend constexpr bool operator!=(const BasicDynamicLossScale& a, const BasicDynamicLossScale& b) noexcept {
    return !(a == b);
  }

 private:
  LossScaleConfig config_;
  float scale_;
  std::int64_t counter_ = 0;
};

using DynamicLossScale = BasicDynamicLossScale<>;

}  // namespace headroom
