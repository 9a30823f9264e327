#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/magnitude.hpp>

#include <algorithm>
#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The settings of AmaxLossScale. Of `scale` it uses initial_scale, min_scale and max_scale; the others only where it is given
/// no magnitudes.
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
///     room      1 bit; after the first step 3, and a quarter less with each until it is 1
///     typical   the mean of these magnitudes
///     reserve   what overflows have taught, at first 0: after one it is a bit more than was kept above typical. It falls by
///               1.25 * target_skip_rate with every step: more than 1, because a scale that is rounded down to a power of two
///               keeps more than the reserve
///
/// So nothing is kept but one bit above what has been seen lately, until large steps come again and again, further apart than
/// 64; then as much as makes them overflow at the target rate.
///
/// After an overflow the scale is 2^8 times smaller for the one step it takes to see what the magnitude is now. An overflow
/// right after another, or before anything was seen, makes the scale 2^8 times smaller and changes nothing else.
///
/// No reserve is worth making the largest gradients subnormal, and none helps where steps are not finite whatever the scale.
/// Above 14 bits it is for large steps that come often, and are known once one was finite: it falls by a bit in 64 steps. Where
/// that has brought it to 14, or it has come to 30 (as many as half has above its subnormals), it is given up: it is 0, and
/// nothing is learnt, until it has come up from -14 bits at that rate.
///
/// A step without gradients other than zero says nothing of magnitudes: it may have underflowed. To the scale it is as
/// adjust(true), by which it doubles every growth_interval steps. After 64 of them in a row the magnitudes are forgotten, lest
/// the scale go back to where everything underflows as soon as something does not.
///
/// It reckons in whole numbers (magnitudes in sixteenths, rounded down, by straight lines between powers of two in place of
/// log2), so all machines, compilers and flags agree.
class FollowMaxAbs {
 public:
  using Config = AmaxConfig;
  static constexpr const char* name = "amax";
  constexpr explicit FollowMaxAbs(const Config&) noexcept {}

  [[nodiscard]] constexpr float next_scale(const GradientReport& report, float scale, const Config& config) noexcept {
    const std::int32_t most = detail::log2_below(static_cast<double>(config.largest_finite));
    if (!report.finite) {
      if (size_ != 0 && !has_overflowed_) learn(most - typical() - detail::log2_below(static_cast<double>(scale)));
      has_overflowed_ = 1;
      return detail::bits_lower(scale, 8);
    }
    if (!detail::is_positive(report.max_abs)) {
      if (zeros_ < window && ++zeros_ == window) size_ = 0;
      return 0.0F;
    }
    has_overflowed_ = zeros_ = 0;
    for (int i = window - 1; i > 0; --i) recent_[i] = recent_[i - 1];
    recent_[0] = static_cast<std::int16_t>(detail::log2_below(report.max_abs));
    if (size_ < window) ++size_;
    forget(static_cast<std::int32_t>(1.25 * one * config.target_skip_rate));
    const std::int32_t room = std::max(bit, 3 * bit - (size_ - 1) * bit / 4);
    const std::int32_t needed = std::max(level() + room, typical() + std::max(reserve_, 0) / (one / bit));
    return detail::power_of_two(detail::whole_bits(most - needed));
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit.list("recent", self.recent_, self.size_, -32768, 32767);
    visit("reserve", self.reserve_, -rare, most_reserve);
    visit("has_overflowed", self.has_overflowed_, 0, 1);
    visit("zero_steps", self.zeros_, 0, window);
  }
  friend constexpr bool operator==(const FollowMaxAbs& a, const FollowMaxAbs& b) noexcept {
    bool are_equal =
        a.size_ == b.size_ && a.reserve_ == b.reserve_ && a.has_overflowed_ == b.has_overflowed_ && a.zeros_ == b.zeros_;
    for (int i = 0; i < a.size_; ++i) are_equal = are_equal && a.recent_[i] == b.recent_[i];
    return are_equal;
  }

 private:
  static constexpr int window = 64;
  static constexpr std::int32_t bit = detail::log2_unit;
  static constexpr std::int32_t one = 1 << 24;  // a bit of the reserve
  static constexpr std::int32_t rare = 14 * one, most_reserve = 30 * one;

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

  /// From an overflow where so much was kept above typical.
  constexpr void learn(std::int32_t kept) noexcept {
    if (reserve_ < 0) return;
    const std::int32_t wanted = kept + bit;
    if (wanted >= most_reserve / (one / bit)) {
      reserve_ = -rare;
    } else {
      reserve_ = std::max(reserve_, wanted * (one / bit));
    }
  }
  constexpr void forget(std::int32_t slow) noexcept {
    if (reserve_ < 0) {
      reserve_ = std::min(reserve_ + slow, 0);
    } else if (reserve_ <= rare) {
      reserve_ = std::max(reserve_ - slow, 0);
    } else {
      reserve_ -= one / window;
      if (reserve_ <= rare) reserve_ = -rare;
    }
  }

  std::int16_t recent_[window] = {};  // log2 of the magnitudes, the last step's first
  std::int32_t reserve_ = 0;          // in 2^-24 bits; below 0 it was given up
  std::uint8_t size_ = 0;             // of recent_
  std::uint8_t has_overflowed_ = 0;   // the last step with gradients
  std::uint8_t zeros_ = 0;            // steps without gradients since, up to 64
};

/// headroom's own rule: keeps the scale as far below where gradients would overflow as the largest of 64 steps asks for, and
/// further where overflows recur more often than a target rate: see FollowMaxAbs. adjust(bool), which knows no magnitudes,
/// falls back to DynamicLossScale's rule. The magnitudes are those of GradientReport: of unscaled gradients. A scale that is
/// set (with_loss_scale, GradScaler::update(new_scale)) holds for the one step to the next report.
using AmaxLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, FollowMaxAbs>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
