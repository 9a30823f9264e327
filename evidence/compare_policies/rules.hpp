// Magnitude rules: the third parameter of headroom::BasicDynamicLossScale, which adjusts the scale
// by the largest |gradient|. policy/dynamic.hpp says what a rule needs. Both are published rules as
// described, without the errors of their code. adjust(bool) has no magnitude and follows
// DynamicLossScale's rule.
#pragma once

#include <algorithm>
#include <cmath>
#include <headroom/policy/dynamic.hpp>

namespace compare_policies {

/// Graphcore's automatic loss scaling (popart 3.4, popx/op/lossscaleupdatex.cpp). It counts scaled
/// gradients: u of them are at least an eighth of the largest half, and l are smaller. In every
/// step it halves the scale if u > l t / (1 - t), and doubles it otherwise. With its t of 1e-7 and
/// at most ten million elements, one large gradient halves the scale. This rule does so for trees
/// of any size. Graphcore's arithmetic saturates, so it skips no step. Here a step that overflows
/// halves the scale.
class HalveAboveThreshold {
 public:
  using Config = headroom::LossScaleConfig;
  static constexpr const char* name = "histogram";
  constexpr explicit HalveAboveThreshold(const Config&) noexcept {}

  [[nodiscard]] static constexpr float next_scale(const headroom::GradientReport& report,
                                                  float scale, const Config& config) noexcept {
    const bool is_large =
        !report.finite || report.max_abs * static_cast<double>(scale) >= 65504.0 / 8.0;
    return static_cast<float>(static_cast<double>(scale) *
                              (is_large ? config.backoff_factor : config.growth_factor));
  }

  template <class Visit>
  static constexpr void fields(Visit&&, const Config&) {}
};
using HistogramLossScale =
    headroom::BasicDynamicLossScale<headroom::GrowAfterFiniteSteps, headroom::BackOffAtOnce,
                                    HalveAboveThreshold>;

/// OpenSeq2Seq's LogMax (open_seq2seq/optimizers/automatic_loss_scaler.py, 2019). x is
/// log2(max_abs). mu is its moving average. sigma is its standard deviation, from slower averages
/// of x and x^2. All averages start at zero and are corrected for that:
///
///     scale = 2^(16 - mu - 3.09 * sigma)
///
/// An overflow counts as x = 16. The published code takes x = 2^16, and one overflow keeps its
/// scale at the floor for thousands of steps. A step whose gradients are all zero is adjust(true).
/// In the published code it makes the averages infinite.
class FollowLogMax {
 public:
  using Config = headroom::LossScaleConfig;
  static constexpr const char* name = "log_max";
  constexpr explicit FollowLogMax(const Config&) noexcept {}

  [[nodiscard]] float next_scale(const headroom::GradientReport& report, float,
                                 const Config&) noexcept {
    if (report.finite && !(report.max_abs > 0.0)) return 0.0F;
    constexpr double log_max = 16.0, deviations = 3.09, fast = 0.99, slow = 0.999;
    const double x = report.finite ? std::log2(report.max_abs) : log_max;
    mean_ = fast * mean_ + (1.0 - fast) * x;
    slow_mean_ = slow * slow_mean_ + (1.0 - slow) * x;
    squares_ = slow * squares_ + (1.0 - slow) * (x * x);
    rest_ *= fast;
    slow_rest_ *= slow;
    const double center = slow_mean_ / (1.0 - slow_rest_);
    const double deviation =
        std::sqrt(std::max(squares_ / (1.0 - slow_rest_) - center * center, 0.0));
    const double exponent = log_max - mean_ / (1.0 - rest_) - deviations * deviation;
    return static_cast<float>(std::exp2(std::min(std::max(exponent, -126.0), 126.0)));
  }

  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config&) {
    visit("mean", &FollowLogMax::mean_, -1100.0, 1100.0);
    visit("slow_mean", &FollowLogMax::slow_mean_, -1100.0, 1100.0);
    visit("squares", &FollowLogMax::squares_, 0.0, 1100.0 * 1100.0);
    visit("rest", &FollowLogMax::rest_, 0.0, 1.0);
    visit("slow_rest", &FollowLogMax::slow_rest_, 0.0, 1.0);
  }

 private:
  double mean_ = 0.0, slow_mean_ = 0.0, squares_ = 0.0;  // moving averages of x, x and x^2
  // Weight that the initial zero still has in the averages
  double rest_ = 1.0, slow_rest_ = 1.0;
};
using LogMaxLossScale = headroom::BasicDynamicLossScale<headroom::GrowAfterFiniteSteps,
                                                        headroom::BackOffAtOnce, FollowLogMax>;

}  // namespace compare_policies
