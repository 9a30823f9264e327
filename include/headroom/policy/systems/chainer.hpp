#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>
#include <headroom/report.hpp>

#include <cstdint>
#include <string>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Chainer's rule: presets::chainer. Every finite step grows the scale: by the growth factor until a step has overflowed, and
/// from then on by so much that `growth_interval` of them make the growth factor:
///
///     adjust(true):   scale *= has_overflowed ? growth_factor^(1 / growth_interval) : growth_factor
///     adjust(false):  scale *= backoff_factor;  has_overflowed = true
///
/// Either keeps it in [min_scale, max_scale]. The scale is kept in double, as in Chainer, and loss_scale() is the nearest
/// float. No power of two, it rounds the gradients once more.
class ChainerLossScale : public detail::ConfiguredLossScale<ChainerLossScale> {
  friend detail::ConfiguredLossScale<ChainerLossScale>;

 public:
  using Config = LossScaleConfig;

  /// With presets::chainer's configuration.
  ChainerLossScale() : ChainerLossScale(LossScaleConfig{1.0F, 1000, 2.0, 0.5, 1.0F, 65504.0F}) {}
  /// Throws std::invalid_argument naming the field and its value if the configuration is out of range.
  explicit ChainerLossScale(const Config& config) : ChainerLossScale(config, step_factor_of(config)) {}

  [[nodiscard]] constexpr float loss_scale() const noexcept { return detail::rounded_to_float(scale_); }
  [[nodiscard]] constexpr const Config& config() const noexcept { return config_; }
  /// 0: no step is waited for.
  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return 0; }
  [[nodiscard]] constexpr bool has_overflowed() const noexcept { return has_overflowed_; }
  /// What a finite step multiplies by once a step has overflowed.
  [[nodiscard]] constexpr double step_factor() const noexcept { return step_factor_; }

  [[nodiscard]] constexpr ChainerLossScale adjust(bool grads_finite) const noexcept {
    const auto least = static_cast<double>(config_.min_scale), most = static_cast<double>(config_.max_scale);
    ChainerLossScale next = *this;
    if (grads_finite) {
      const double factor = has_overflowed_ ? step_factor_ : config_.growth_factor;
      if (config_.refuse_infinite_growth && detail::grows_to_infinity(loss_scale(), factor)) return next;
      next.scale_ = scale_ > most / factor ? most : scale_ * factor;  // the product might overflow
    } else {
      next.scale_ *= config_.backoff_factor;
      next.has_overflowed_ = true;
    }
    if (next.scale_ > most) next.scale_ = most;
    if (next.scale_ < least) next.scale_ = least;
    return next;
  }
  [[nodiscard]] constexpr ChainerLossScale adjust(const GradientReport& report) const noexcept { return adjust(report.finite); }

  /// The same policy with another scale; the next step brings one below min_scale up to it, unless it refuses to grow. This and
  /// the members that follow throw std::invalid_argument where those of BasicDynamicLossScale do.
  [[nodiscard]] constexpr ChainerLossScale with_loss_scale(const float& scale) const {
    return with_scale(static_cast<double>(scale));
  }
  /// The same policy with other settings; the scale stays.
  [[nodiscard]] ChainerLossScale with_config(const Config& config) const {
    ChainerLossScale next(config);
    next.has_overflowed_ = has_overflowed_;
    return next.with_scale(scale_);
  }

  [[nodiscard]] static std::string policy_name() { return "chainer"; }

  friend constexpr bool operator==(const ChainerLossScale& a, const ChainerLossScale& b) noexcept {
    return a.config_ == b.config_ && a.scale_ == b.scale_ && a.has_overflowed_ == b.has_overflowed_;
  }
  friend constexpr bool operator!=(const ChainerLossScale& a, const ChainerLossScale& b) noexcept { return !(a == b); }

 private:
  constexpr ChainerLossScale(const Config& config, double step_factor) noexcept
      : config_(config), scale_(static_cast<double>(config.initial_scale)), step_factor_(step_factor) {}

  /// By the library's pow, as in Chainer, and not by what the compiler makes of powers of 2.
  [[nodiscard]] static double step_factor_of(const Config& config) {
    detail::check(config);
    const double exponent = detail::launder(1.0 / static_cast<double>(config.growth_interval));
    return __builtin_pow(detail::launder(double{config.growth_factor}), exponent);
  }
  [[nodiscard]] constexpr ChainerLossScale with_scale(double scale) const {
    (void)detail::scale_argument("loss_scale", scale);
    detail::check_order("loss_scale", scale, "max_scale", static_cast<double>(config_.max_scale));
    ChainerLossScale next = *this;
    next.scale_ = scale;
    return next;
  }
  template <class Self, class Visit>
  static void visit_state(Self& self, Visit& visit) {
    visit("loss_scale", self.scale_);
    visit("has_overflowed", self.has_overflowed_);
  }

  Config config_;
  double scale_, step_factor_;
  bool has_overflowed_ = false;
};

namespace presets {

/// Chainer's Optimizer.loss_scaling("dynamic"), with `interval` as its argument: it starts at 1 and stays in [1, 65504].
[[nodiscard]] inline ChainerLossScale chainer(std::int64_t interval = 1000) {
  detail::check_count("interval", interval);
  return ChainerLossScale(LossScaleConfig{1.0F, interval, 2.0, 0.5, 1.0F, 65504.0F});
}

}  // namespace presets

namespace detail::systems {

struct Chainer : System {
  static constexpr const char* name = "chainer";
  [[nodiscard]] static ChainerLossScale preset() { return presets::chainer(); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
