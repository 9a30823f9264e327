#pragma once

#include <headroom/dtype/scale_range.hpp>
#include <headroom/policy/dynamic.hpp>

#include <algorithm>
#include <cstdint>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The settings of AmaxLossScale. It uses the growth and backoff of `scale` in adjust(bool), and until it knows a magnitude.
struct AmaxConfig {
  LossScaleConfig scale;  ///< the settings of every adaptive policy
  /// The share of steps that may overflow while large gradients recur, in [2^-20, 2^-3]. Torch's rule skips 0.0003 to 0.0004.
  double target_skip_rate = 0.0002;
  float largest_finite = 65504.0F;  ///< of the dtype in which gradients are computed, by default half; in [1, 2^127]

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("target_skip_rate", &AmaxConfig::target_skip_rate, 0x1p-20, 0x1p-3, "in [2^-20, 2^-3]");
    visit("largest_finite", &AmaxConfig::largest_finite, 1.0F, 0x1p127F, "in [1, 2^127]");
  }
};

/// A magnitude rule of BasicDynamicLossScale that follows the largest |gradient|. It is headroom's own. Its units are log2.
///
///     scale    the largest power of two that leaves 1 bit above `peak` and `margin` bits above `mean`; for the step after an
///              overflow it is 2^8 times smaller, to measure how large gradients are now
///     mean     moves 1/64 of the way to each step's largest |gradient|; `peak` falls in the same way, but rises to it at once
///     margin   each overflow that counts adds a bit, each finite step subtracts target_skip_rate; at least 2
///
/// An overflow does not count if it directly follows another, if no magnitude is known yet, or if the scale is min_scale. At a
/// margin of 12 bits or more, only an overflow within 64 steps of the last one counts, so that an occasional bad step does not
/// lower the scale for good. Of n steps at most target_skip_rate * n + margin - 2 overflows count.
///
/// If all gradients are zero, peak and mean fall by target_skip_rate a step. Integer arithmetic: equal scales on all machines.
class FollowPeak {
 public:
  using Config = AmaxConfig;
  static constexpr const char* name = "amax";
  constexpr explicit FollowPeak(const Config&) noexcept {}
  [[nodiscard]] constexpr float next_scale(const GradientReport& report, float scale, const Config& config) noexcept {
    const auto forgotten = static_cast<std::int64_t>(bit * config.target_skip_rate);
    if (!report.finite) {
      const bool counts = margin_ < 12 * bit || since_ <= 64;
      if (margin_ != 0 && since_ != 0 && counts && scale > config.scale.min_scale) margin_ += bit;
      since_ = 0;
      return std::max(scale * 0x1p-8F, smallest_loss_scale);
    }
    if (since_ <= 64) ++since_;
    if (detail::is_within(report.max_abs, detail::smallest_double, detail::infinity)) {
      const std::int64_t magnitude = detail::log2_below(report.max_abs);
      if (margin_ == 0) peak_ = mean_ = magnitude;
      peak_ = std::max(magnitude, peak_ - (peak_ - magnitude) / 64);
      mean_ += (magnitude - mean_) / 64;
    } else if (margin_ == 0) {
      return 0.0F;
    } else {
      peak_ -= forgotten;
      mean_ -= forgotten;
    }
    margin_ = std::max(margin_ - forgotten, 2 * bit);
    const std::int64_t largest = detail::log2_below(static_cast<double>(config.largest_finite));
    const std::int64_t spare = largest - std::max(peak_ + bit, mean_ + margin_);
    return detail::power_of_two(static_cast<std::int32_t>((spare + 2048 * bit) / bit - 2048));  // rounded down, also below 0
  }

  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config&) {
    visit("peak", &FollowPeak::peak_, -bound, bound);
    visit("mean", &FollowPeak::mean_, -bound, bound);
    visit("margin", &FollowPeak::margin_, 0, bound);
    visit("since", &FollowPeak::since_, 0, 65);
  }

 private:
  static constexpr std::int64_t bit = 1 << 20, bound = std::int64_t{1} << 49;

  std::int64_t peak_ = 0, mean_ = 0, margin_ = 0;  // in 2^-20 bits; margin 0: no magnitude known yet
  std::uint8_t since_ = 0;                         // finite steps since the last overflow, up to 65
};

/// Keeps the scale below the one at which the largest recent gradient would overflow, and lower after overflows: see
/// FollowPeak. adjust(bool) follows DynamicLossScale's rule. A scale that you set lasts until the rule chooses the next one.
///
/// Steps that are NaN at any scale lower it. If more than one step in 5,000 (target_skip_rate) is NaN, the margin grows, to
/// about 12 bits. If more than one in 600 is, the scale falls to min_scale, as DynamicLossScale's does.
using AmaxLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, FollowPeak>;

HEADROOM_DETAIL_END_NAMESPACE
