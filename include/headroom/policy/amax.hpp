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
///     scale     the largest power of two that keeps level + room, typical + reserve and typical + hidden within largest_finite
///     level     the largest magnitude of the last 64 steps
///     room      1; after the first step 3, and a quarter less with each step until it is 1
///     typical   the mean of these magnitudes
///     reserve   what overflows have taught, at first 0
///     hidden    how far above typical something is that overflows and is in no report: the loss, or a gradient on the way to
///               these; at first 0
///
/// So one bit is kept above what has been seen lately, and no more until large steps come again and again, further apart than
/// 64; then as much as makes them overflow at the target rate. For after an overflow the reserve is 1 more than the largest of
/// itself, hidden and 3, or than what was kept above typical, if that is less; and with every finite step that has gradients it
/// falls by target_skip_rate.
///
/// After an overflow the scale is 2^8 times smaller for the one step it takes to see what the magnitude is now, and again if
/// that overflows, too. If the scale overflows as soon as it has come back, it is halved instead. If then it overflows at once
/// again, the gradients seen before are not to blame: the scale is halved as long as it does, as by DynamicLossScale, and each
/// time hidden becomes 1 more than the larger of itself and 2 above the level, or than what was kept, if that is less; and the
/// reserve is no less than hidden. Hidden falls half as fast as the reserve. It is 0 again where the level is no more than 3
/// below typical + hidden: then large steps are what was hidden.
///
/// No reserve is worth making the largest gradients subnormal, and none helps where steps are not finite whatever the scale. If
/// an overflow asks for more than 14 above the level and typical + hidden, or was at min_scale, the reserve is given up: it is
/// 0, and nothing is learnt, until 14 bits would have been forgotten: 70,000 steps by default. But if the last overflow is not
/// 16 steps ago, it may come to 30, as many as half has above its subnormals: large steps that come so often are in the level
/// once one was finite, and above 14 it falls by 1 in 64 steps.
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
    if (!report.finite) return after_overflow(most, scale, scale <= config.scale.min_scale);
    if (!detail::is_positive(report.max_abs)) {
      if (zeros_ < window && ++zeros_ == window) size_ = 0;
      return 0.0F;
    }
    zeros_ = at_once_ = 0;
    if (since_ < window) ++since_;
    for (int i = window - 1; i > 0; --i) recent_[i] = recent_[i - 1];
    recent_[0] = static_cast<std::int16_t>(detail::log2_below(report.max_abs));
    if (size_ < window) ++size_;
    forget(static_cast<std::int32_t>(one * config.target_skip_rate));

    const std::int32_t room = std::max(bit, 3 * bit - (size_ - 1) * bit / 4);
    const std::int32_t needed = std::max(level() + room, typical() + std::max(reserve_, hidden_) / fine);
    return detail::power_of_two(detail::whole_bits(most - needed));
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit.list("recent", self.recent_, self.size_, -32768, 32767);
    visit("reserve", self.reserve_, 0, most_hidden);
    visit("given_up", self.given_up_, 0, rare);
    visit("hidden", self.hidden_, 0, most_hidden);
    visit("since_overflow", self.since_, 0, window);
    visit("at_once", self.at_once_, 0, 2);
    visit("zero_steps", self.zeros_, 0, window);
    visit.check("zero_steps", self.zeros_ < window || self.size_ == 0, "below 64 where there are recent magnitudes");
  }
  friend constexpr bool operator==(const FollowMaxAbs& a, const FollowMaxAbs& b) noexcept {
    bool are_equal = a.size_ == b.size_ && a.reserve_ == b.reserve_ && a.given_up_ == b.given_up_ && a.hidden_ == b.hidden_ &&
                     a.since_ == b.since_ && a.at_once_ == b.at_once_ && a.zeros_ == b.zeros_;
    for (int i = 0; i < a.size_; ++i) are_equal = are_equal && a.recent_[i] == b.recent_[i];
    return are_equal;
  }

 private:
  static constexpr int window = 64;
  static constexpr std::int32_t bit = detail::log2_unit;
  static constexpr std::int32_t one = 1 << 23, fine = one / bit;  // a bit, and a sixteenth, of reserve_ and hidden_
  static constexpr std::int32_t rare = 14 * one, often = 30 * one, most_hidden = 126 * one;

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
    const std::int32_t since = since_;
    const bool at_once = since == 1 || at_once_ != 0;
    at_once_ = at_once ? at_once_ == 0 ? 1 : 2 : 0;
    since_ = zeros_ = 0;
    if (size_ != 0 && (since != 0 || at_once)) learn(most - detail::log2_below(static_cast<double>(scale)), since, is_least);
    return detail::bits_lower(scale, size_ != 0 && at_once ? 1 : 8);
  }
  /// From an overflow at a scale that had room for magnitudes up to `largest`, so long since the last one.
  constexpr void learn(std::int32_t largest, std::int32_t since, bool is_least) noexcept {
    const std::int32_t kept = std::max(0, std::min(largest - typical(), most_hidden / fine - bit)) * fine;
    const std::int32_t of_level = std::min(level() - typical(), most_hidden / fine) * fine;
    if (at_once_ == 2) {
      hidden_ = std::min(kept, std::max(hidden_, of_level + 2 * one)) + one;
      reserve_ = std::max(reserve_, hidden_);
      given_up_ = 0;
    } else if (given_up_ == 0) {
      const std::int32_t wanted = std::min(kept, std::max({reserve_, hidden_, 3 * one})) + one;
      const bool is_beyond = is_least || wanted - std::max(of_level, hidden_) > (since < 16 ? often : rare);
      reserve_ = is_beyond ? 0 : std::max(reserve_, wanted);
      given_up_ = is_beyond ? rare : 0;
    }
  }
  constexpr void forget(std::int32_t slow) noexcept {
    reserve_ = std::max(reserve_ - (reserve_ > hidden_ + rare ? one / window : slow), 0);
    given_up_ = std::max(given_up_ - slow, 0);
    hidden_ = std::max(hidden_ - slow / 2, 0);
    if (level() + 3 * bit >= typical() + hidden_ / fine) hidden_ = 0;
  }

  std::int16_t recent_[window] = {};  // log2 of the magnitudes, the last step's first
  std::int32_t reserve_ = 0;          // in 2^-23 bits, as the next two
  std::int32_t given_up_ = 0;         // of what was given up, what is not yet forgotten
  std::int32_t hidden_ = 0;
  std::uint8_t size_ = 0;        // of recent_
  std::uint8_t since_ = window;  // finite steps with gradients since the last overflow, up to 64
  std::uint8_t at_once_ = 0;     // overflows since the scale came back, up to 2
  std::uint8_t zeros_ = 0;       // steps without in a row, up to 64
};

/// headroom's own rule: keeps the scale as far below where gradients would overflow as the largest of 64 steps asks for, and
/// further where overflows recur more often than a target rate: see FollowMaxAbs. adjust(bool), which knows no magnitudes,
/// falls back to DynamicLossScale's rule. The magnitudes are those of GradientReport: of unscaled gradients. A scale that is
/// set (with_loss_scale, GradScaler::update(new_scale)) holds for the one step to the next report.
using AmaxLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, FollowMaxAbs>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
