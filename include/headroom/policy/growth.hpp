#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/state/fields.hpp>

#include <algorithm>
#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

// When a scale grows: the first parameter of BasicDynamicLossScale. Such a piece is a value with
//
//     static constexpr const char* name;                                // in the name of the policy; "" for the usual one
//     constexpr explicit Piece(const LossScaleConfig&);
//     constexpr std::int64_t counter() const noexcept;                  // the steps it has counted
//     constexpr bool grows(bool grads_finite, const LossScaleConfig&);  // counts a step on which the scale did not back off
//     constexpr void back_off(const LossScaleConfig&);                  // a step on which it did
//     template <class Self, class Visit> static void visit_fields(Self&, Visit&);
//
// and equality. All are noexcept.

namespace detail {

/// What the pieces below have in common: a counter.
class StepCounter {
 public:
  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return counter_; }
  constexpr void back_off(const LossScaleConfig&) noexcept { counter_ = 0; }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("counter", self.counter_, 0, largest_counter);
  }
  friend constexpr bool operator==(const StepCounter& a, const StepCounter& b) noexcept { return a.counter_ == b.counter_; }

 protected:
  std::int64_t counter_ = 0;
};

}  // namespace detail

/// Grows after `growth_interval` finite steps since the last change or overflow. The rule of jmp, torch.amp, Emily, apex and
/// Megatron; from `>=`, which is Emily's, a counter that is beyond the interval grows on the next finite step.
class GrowAfterFiniteSteps : public detail::StepCounter {
 public:
  static constexpr const char* name = "";
  constexpr explicit GrowAfterFiniteSteps(const LossScaleConfig&) noexcept {}

  [[nodiscard]] constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    counter_ = grads_finite ? detail::one_more(counter_) : 0;
    if (counter_ < config.growth_interval) return false;
    counter_ = 0;
    return true;
  }
};

/// Grows on the finite steps `growth_interval` + 1, 2 `growth_interval` + 1, … since the last overflow, which is what the
/// counter counts. DeepSpeed's rule (the stable interval of its FP16 optimizers).
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

/// Grows after more than `growth_interval` steps since the last change, finite or not: what overflows are tolerated count too,
/// and the scale can grow on one. Cerebras' rule (steps_per_increase).
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

/// Grows where the finite steps since the last overflow, which is what the counter counts, are a multiple of a window. The
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
    // Under -ffast-math a division by what is known is a multiplication by its inverse, and 98 / 49 not 2.
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

namespace detail {

/// How many overflows there can have been since a growth piece began to count.
template <class Growth>
[[nodiscard]] constexpr std::int64_t most_overflows(const Growth&) noexcept {
  return largest_counter;
}
[[nodiscard]] constexpr std::int64_t most_overflows(const GrowAfterAllSteps& growth) noexcept { return growth.counter(); }

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
