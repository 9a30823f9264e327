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
    detail::check_in("target_skip_rate", target_skip_rate, 0x1p-20, 0x1p-3, "in [2^-20, 2^-3]");
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

/// Follows the largest |gradient|: a piece of BasicDynamicLossScale, and headroom's own rule. All in logarithms to base 2. A
/// magnitude is that of a step's largest |gradient|; only finite steps with a gradient other than zero have one.
///
///     scale     the largest power of two with which level + room and typical + reserve stay within largest_finite
///     level     the largest of the last 64 magnitudes
///     room      3 after the first magnitude, a quarter less with each, 1 from the ninth on
///     typical   the mean of these 64
///     reserve   what overflows have taught, at first 0: max(reserve, 1 + min(kept, max(reserve, 3))) after an overflow, where
///               kept is how far above typical the scale left room, in [0, 14]; target_skip_rate less with each magnitude
///
/// So one to two bits are kept above what was seen lately. An overflow asks for up to four above typical, the next ones for one
/// more each, and a bit is forgotten in 1 / target_skip_rate steps: large steps that come again and again, further apart than
/// 64, overflow at about that rate.
///
/// After an overflow the scale is 2^8 times smaller for the one step it takes to see what the magnitude is now. If that step
/// has none, for everything may have underflowed, the scale is what the rule chooses by the magnitudes before. An overflow
/// right after another, or before any magnitude, teaches nothing; the scale is 2^8 times smaller again.
///
/// An overflow that asks for a reserve of more than 14 gives it up, as it does not help: it is at most 2, or 1 more than
/// `excess`, until the 128th further overflow that would have taught something, which teaches again. `excess` is the largest of
/// magnitude - typical, leaving out magnitudes more than 13 above typical; it is forgotten as fast as the reserve.
///
/// What overflows may also be in no report: the loss, or a gradient on the way to these. So a count goes up by 1 with each
/// overflow that teaches, and down by 1/8 with each magnitude, not below 0. When it reaches 8, the reserve has not helped:
/// it becomes 0, overflows are frequent, and the scale is DynamicLossScale's, as by adjust(bool), until the rule asks for a
/// quarter of it or less; or for 16 / target_skip_rate finite steps, after which the rule is tried again. Where the scale it
/// chooses is 2^n times too large, n >= 10, this costs 2 n - 8 overflows.
///
/// Other steps whose gradients are all zero say nothing of magnitudes. To the scale they are as adjust(true), so that
/// growth_interval of them, in a row or not, double it; counter() counts them. After 64 in a row the magnitudes are forgotten,
/// lest the scale go back to where everything underflows as soon as something does not.
///
/// It reckons in whole numbers, so all machines, compilers and flags agree: magnitudes in sixteenths, rounded down, by straight
/// lines between powers of two in place of log2; their mean is rounded toward 0.
class FollowMaxAbs {
 public:
  using Config = AmaxConfig;
  static constexpr const char* name = "amax";
  constexpr explicit FollowMaxAbs(const Config&) noexcept {}

  [[nodiscard]] constexpr float next_scale(const GradientReport& report, float scale, const Config& config) noexcept {
    const std::int32_t largest = detail::log2_below(static_cast<double>(config.largest_finite));
    if (!report.finite) return after_overflow(largest - detail::log2_below(static_cast<double>(scale)), scale);
    const bool goes_back = last_overflowed_ != 0 && size_ != 0 && frequent_for_ == 0;
    const auto forgotten = static_cast<std::int32_t>(reserve_bit * config.target_skip_rate);
    last_overflowed_ = 0;
    frequent_for_ = std::max(frequent_for_ - forgotten, 0);
    if (!detail::is_positive(report.max_abs)) {
      const float next = goes_back ? chosen(largest) : 0.0F;
      if (zero_steps_ < window && ++zero_steps_ == window) size_ = 0;
      return next;
    }
    zero_steps_ = 0;
    for (int i = window - 1; i > 0; --i) recent_[i] = recent_[i - 1];
    recent_[0] = static_cast<std::int16_t>(detail::log2_below(report.max_abs));
    if (size_ < window) ++size_;
    after_magnitude(forgotten);
    const float next = chosen(largest);
    if (frequent_for_ != 0 && next > scale / 4.0F) return 0.0F;
    frequent_for_ = 0;
    return next;
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit.list("recent", self.recent_, self.size_, -1023 * magnitude_bit, 1024 * magnitude_bit);
    visit("reserve", self.reserve_, 0, most_reserve);
    visit("excess", self.excess_, 0, most_excess);
    visit("given_up", self.given_up_, 0, overflows_given_up);
    visit("overflow_eighths", self.overflow_eighths_, 0, 8 * 8 - 1);
    visit("frequent_for", self.frequent_for_, 0, until_retried);
    visit("last_overflowed", self.last_overflowed_, 0, 1);
    visit("zero_steps", self.zero_steps_, 0, window);
    visit.check("zero_steps", self.zero_steps_ < window || self.size_ == 0, "below 64 where there are recent magnitudes");
  }
  friend constexpr bool operator==(const FollowMaxAbs& a, const FollowMaxAbs& b) noexcept {
    bool are_equal = a.size_ == b.size_ && a.reserve_ == b.reserve_ && a.excess_ == b.excess_ && a.given_up_ == b.given_up_ &&
                     a.overflow_eighths_ == b.overflow_eighths_ && a.frequent_for_ == b.frequent_for_ &&
                     a.last_overflowed_ == b.last_overflowed_ && a.zero_steps_ == b.zero_steps_;
    for (int i = 0; i < a.size_; ++i) are_equal = are_equal && a.recent_[i] == b.recent_[i];
    return are_equal;
  }

