#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/magnitude.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The settings of AmaxLossScale. Of `scale` it uses initial_scale, min_scale and max_scale; the others only where it is given
/// no magnitudes.
struct AmaxConfig {
  LossScaleConfig scale;
  double target_skip_rate = 0.00027;  ///< share of the steps that may overflow in the long run; in [2^-20, 2^-3]
  float largest_finite = 65504.0F;    ///< of the dtype that gradients are computed in: half; in [1, 2^127]

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
///     level     the second largest magnitude of the last 32 steps, or that of the last one if it is larger: the second
///     largest,
///               so that a single spike does not count; the last, so that a shift upwards does at once
///     excess    how far a step's magnitude lies above the level before it
///     scale     the largest power of two for which level + margin stays below largest_finite
///     margin    at most 14, so that the largest gradients stay far above the subnormals of half; otherwise the larger of
///       noise   3.5 times the excess that one step in 64 has, and a quarter; but no more than a quarter above the excess that
///       a
///               share of 3 * target_skip_rate of the steps has had
///       tail    the excess that a share of 3 * target_skip_rate * 2^credit of them has had
///     credit    grows by target_skip_rate a step up to 2, and falls by 1 with an overflow, down to -4
///
/// so that steps are skipped at the target rate where a margin against all that has been seen would cost more than it is
/// worth, and hardly ever where it is cheap. The excesses are counted in a histogram that halves its counts every 16,384
/// steps. How far an overflow exceeded the scale nobody knows: it counts as one bit. After it the scale is 2^8 times smaller
/// for the one step it takes to see what the magnitude is now, and 2^8 times smaller again if that overflows as well.
///
/// It reckons in whole numbers (magnitudes in sixteenths, log2 by straight lines between powers of two), so all machines,
/// compilers and flags agree.
class FollowMaxAbs {
 public:
  using Config = AmaxConfig;
  static constexpr const char* name = "amax";
  constexpr explicit FollowMaxAbs(const Config&) noexcept {}

  [[nodiscard]] constexpr float next_scale(const GradientReport& report, float scale, const Config& config) noexcept {
    const std::int32_t most = detail::log2_below(static_cast<double>(config.largest_finite));
    const std::int32_t rate = rate_of(config);
    if (!report.finite) {
      if (size_ != 0 && overflowed_ == 0) {
        const std::int32_t margin = most - level() - detail::log2_above(static_cast<double>(scale));
        count((margin > 0 ? margin : 0) + bit);
        credit_ = credit_ > lowest_credit + one ? credit_ - one : lowest_credit;
      }
      overflowed_ = 1;
      return detail::bits_lower(scale, 8);
    }
    overflowed_ = 0;
    credit_ = credit_ + rate < highest_credit ? credit_ + rate : highest_credit;
    if (!detail::is_positive(report.max_abs)) {
      if (size_ == 0) return 0.0F;  // nothing is known yet
    } else {
      see(detail::log2_above(report.max_abs));
    }
    const std::int32_t spare = most - level() - margin(rate);
    return detail::power_of_two(spare >= 0 ? spare / bit : -((bit - 1 - spare) / bit));
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit.list("recent", self.recent_, self.size_, -32768, 32767);
    visit("spread", self.spread_, 0, largest_spread);
    std::uint8_t bins = n_bins;
    visit.list("excesses", self.excesses_, bins, 0, most_steps);
    visit("counted", self.steps_, 0, most_steps);
    visit("credit", self.credit_, lowest_credit, highest_credit);
    visit("overflowed", self.overflowed_, 0, 1);
  }
  friend constexpr bool operator==(const FollowMaxAbs& a, const FollowMaxAbs& b) noexcept {
    bool are_equal = a.size_ == b.size_ && a.spread_ == b.spread_ && a.steps_ == b.steps_ && a.credit_ == b.credit_ &&
                     a.overflowed_ == b.overflowed_;
    for (int i = 0; i < window; ++i) are_equal = are_equal && a.recent_[i] == b.recent_[i];
    for (int i = 0; i < n_bins; ++i) are_equal = are_equal && a.excesses_[i] == b.excesses_[i];
    return are_equal;
  }

 private:
  static constexpr int window = 32, n_bins = 28;
  static constexpr std::int32_t bit = detail::log2_unit, bin = bit / 2, most_margin = n_bins * bin;
  static constexpr std::int32_t one = 1 << 24, lowest_credit = -4 * one, highest_credit = 2 * one;
  static constexpr std::int32_t most_steps = 32768;
  static constexpr std::int32_t fine = 64,
                                largest_spread = most_margin * fine;  // spread_ is in 1/fine of what magnitudes are in

