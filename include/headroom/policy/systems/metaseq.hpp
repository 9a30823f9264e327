#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/systems/fairseq.hpp>

#include <algorithm>
#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Grows when the number of finite steps since the last overflow, which the counter counts, is a multiple of a window. The
/// window starts at `growth_interval`, is multiplied by the growth factor when the scale grows, and divided by it, down to a
/// whole number of at least 1, when the scale backs off: the larger the scale, the longer it is kept. metaseq's rule.
class GrowEveryScaledWindowSinceOverflow : public detail::StepCounter {
 public:
  static constexpr const char* name = "scaled_window";
  constexpr explicit GrowEveryScaledWindowSinceOverflow(const LossScaleConfig& config) noexcept
      : window_(static_cast<double>(std::min(config.growth_interval, detail::largest_counter))) {}

  /// In steps; not always whole.
  [[nodiscard]] constexpr double window() const noexcept { return window_; }
  [[nodiscard]] constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    counter_ = grads_finite ? detail::one_more(counter_) : 0;
    if (!is_multiple_of_window()) return false;
    constexpr auto most = static_cast<double>(detail::largest_counter);
    window_ = window_ < most / config.growth_factor ? window_ * config.growth_factor : most;
    return true;
  }
  constexpr void back_off(const LossScaleConfig& config) noexcept {
    counter_ = 0;
    // Under -ffast-math the compiler turns division by a known number into multiplication by its inverse, and 98 / 49 is not 2.
    const double factor =
        __builtin_is_constant_evaluated() ? config.growth_factor : detail::launder(double{config.growth_factor});
    const auto whole = static_cast<std::int64_t>(window_ / factor);
    window_ = whole < 1 ? 1.0 : static_cast<double>(whole);
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    StepCounter::visit_fields(self, visit);
    visit("window", self.window_, 1, detail::largest_counter);
  }
  friend constexpr bool operator==(const GrowEveryScaledWindowSinceOverflow& a,
                                   const GrowEveryScaledWindowSinceOverflow& b) noexcept {
    return a.counter_ == b.counter_ && a.window_ == b.window_;
  }

 private:
  /// Exactly, as std::fmod would say, which is not constexpr. Of a window that is not whole, an odd number of halves, quarters
  /// …, only the multiples of that odd number are whole.
  [[nodiscard]] constexpr bool is_multiple_of_window() const noexcept {
    if (static_cast<double>(counter_) < window_) return false;
    double whole = window_;
    while (whole != static_cast<double>(static_cast<std::int64_t>(whole))) whole *= 2.0;
    return counter_ % static_cast<std::int64_t>(whole) == 0;
  }

  double window_;
};

/// metaseq's rule: presets::metaseq.
using MetaseqLossScale = BasicDynamicLossScale<GrowEveryScaledWindowSinceOverflow, BackOffWhenShareReachesTolerance>;

namespace presets {

/// metaseq's DynamicLossScaler, whose window grows and shrinks with the scale. A backoff that would take its scale below
/// min_loss_scale leaves it where it is, and takes ours to min_loss_scale. That is the same if the scale meets the floor
/// exactly on its way down, as with the defaults.
[[nodiscard]] constexpr MetaseqLossScale metaseq(const double& init_scale = 4.0, const double& scale_factor = 2.0,
                                                 std::int64_t scale_window = 256, const double& tolerance = 0.0,
                                                 const double& threshold = 0.0, const double& min_loss_scale = 0x1p-5) {
  return detail::with_tolerance<MetaseqLossScale>(init_scale, scale_factor, scale_window, tolerance, threshold, min_loss_scale);
}

}  // namespace presets

namespace detail::systems {

struct Metaseq : System {
  static constexpr const char* name = "metaseq";
  [[nodiscard]] static constexpr MetaseqLossScale preset() { return presets::metaseq(); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
