#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/state/fields.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

// When a scale grows: the first parameter of BasicDynamicLossScale. Such a piece is a value with
//
//     using Config = …;                                       // its settings, if a LossScaleConfig is not enough: below
//     static constexpr const char* name;                      // in the name of the policy; "" for the usual one
//     constexpr explicit Piece(const Config&);
//     constexpr std::int64_t counter() const noexcept;        // the steps it has counted
//     constexpr bool grows(bool grads_finite, const Config&);  // counts a step on which the scale did not back off
//     constexpr void back_off(const Config&);                 // a step on which it did
//     template <class Visit> static constexpr void fields(Visit&&, const Config&);  // its members: see state/fields.hpp
//
// All are noexcept. Settings of its own are an aggregate with
//
//     LossScaleConfig scale;
//     template <class Visit> static constexpr void fields(Visit&&);  // those beside `scale`, with their bounds
//
// Where several pieces of a policy have some, the one Config derives from the others, and its `fields` calls theirs.

namespace detail {

/// What headroom's pieces have in common: a counter.
class StepCounter {
 public:
  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return counter_; }
  constexpr void back_off(const LossScaleConfig&) noexcept { counter_ = 0; }

  template <class Visit, class Config>
  static constexpr void fields(Visit&& visit, const Config&) {
    visit("counter", &StepCounter::counter_, 0, largest_counter);
  }

 protected:
  std::int64_t counter_ = 0;
};

}  // namespace detail

/// Grows after `growth_interval` finite steps since the last change or overflow: the rule of jmp, torch.amp, Emily, apex and
/// Megatron. Compares with `>=`, as Emily does, so a counter beyond the interval grows on the next finite step.
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

}  // namespace HEADROOM_BUILD
}  // namespace headroom