  [[nodiscard]] static constexpr std::int32_t rate_of(const Config& config) noexcept {
    return static_cast<std::int32_t>(config.target_skip_rate * one);
  }

  [[nodiscard]] constexpr std::int32_t level() const noexcept {
    std::int32_t first = -32768, second = -32768;
    for (int i = 0; i < size_; ++i) {
      const std::int32_t x = recent_[i];
      second = x > first ? first : x > second ? x : second;
      first = x > first ? x : first;
    }
    return size_ == 1 || recent_[0] > second ? recent_[0] : second;
  }

  /// A step of this magnitude.
  constexpr void see(std::int32_t magnitude) noexcept {
    if (size_ != 0) {
      const std::int32_t excess = magnitude - level();
      // Where one step in 64 moves it up by 63, and the others move it down by 1, it stays.
      spread_ += excess * fine > spread_ ? 63 : -1;
      spread_ = spread_ < 0 ? 0 : spread_ > largest_spread ? largest_spread : spread_;
      count(excess);
    }
    for (int i = window - 1; i > 0; --i) recent_[i] = recent_[i - 1];
    recent_[0] = static_cast<std::int16_t>(magnitude);
    if (size_ < window) ++size_;
  }

  constexpr void count(std::int32_t excess) noexcept {
    if (excess > 0) ++excesses_[excess > most_margin ? n_bins - 1 : (excess - 1) / bin];
    if (++steps_ < most_steps) return;
    steps_ /= 2;
    std::uint32_t tail = 0, halved = 0;  // tails are halved, not bins: few in each would all be lost
    for (int i = n_bins - 1; i >= 0; --i) {
      tail += excesses_[i];
      excesses_[i] = static_cast<std::uint16_t>(tail / 2 - halved);
      halved = tail / 2;
    }
  }

  /// What is above the excess of all but this many steps, in 256ths of a step.
  [[nodiscard]] constexpr std::int32_t excess_of_all_but(std::int64_t steps) const noexcept {
    std::int64_t left = steps;
    for (int i = n_bins - 1; i >= 0; --i) {
      const std::int64_t here = std::int64_t{excesses_[i]} * 256;
      if (here > left) return bin * (i + 1) - static_cast<std::int32_t>(left * bin / here);
      left -= here;
    }
    return 0;
  }

  [[nodiscard]] constexpr std::int32_t margin(std::int32_t rate) const noexcept {
    const std::int64_t known = steps_ > 2000 ? steps_ : 2000;
    const std::int64_t allowed = 3 * known * rate / (one / 256);
    // 2^credit, between powers of two a straight line, times `allowed`
    const std::int64_t positive = std::int64_t{credit_} - lowest_credit;
    const std::int64_t with_credit = (allowed * (one + positive % one) << static_cast<unsigned>(positive / one)) / one >>
                                     static_cast<unsigned>(-lowest_credit / one);
    const std::int32_t of_noise = bit / 4 + 7 * spread_ / (2 * fine), all_seen = excess_of_all_but(allowed) + bit / 4;
    const std::int32_t tail = excess_of_all_but(with_credit);
    const std::int32_t until_known = steps_ < 64 ? 2 * bit - steps_ * bit / 32 : 0;
    std::int32_t result = of_noise < all_seen ? of_noise : all_seen;
    result = tail > result ? tail : result;
    result = until_known > result ? until_known : result;
    return result < most_margin ? result : most_margin;
  }

  std::int16_t recent_[window] = {};     // log2 of the magnitudes, the last step's first
  std::uint16_t excesses_[n_bins] = {};  // how many steps had an excess in (i / 2, (i + 1) / 2] bits
  std::int32_t steps_ = 0;               // how many are counted in excesses_
  std::int32_t spread_ = 205;            // the excess of one step in 64, at first a fifth of a bit
  std::int32_t credit_ = 0;
  std::uint8_t size_ = 0;        // of recent_
  std::uint8_t overflowed_ = 0;  // in the step before
};

/// headroom's own rule: keeps the scale a margin below where the largest |gradient| would overflow, and adapts the margin to a
/// target rate of skipped steps: see FollowMaxAbs. adjust(bool), which knows no magnitudes, falls back to DynamicLossScale's
/// rule. The magnitudes are those of GradientReport: of unscaled gradients.
using AmaxLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, FollowMaxAbs>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
