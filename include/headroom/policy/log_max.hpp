#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/magnitude.hpp>

#include <algorithm>
#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The settings of LogMaxLossScale, with OpenSeq2Seq's names and defaults. Of `scale` it uses initial_scale, min_scale and
/// max_scale (scale_min, scale_max); the others only where it is given no magnitudes.
struct LogMaxConfig {
  LossScaleConfig scale{1.0F, 2000, 2.0, 0.5, 1.0F, 0x1p24F};
  double log_max = 16.0;           ///< log2 of where gradients overflow; in [2^-20, 127]
  double beta1 = 0.99;             ///< of the moving average of log2(max_abs); in [2^-20, 1)
  double beta2 = 0.999;            ///< of those its deviation is from; in [2^-20, 1)
  double overflow_std_dev = 3.09;  ///< how many deviations above the average must fit; in [2^-20, 100]

  constexpr void check() const {
    detail::check_in("log_max", log_max, 0x1p-20, 127.0, "in [2^-20, 127]");
    detail::check_in("beta1", beta1, 0x1p-20, detail::just_below_1, "at least 2^-20 and below 1");
    detail::check_in("beta2", beta2, 0x1p-20, detail::just_below_1, "at least 2^-20 and below 1");
    detail::check_in("overflow_std_dev", overflow_std_dev, 0x1p-20, 100.0, "in [2^-20, 100]");
  }
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("log_max", self.log_max);
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("overflow_std_dev", self.overflow_std_dev);
  }
  friend constexpr bool operator==(const LogMaxConfig& a, const LogMaxConfig& b) noexcept {
    return a.scale == b.scale && a.log_max == b.log_max && a.beta1 == b.beta1 && a.beta2 == b.beta2 &&
           a.overflow_std_dev == b.overflow_std_dev;
  }
  friend constexpr bool operator!=(const LogMaxConfig& a, const LogMaxConfig& b) noexcept { return !(a == b); }
};

namespace detail {

/// log2 of a positive number. constexpr, which std::log2 is not, and within 2^-49 or so.
[[nodiscard]] constexpr double log2_of(const double& value) noexcept {
  constexpr auto two_over_ln2 = bit_cast<double>(std::uint64_t{0x40071547652B82FE});  // no literal: see scale_range.hpp
  const bool is_subnormal = bit_cast<std::uint64_t>(value) >> binary64::mantissa_bits == 0;
  const auto bits = bit_cast<std::uint64_t>(is_subnormal ? value * 0x1p60 : value);
  const int exponent = static_cast<int>(bits >> binary64::mantissa_bits) - binary64::bias - (is_subnormal ? 60 : 0);
  const auto mantissa =
      bit_cast<double>((bits & binary64::mantissa_mask) | (std::uint64_t{binary64::bias} << binary64::mantissa_bits));
  const double t = (mantissa - 1.0) / (mantissa + 1.0);  // at most 1/3: log(m) = 2 atanh(t)
  double sum = 0.0;
  for (int k = 35; k >= 1; k -= 2) sum = sum * (t * t) + double{1} / k;
  return exponent + two_over_ln2 * t * sum;
}
/// 2^x for x in [-1000, 1000].
[[nodiscard]] constexpr double exp2_of(double x) noexcept {
  constexpr auto ln2 = bit_cast<double>(std::uint64_t{0x3FE62E42FEFA39EF});
  const auto whole = static_cast<std::int64_t>(x);
  const double y = (x - static_cast<double>(whole)) * ln2;
  double sum = 1.0;
  for (int k = 18; k >= 1; --k) sum = 1.0 + sum * y / k;
  return sum * bit_cast<double>(static_cast<std::uint64_t>(whole + binary64::bias) << binary64::mantissa_bits);
}
[[nodiscard]] constexpr double square_root(double x) noexcept { return x > 0.0 ? exp2_of(0.5 * log2_of(x)) : 0.0; }

}  // namespace detail

/// Keeps the scale a number of standard deviations below where the largest |gradient| would overflow: a piece of
/// BasicDynamicLossScale.
class FollowLogMax {
 public:
  using Config = LogMaxConfig;
  static constexpr const char* name = "log_max";
  constexpr explicit FollowLogMax(const Config&) noexcept {}

  [[nodiscard]] constexpr float next_scale(const GradientReport& report, float, const Config& config) noexcept {
    if (report.finite && !detail::is_positive(report.max_abs)) return 0.0F;  // log2(0) would poison the averages
    const double x = report.finite ? detail::log2_of(report.max_abs) : config.log_max;
    fast_ = config.beta1 * fast_ + (1.0 - config.beta1) * x;
    slow_ = config.beta2 * slow_ + (1.0 - config.beta2) * x;
    squares_ = config.beta2 * squares_ + (1.0 - config.beta2) * (x * x);
    power1_ = std::max(power1_ * config.beta1, smallest_power);
    power2_ = std::max(power2_ * config.beta2, smallest_power);
    const double mean = slow_ / (1.0 - power2_);
    const double deviation = detail::square_root(squares_ / (1.0 - power2_) - mean * mean);
    const double exponent = config.log_max - (fast_ / (1.0 - power1_) + config.overflow_std_dev * deviation);
    if (exponent <= -126.0) return smallest_loss_scale;
    if (exponent >= 126.0) return largest_loss_scale;
    return detail::rounded_to_float(detail::exp2_of(exponent));
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit.within("x_hat", self.fast_, -largest_log2, largest_log2);
    visit.within("slow_x_hat", self.slow_, -largest_log2, largest_log2);
    visit.within("xsquared_hat", self.squares_, 0.0, largest_log2 * largest_log2);
    visit.within("b1_correction", self.power1_, smallest_power, 1.0);
    visit.within("b2_correction", self.power2_, smallest_power, 1.0);
  }
  friend constexpr bool operator==(const FollowLogMax& a, const FollowLogMax& b) noexcept {
    return a.fast_ == b.fast_ && a.slow_ == b.slow_ && a.squares_ == b.squares_ && a.power1_ == b.power1_ &&
           a.power2_ == b.power2_;
  }

 private:
  static constexpr double largest_log2 = 1100.0;      // of a double, and some room
  static constexpr double smallest_power = 0x1p-100;  // nothing beside 1

  double fast_ = 0.0, slow_ = 0.0, squares_ = 0.0;  // moving averages of x, x and x^2
  double power1_ = 1.0, power2_ = 1.0;              // of beta1 and beta2: what the averages still have of their zero beginning
};

/// OpenSeq2Seq's LogMax (open_seq2seq/optimizers/automatic_loss_scaler.py, 2019; Kuchaiev et al., "Mixed-Precision Training for
/// NLP and Speech Recognition with OpenSeq2Seq") as it was meant. With x = log2(max_abs), mu its moving average with beta1, and
/// sigma its deviation from averages of x and x^2 with beta2, all corrected for their beginning at zero:
///
///     scale = 2^(log_max - mu - overflow_std_dev * sigma)
///
/// which is no power of two. An overflow counts as x = log_max; the published code has 2^log_max there, so that one overflow
/// keeps the scale at its floor for thousands of steps. A step with no gradient other than zero counts as adjust(true), for it
/// may have underflowed; there it made the averages infinite. Not following that code step by step, it is no preset.
/// adjust(bool), which knows no magnitudes, falls back to DynamicLossScale's rule.
///
/// The last bits of its scale differ where compilers contract a * b + c to one instruction (-mfma, aarch64; not with
/// -ffp-contract=off): ranks have to run the same code.
using LogMaxLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, FollowLogMax>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
