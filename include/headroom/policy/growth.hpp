#pragma once

#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/state/fields.hpp>

#include <cstdint>

namespace headroom {

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

/// Grows after `growth_interval` finite steps since the last change or overflow. The rule of jmp, torch.amp, Emily, apex and
/// Megatron; from `>=`, which is Emily's, a counter that is beyond the interval grows on the next finite step.
class GrowAfterInterval {
 public:
  static constexpr const char* name = "";
  constexpr explicit GrowAfterInterval(const LossScaleConfig&) noexcept {}

  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return counter_; }
  [[nodiscard]] constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    counter_ = grads_finite ? counter_ + 1 : 0;
    if (counter_ < config.growth_interval) return false;
    counter_ = 0;
    return true;
  }
  constexpr void back_off(const LossScaleConfig&) noexcept { counter_ = 0; }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("counter", self.counter_, 0, detail::largest_counter);
  }
  friend constexpr bool operator==(const GrowAfterInterval& a, const GrowAfterInterval& b) noexcept {
    return a.counter_ == b.counter_;
  }

 private:
  std::int64_t counter_ = 0;
};

/// Grows on the finite steps `growth_interval` + 1, 2 `growth_interval` + 1, … since the last overflow, which is what the
/// counter counts. DeepSpeed's rule (the stable interval of its FP16 optimizers).
class GrowAfterStableInterval {
 public:
  static constexpr const char* name = "stable_interval";
  constexpr explicit GrowAfterStableInterval(const LossScaleConfig&) noexcept {}

  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return counter_; }
  [[nodiscard]] constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    const std::int64_t stable = counter_;
    counter_ = grads_finite ? counter_ + 1 : 0;
    return grads_finite && stable >= config.growth_interval && stable % config.growth_interval == 0;
  }
  constexpr void back_off(const LossScaleConfig&) noexcept { counter_ = 0; }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("counter", self.counter_, 0, detail::largest_counter);
  }
  friend constexpr bool operator==(const GrowAfterStableInterval& a, const GrowAfterStableInterval& b) noexcept {
    return a.counter_ == b.counter_;
  }

 private:
  std::int64_t counter_ = 0;
};

/// Grows after more than `growth_interval` steps since the last change, finite or not: what overflows are tolerated count too,
/// and the scale can grow on one. Cerebras' rule (steps_per_increase).
class GrowAfterSteps {
 public:
  static constexpr const char* name = "steps";
  constexpr explicit GrowAfterSteps(const LossScaleConfig&) noexcept {}

  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return counter_; }
  [[nodiscard]] constexpr bool grows(bool, const LossScaleConfig& config) noexcept {
    if (++counter_ <= config.growth_interval) return false;
    counter_ = 0;
    return true;
  }
  constexpr void back_off(const LossScaleConfig&) noexcept { counter_ = 0; }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("counter", self.counter_, 0, detail::largest_counter);
  }
  friend constexpr bool operator==(const GrowAfterSteps& a, const GrowAfterSteps& b) noexcept {
    return a.counter_ == b.counter_;
  }

 private:
  std::int64_t counter_ = 0;
};

/// Grows where the finite steps since the last overflow, which is what the counter counts, are a multiple of a window. The
/// window starts at `growth_interval`, is multiplied by the growth factor when the scale is, and by the backoff factor (to no
/// less than 1) when that is: the larger the scale, the longer it is kept. metaseq's rule.
class GrowAfterScaledWindow {
 public:
  static constexpr const char* name = "scaled_window";
  constexpr explicit GrowAfterScaledWindow(const LossScaleConfig& config) noexcept : window_(config.growth_interval) {}

  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return counter_; }
  [[nodiscard]] constexpr std::int64_t window() const noexcept { return window_; }
  [[nodiscard]] constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    counter_ = grads_finite ? counter_ + 1 : 0;
    if (counter_ < window_ || counter_ % window_ != 0) return false;
    window_ = times(config.growth_factor);
    return true;
  }
  constexpr void back_off(const LossScaleConfig& config) noexcept {
    counter_ = 0;
    window_ = times(config.backoff_factor);
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("counter", self.counter_, 0, detail::largest_counter);
    visit("window", self.window_, 1, detail::largest_counter);
  }
  friend constexpr bool operator==(const GrowAfterScaledWindow& a, const GrowAfterScaledWindow& b) noexcept {
    return a.counter_ == b.counter_ && a.window_ == b.window_;
  }

 private:
  /// The window times a factor, in whole steps.
  [[nodiscard]] constexpr std::int64_t times(double factor) const noexcept {
    const auto window = static_cast<double>(window_);
    if (window >= static_cast<double>(detail::largest_counter) / factor) return detail::largest_counter;
    const auto product = static_cast<std::int64_t>(window * factor);
    return product < 1 ? 1 : product;
  }

  std::int64_t window_;
  std::int64_t counter_ = 0;
};

}  // namespace headroom
