#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/state/fields.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

// When a scale backs off: the second parameter of BasicDynamicLossScale. Such a piece is a value with
//
//     using Config = …;                                  // one of those in loss_scale_config.hpp
//     static constexpr const char* name;                 // in the name of the policy
//     constexpr explicit Piece(const Config&);
//     constexpr bool backs_off(bool grads_finite, std::int64_t counter, const Config&);  // on every step; `counter` is that of
//                                                                                        // the growth piece before the step
//     constexpr void grow(const Config&);                // the scale has grown
//     constexpr void configure(const Config&);           // the settings have changed, to valid ones
//     template <class Self, class Visit> static void visit_fields(Self&, Visit&, std::int64_t most_overflows);
//
// and equality. All are noexcept. `most_overflows` is how many there can have been since the growth piece began to count.
// hysteresis.hpp has the ones that let single overflows pass.

/// Every overflow backs off at once. So jmp, torch.amp and Emily.
struct BackOffAtOnce {
  using Config = LossScaleConfig;
  static constexpr const char* name = "dynamic";
  constexpr explicit BackOffAtOnce(const Config&) noexcept {}

  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t, const Config&) noexcept { return !grads_finite; }
  constexpr void grow(const Config&) noexcept {}
  constexpr void configure(const Config&) noexcept {}

  template <class Self, class Visit>
  static void visit_fields(Self&, Visit&, std::int64_t) {}
  friend constexpr bool operator==(BackOffAtOnce, BackOffAtOnce) noexcept { return true; }
};

/// Backs off where more than a share of `overflow_tolerance` of the steps since the last change, as the growth piece counts
/// them, have overflowed. An early overflow is a large share and backs off at once, a late one is tolerated. Cerebras' rule,
/// with GrowAfterAllSteps; the share is formed in float, as there.
class BackOffWhenShareExceedsTolerance {
 public:
  using Config = ToleranceConfig;
  static constexpr const char* name = "over_tolerance";
  constexpr explicit BackOffWhenShareExceedsTolerance(const Config&) noexcept {}

  /// Since the last change of the scale.
  [[nodiscard]] constexpr std::int64_t overflows() const noexcept { return overflows_; }
  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t counter, const Config& config) noexcept {
    if (!grads_finite) overflows_ = detail::one_more(overflows_);
    if (overflows_ == 0) return false;
    const float share = static_cast<float>(overflows_) / static_cast<float>(counter + 1);
    if (share <= static_cast<float>(config.overflow_tolerance)) return false;
    overflows_ = 0;
    return true;
  }
  constexpr void grow(const Config&) noexcept { overflows_ = 0; }
  constexpr void configure(const Config&) noexcept {}

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit, std::int64_t most_overflows) {
    visit("overflows", self.overflows_, 0, most_overflows);
  }
  friend constexpr bool operator==(const BackOffWhenShareExceedsTolerance& a,
                                   const BackOffWhenShareExceedsTolerance& b) noexcept {
    return a.overflows_ == b.overflows_;
  }

 private:
  std::int64_t overflows_ = 0;
};

/// Backs off on an overflow where a share of at least `overflow_tolerance` of the steps since the last change of the scale,
/// this one among them, have overflowed; a growth starts the steps anew, but not the overflows. fairseq's rule; the share is
/// formed in double, as there.
class BackOffWhenShareReachesTolerance {
 public:
  using Config = ToleranceConfig;
  static constexpr const char* name = "at_tolerance";
  constexpr explicit BackOffWhenShareReachesTolerance(const Config&) noexcept {}

  /// Since the last change of the scale.
  [[nodiscard]] constexpr std::int64_t steps() const noexcept { return steps_; }
  /// Since the last backoff.
  [[nodiscard]] constexpr std::int64_t overflows() const noexcept { return overflows_; }
  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t, const Config& config) noexcept {
    steps_ = detail::one_more(steps_);
    if (grads_finite) return false;
    overflows_ = detail::one_more(overflows_);
    if (static_cast<double>(overflows_) / static_cast<double>(steps_) < config.overflow_tolerance) return false;
    steps_ = overflows_ = 0;
    return true;
  }
  constexpr void grow(const Config&) noexcept { steps_ = 0; }
  constexpr void configure(const Config&) noexcept {}

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit, std::int64_t) {
    visit("steps", self.steps_, 0, detail::largest_counter);
    visit("overflows", self.overflows_, 0, detail::largest_counter);
  }
  friend constexpr bool operator==(const BackOffWhenShareReachesTolerance& a,
                                   const BackOffWhenShareReachesTolerance& b) noexcept {
    return a.steps_ == b.steps_ && a.overflows_ == b.overflows_;
  }

 private:
  std::int64_t steps_ = 0, overflows_ = 0;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
