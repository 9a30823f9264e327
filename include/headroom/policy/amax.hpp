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
  /// The share of steps that may overflow, where making room for them would cost bits: in [2^-20, 2^-3]. A little more often
  /// than once in 4,000 steps; torch's rule comes to 3 or 4 in 10,000.
  double target_skip_rate = 0.00027;
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
///     level     the second largest magnitude of the last 32 steps, or that of the last one if it is larger: the second, so
///               that a single spike does not count; the last, so that a shift upwards counts at once
///     excess    how far a step's magnitude lies above the level before it
///     scale     the largest power of two for which level + margin is not above largest_finite
///     margin    the larger of noise and tail; in the first 64 steps at least 2, less 1/32 for each of them; at most 14, for
///               the largest gradients to stay far above the subnormals of half
///     noise     a quarter, plus 3.5 times the excess that one step in 64 has; but where there is a tail, at most a quarter
///               above what it is at a credit of 0
///     tail      the excess that a share of 3 * target_skip_rate * 2^credit of the steps has had. 3, because a margin that is
///               rounded up to a power of two is exceeded less often. There is none where a share of more than
///               3 * target_skip_rate, whatever the credit, has had more than 13.5: no scale is worth making room for that
///     credit    starts at 0, grows by target_skip_rate with a finite step, up to 2, and falls by 1 with an overflow, down
///               to -4; 2^credit is a straight line between whole credits
///
/// So steps are skipped at the target rate where a margin against all that has been seen would cost more than it is worth, and
/// next to none where it is cheap. Where gradients jump by more than 14 bits, or are not finite whatever the scale, those steps
/// are skipped, however many.
///
/// The excesses above 0 are counted in bins of half a bit, all above 13.5 in the last; within a bin they are taken to be spread
/// evenly. All counts are halved when they have come to 32,768 steps; before there are 2,000 a share is one of 2,000. The
/// excess that one step in 64 has is no such count: it starts at a fifth, rises by 63/1024 with a step that exceeds it, and
/// falls by 1/1024 with any other, within 0 and 14.
///
/// How far an overflow exceeded the scale nobody knows: it counts as an excess of one bit more than there was room for, and
/// where there is no tail as one above 13.5. After it the scale is 2^8 times smaller for the one step it takes to see what the
/// magnitude is now, but not lowered beyond what keeps magnitudes of the level normal in half, 30 bits below largest_finite. An
/// overflow right after another, or before there is a level, makes the scale 2^8 times smaller and changes nothing else. If an
/// overflow comes within 32 finite steps of the last one and leaves credit at its lowest, the scale does not rise for 32 steps,
/// so that large steps between small ones are seen, too.
///
/// A step without gradients other than zero says nothing of magnitudes: it may have underflowed. To the scale it is as
/// adjust(true), by which it doubles every growth_interval steps.
///
/// It reckons in whole numbers (magnitudes in sixteenths, rounded up, by straight lines between powers of two in place of
/// log2), so all machines, compilers and flags agree.
class FollowMaxAbs {
 public:
  using Config = AmaxConfig;
  static constexpr const char* name = "amax";
  constexpr explicit FollowMaxAbs(const Config&) noexcept {}

  [[nodiscard]] constexpr float next_scale(const GradientReport& report, float scale, const Config& config) noexcept {
    const std::int32_t most = detail::log2_below(static_cast<double>(config.largest_finite));
    const std::int32_t rate = rate_of(config);
    if (!report.finite) return after_overflow(most, rate, scale);
    if (since_ < long_since) ++since_;
    credit_ = std::min(credit_ + rate, highest_credit);
    if (!detail::is_positive(report.max_abs)) return 0.0F;
    see(detail::log2_above(report.max_abs));
    const float proposed = detail::power_of_two(detail::whole_bits(most - level() - margin(rate)));
    if (held_ == 0) return proposed;
    --held_;
    return std::min(proposed, scale);
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit.list("recent", self.recent_, self.size_, -32768, 32767);
    visit("spread", self.spread_, 0, largest_spread);
    std::uint8_t bins = n_bins;
    visit.list("excesses", self.excesses_, bins, 0, most_steps);
    visit.check("excesses", bins == n_bins, "28 whole numbers");
    visit("counted", self.steps_, 0, most_steps - 1);
    std::int32_t excesses = 0;
    for (const std::int32_t each : self.excesses_) excesses += each;
    visit.check("excesses", excesses <= self.steps_, "whole numbers whose sum is at most counted");
    visit.check("counted", self.size_ != 0 ? self.steps_ >= self.size_ - 1 : self.steps_ == 0,
                "0 without recent magnitudes, and no less than one for each after the first");
    visit("credit", self.credit_, lowest_credit, highest_credit);
    visit("since_overflow", self.since_, 0, long_since);
    visit("held", self.held_, 0, window);
  }
  friend constexpr bool operator==(const FollowMaxAbs& a, const FollowMaxAbs& b) noexcept {
    bool are_equal = a.size_ == b.size_ && a.spread_ == b.spread_ && a.steps_ == b.steps_ && a.credit_ == b.credit_ &&
                     a.since_ == b.since_ && a.held_ == b.held_;
    for (int i = 0; i < window; ++i) are_equal = are_equal && a.recent_[i] == b.recent_[i];
    for (int i = 0; i < n_bins; ++i) are_equal = are_equal && a.excesses_[i] == b.excesses_[i];
    return are_equal;
  }

