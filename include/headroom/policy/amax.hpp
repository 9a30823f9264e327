#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/magnitude.hpp>

#include <algorithm>
#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The settings of AmaxLossScale. The growth and backoff of `scale` are for where it goes on as DynamicLossScale: without
/// magnitudes, or where overflows are frequent.
struct AmaxConfig {
  LossScaleConfig scale;
  /// The share of steps that may overflow where large ones come again and again: in [2^-20, 2^-3]. One step in 5,000; torch's
  /// rule comes to 3 or 4 in 10,000.
  double target_skip_rate = 0.0002;
  float largest_finite = 65504.0F;  ///< of the dtype that gradients are computed in: half; in [1, 2^127]

  constexpr void check() const {
    if (!detail::positive_in(target_skip_rate, 0x1p-20, 0x1p-3)) {
      detail::throw_bad_value("target_skip_rate", target_skip_rate, "in [2^-20, 2^-3]");
    }
    detail::check_largest_finite(largest_finite);
  }
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("target_skip_rate", self.target_skip_rate);
    visit("largest_finite", self.largest_finite);
  }
  friend constexpr bool operator==(const AmaxConfig& a, const AmaxConfig& b) noexcept {
    return a.scale == b.scale && a.target_skip_rate == b.target_skip_rate && a.largest_finite == b.largest_finite;
  }
  friend constexpr bool operator!=(const AmaxConfig& a, const AmaxConfig& b) noexcept { return !(a == b); }
};

/// Follows the largest |gradient|: a piece of BasicDynamicLossScale, and headroom's own rule. All in logarithms to base 2:
///
///     scale     the largest power of two that keeps both level + room and typical + reserve within largest_finite
///     level     the largest magnitude of the last 64 steps
///     room      1; after the first step 3, and a quarter less with each step until it is 1
///     typical   the mean of these magnitudes
///     reserve   what overflows have taught, at first 0
///
/// So one bit is kept above what has been seen lately, and no more until large steps come again and again, further apart than
/// 64; then as much as makes them overflow at the target rate. For after an overflow the reserve is 1 more than it was, or than
/// 3, or than what was kept above typical, if that is less; and with every finite step that has gradients it falls by
/// target_skip_rate.
///
/// After an overflow the scale is 2^8 times smaller for the one step it takes to see what the magnitude is now. An overflow
/// before any gradients were seen, ever or since the last overflow, makes the scale 2^8 times smaller and teaches nothing.
///
/// No reserve is worth making the largest gradients subnormal, and none helps where steps are not finite whatever the scale. If
/// an overflow asks for a reserve of more than 14, or was at min_scale, the reserve is given up: it is no more than 2 until
/// the 128th further one that could teach, for what seemed hopeless may not be.
///
/// What overflows may also be in no report: the loss, or a gradient on the way to these. So where overflows are frequent (8
/// that could teach more than an eighth of the finite steps), the scale is DynamicLossScale's, as by adjust(bool), until the
/// rule above would choose one 4 times smaller than that or less.
///
/// A step without gradients other than zero says nothing of magnitudes: it may have underflowed. To the scale it is as
/// adjust(true), by which it doubles every growth_interval steps. After 64 of them in a row the magnitudes are forgotten, lest
/// the scale go back to where everything underflows as soon as something does not.
///
/// It reckons in whole numbers, so all machines, compilers and flags agree: magnitudes in sixteenths, rounded down, by straight
/// lines between powers of two in place of log2; their mean is rounded toward 0.
class FollowMaxAbs {
 public:
  using Config = AmaxConfig;
  static constexpr const char* name = "amax";
  constexpr explicit FollowMaxAbs(const Config&) noexcept {}