 private:
  static constexpr int window = 64;
  static constexpr std::int32_t magnitude_bit = detail::log2_unit;  // a bit in magnitudes
  static constexpr std::int32_t reserve_bit = 1 << 24;              // and in the reserve
  static constexpr std::int32_t most_reserve = 14 * reserve_bit, most_excess = most_reserve - reserve_bit;
  static constexpr std::int32_t until_retried = 16 * reserve_bit;
  static constexpr int overflows_given_up = 128;

  [[nodiscard]] constexpr std::int32_t level() const noexcept {
    std::int32_t highest = recent_[0];
    for (int i = 1; i < size_; ++i) highest = std::max<std::int32_t>(highest, recent_[i]);
    return highest;
  }
  [[nodiscard]] constexpr std::int32_t typical() const noexcept {
    std::int32_t sum = 0;
    for (int i = 0; i < size_; ++i) sum += recent_[i];
    return sum / size_;
  }
  /// In bits of the reserve, at most those that it can have.
  [[nodiscard]] constexpr std::int32_t above_typical(std::int32_t magnitude) const noexcept {
    return std::max(0, std::min(magnitude - typical(), most_reserve / reserve_bit * magnitude_bit)) *
           (reserve_bit / magnitude_bit);
  }
  [[nodiscard]] constexpr float chosen(std::int32_t largest) const noexcept {
    const std::int32_t room = std::max(magnitude_bit, 3 * magnitude_bit - (size_ - 1) * magnitude_bit / 4);
    const std::int32_t needed = std::max(level() + room, typical() + reserve_ / (reserve_bit / magnitude_bit));
    return detail::power_of_two(detail::whole_bits(largest - needed));
  }

  /// `held` is the largest magnitude that the scale left room for.
  [[nodiscard]] constexpr float after_overflow(std::int32_t held, float scale) noexcept {
    const bool teaches = size_ != 0 && last_overflowed_ == 0;
    zero_steps_ = 0;
    last_overflowed_ = 1;
    if (teaches && frequent_for_ == 0) {
      learn(held);
      overflow_eighths_ = static_cast<std::uint8_t>(overflow_eighths_ + 8);
      if (overflow_eighths_ >= 8 * 8) {
        overflow_eighths_ = 0;
        reserve_ = 0;
        frequent_for_ = until_retried;
      }
    }
    return frequent_for_ != 0 ? 0.0F : detail::bits_lower(scale, 8);
  }
  constexpr void learn(std::int32_t held) noexcept {
    const std::int32_t wanted = std::min(above_typical(held), std::max(reserve_, 3 * reserve_bit)) + reserve_bit;
    if (given_up_ != 0) --given_up_;
    if (given_up_ == 0 && wanted > most_reserve) given_up_ = overflows_given_up;
    reserve_ = given_up_ == 0 ? std::max(reserve_, wanted) : std::min(wanted, std::max(2 * reserve_bit, excess_ + reserve_bit));
  }
  constexpr void after_magnitude(std::int32_t forgotten) noexcept {
    reserve_ = std::max(reserve_ - forgotten, 0);
    if (overflow_eighths_ != 0) --overflow_eighths_;
    const std::int32_t above = above_typical(recent_[0]);
    excess_ = std::max(excess_ - forgotten, above <= most_excess ? above : 0);
  }

  std::int16_t recent_[window] = {};   // log2 of the magnitudes, the last step's first
  std::int32_t reserve_ = 0;           // in 2^-24 bits
  std::int32_t excess_ = 0;            // the same
  std::int32_t frequent_for_ = 0;      // for how long overflows count as frequent, in the same
  std::uint8_t given_up_ = 0;          // for how many overflows the reserve is given up
  std::uint8_t overflow_eighths_ = 0;  // the count of overflows
  std::uint8_t last_overflowed_ = 0;   // whether the last step did
  std::uint8_t size_ = 0;              // of recent_
  std::uint8_t zero_steps_ = 0;        // in a row, up to 64
};

/// headroom's own rule: keeps the scale as far below where gradients would overflow as the largest of 64 steps asks for, and
/// further after overflows, which it forgets at a target rate: see FollowMaxAbs. adjust(bool), which knows no magnitudes, falls
/// back to DynamicLossScale's rule. The magnitudes are those of GradientReport: of unscaled gradients. A scale that is set
/// (with_loss_scale, GradScaler::update(new_scale)) is forgotten as soon as the rule chooses the next; where overflows are
/// frequent, DynamicLossScale's goes on from it.
using AmaxLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, FollowMaxAbs>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