 private:
  static constexpr int window = 32, n_bins = 28, long_since = window + 1;
  static constexpr std::int32_t bit = detail::log2_unit, bin = bit / 2, most_margin = n_bins * bin;
  static constexpr std::int32_t one = 1 << 24, lowest_credit = -4 * one, highest_credit = 2 * one;
  static constexpr std::int32_t most_steps = 32768;
  static constexpr std::int32_t lowest_peak = 30;  // bits: half's largest number is so much above its smallest normal one
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

  [[nodiscard]] constexpr float after_overflow(std::int32_t most, std::int32_t rate, float scale) noexcept {
    const float lower = detail::bits_lower(scale, 8);
    const std::int32_t since = since_;
    since_ = 0;
    if (size_ == 0 || since == 0) return lower;
    const std::int32_t room = most - level() - detail::log2_above(static_cast<double>(scale));
    count(is_beyond(allowed(rate)) ? most_margin : std::max(room, 0) + bit);
    credit_ = std::max(credit_ - one, lowest_credit);
    if (credit_ == lowest_credit && since < long_since) held_ = window;
    const float lowest = detail::power_of_two(detail::whole_bits(most - level() - lowest_peak * bit));
    return std::max(lower, std::min(lowest, scale));
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

  /// How many steps may have had a larger excess than the margin, in 256ths of a step.
  [[nodiscard]] constexpr std::int64_t allowed(std::int32_t rate) const noexcept {
    const std::int64_t known = steps_ > 2000 ? steps_ : 2000;
    return 3 * known * rate / (one / 256);
  }
  /// Whether so many have had one that is beyond all margins.
  [[nodiscard]] constexpr bool is_beyond(std::int64_t steps) const noexcept {
    return std::int64_t{excesses_[n_bins - 1]} * 256 > steps;
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
    const std::int64_t all = allowed(rate);
    // 2^credit, between powers of two a straight line, times `all`
    const std::int64_t positive = std::int64_t{credit_} - lowest_credit;
    const std::int64_t with_credit = (all * (one + positive % one) << static_cast<unsigned>(positive / one)) / one >>
                                     static_cast<unsigned>(-lowest_credit / one);
    const bool has_tail = !is_beyond(all);
    // The quarter also covers what the straight lines lie below the logarithm.
    std::int32_t result = bit / 4 + 7 * spread_ / (2 * fine);
    if (has_tail) result = std::min(result, excess_of_all_but(all) + bit / 4);
    if (has_tail) result = std::max(result, excess_of_all_but(with_credit));
    result = std::max(result, 2 * bit - steps_ * bit / 32);  // at most 0 from 64 steps on
    return std::min(result, most_margin);
  }

  std::int16_t recent_[window] = {};     // log2 of the magnitudes, the last step's first
  std::uint16_t excesses_[n_bins] = {};  // how many steps had an excess in (i / 2, (i + 1) / 2] bits
  std::int32_t steps_ = 0;               // how many are counted in excesses_
  std::int32_t spread_ = 205;            // the excess of one step in 64, at first a fifth of a bit
  std::int32_t credit_ = 0;
  std::uint8_t size_ = 0;            // of recent_
  std::uint8_t since_ = long_since;  // finite steps since the last overflow
  std::uint8_t held_ = 0;            // for how many steps the scale must not rise
};

/// headroom's own rule: keeps the scale a margin below where the largest |gradient| would overflow, and adapts the margin to a
/// target rate of skipped steps: see FollowMaxAbs. adjust(bool), which knows no magnitudes, falls back to DynamicLossScale's
/// rule. The magnitudes are those of GradientReport: of unscaled gradients. A scale that is set (with_loss_scale,
/// GradScaler::update(new_scale)) holds for the one step to the next report.
using AmaxLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, FollowMaxAbs>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