  [[nodiscard]] constexpr float next_scale(const GradientReport& report, float scale, const Config& config) noexcept {
    const std::int32_t most = detail::log2_below(static_cast<double>(config.largest_finite));
    if (!report.finite) return after_overflow(most, scale, scale <= config.scale.min_scale);
    if (!detail::is_positive(report.max_abs)) {
      if (zeros_ < window && ++zeros_ == window) size_ = 0;
      return 0.0F;
    }
    zeros_ = right_after_ = 0;
    for (int i = window - 1; i > 0; --i) recent_[i] = recent_[i - 1];
    recent_[0] = static_cast<std::int16_t>(detail::log2_below(report.max_abs));
    if (size_ < window) ++size_;
    forget(static_cast<std::int32_t>(one * config.target_skip_rate));

    const std::int32_t room = std::max(bit, 3 * bit - (size_ - 1) * bit / 4);
    const std::int32_t needed = std::max(level() + room, typical() + reserve_ / fine);
    const float proposed = detail::power_of_two(detail::whole_bits(most - needed));
    if (overflows_ == frequent && proposed > scale / 4.0F) return 0.0F;
    if (overflows_ == frequent) overflows_ = 0;
    return proposed;
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit.list("recent", self.recent_, self.size_, -32768, 32767);
    visit("reserve", self.reserve_, 0, most_reserve);
    visit("given_up", self.given_up_, 0, many);
    visit("recent_overflows", self.overflows_, 0, frequent);
    visit("right_after", self.right_after_, 0, 1);
    visit("zero_steps", self.zeros_, 0, window);
    visit.check("zero_steps", self.zeros_ < window || self.size_ == 0, "below 64 where there are recent magnitudes");
  }
  friend constexpr bool operator==(const FollowMaxAbs& a, const FollowMaxAbs& b) noexcept {
    bool are_equal = a.size_ == b.size_ && a.reserve_ == b.reserve_ && a.given_up_ == b.given_up_ &&
                     a.overflows_ == b.overflows_ && a.right_after_ == b.right_after_ && a.zeros_ == b.zeros_;
    for (int i = 0; i < a.size_; ++i) are_equal = are_equal && a.recent_[i] == b.recent_[i];
    return are_equal;
  }

 private:
  static constexpr int window = 64;
  static constexpr std::int32_t bit = detail::log2_unit;
  static constexpr std::int32_t one = 1 << 24, fine = one / bit;  // a bit, and a sixteenth, of the reserve
  static constexpr std::int32_t most_reserve = 14 * one;
  static constexpr int many = 128, frequent = 64;  // overflows; eighths of them

  [[nodiscard]] constexpr std::int32_t level() const noexcept {
    std::int32_t largest = recent_[0];
    for (int i = 1; i < size_; ++i) largest = std::max<std::int32_t>(largest, recent_[i]);
    return largest;
  }
  [[nodiscard]] constexpr std::int32_t typical() const noexcept {
    std::int32_t sum = 0;
    for (int i = 0; i < size_; ++i) sum += recent_[i];
    return sum / size_;
  }

  [[nodiscard]] constexpr float after_overflow(std::int32_t most, float scale, bool is_least) noexcept {
    const bool teaches = size_ != 0 && right_after_ == 0;
    zeros_ = 0;
    right_after_ = 1;
    if (overflows_ == frequent) return 0.0F;
    if (teaches) {
      overflows_ = static_cast<std::uint8_t>(std::min(overflows_ + 8, frequent));
      learn(most - detail::log2_below(static_cast<double>(scale)), is_least);
    }
    return overflows_ == frequent ? 0.0F : detail::bits_lower(scale, 8);
  }
  /// From an overflow at a scale that had room for magnitudes up to `largest`.
  constexpr void learn(std::int32_t largest, bool is_least) noexcept {
    const std::int32_t kept = std::max(0, std::min(largest - typical(), most_reserve / fine)) * fine;
    const std::int32_t wanted = std::min(kept, std::max(reserve_, 3 * one)) + one;
    const bool is_beyond = is_least || wanted > most_reserve;
    if (given_up_ != 0) {
      --given_up_;
    } else if (is_beyond) {
      given_up_ = many;
    }
    reserve_ = given_up_ == 0 ? std::max(reserve_, std::min(wanted, most_reserve)) : std::min(wanted, 2 * one);
  }
  constexpr void forget(std::int32_t slow) noexcept {
    reserve_ = std::max(reserve_ - slow, 0);
    if (overflows_ != 0 && overflows_ != frequent) --overflows_;
  }

  std::int16_t recent_[window] = {};  // log2 of the magnitudes, the last step's first
  std::int32_t reserve_ = 0;          // in 2^-24 bits
  std::uint8_t given_up_ = 0;         // for how many overflows the reserve is given up
  std::uint8_t overflows_ = 0;        // in eighths, less one for each finite step
  std::uint8_t right_after_ = 0;      // whether no gradients were seen since an overflow
  std::uint8_t size_ = 0;             // of recent_
  std::uint8_t zeros_ = 0;            // steps without gradients in a row, up to 64
};

/// headroom's own rule: keeps the scale as far below where gradients would overflow as the largest of 64 steps asks for, and
/// further where overflows recur more often than a target rate: see FollowMaxAbs. adjust(bool), which knows no magnitudes,
/// falls back to DynamicLossScale's rule. The magnitudes are those of GradientReport: of unscaled gradients. A scale that is
/// set (with_loss_scale, GradScaler::update(new_scale)) holds for the one step to the next report.
using AmaxLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, FollowMaxAbs>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
