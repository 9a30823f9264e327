#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/kernel/boundary.hpp>
#include <headroom/report.hpp>

#include <cstdint>

// Between the verbs and the kernels: translates a verb's arguments for the kernels, and what they found for the verb.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

using boundary_v2::Found;
using boundary_v2::Op;

/// Judged by its bits: under -ffast-math a comparison may assume that there are no NaNs.
inline void check_factor(const double& factor) {
  if ((bit_cast<std::uint64_t>(factor) & binary64::abs_mask) > bit_cast<std::uint64_t>(largest_float)) {
    throw_bad_value("factor", factor, "finite, as a float");
  }
}

/// An op and its factor.
struct Action {
  Op op;
  double factor;
};
/// How to unscale: multiply by the exact reciprocal of a power of two, otherwise divide. Throws std::invalid_argument if
/// loss_scale is not in [2^-126, 2^126].
[[nodiscard]] inline Action unscaling_by(const float& loss_scale) {
  check_loss_scale("loss_scale", loss_scale);
  const auto scale = static_cast<double>(loss_scale);
  return is_power_of_two(loss_scale) ? Action{Op::scale, 1.0 / scale} : Action{Op::unscale, scale};
}

[[nodiscard]] inline bool is_finite(const Found& found) noexcept { return found.largest < binary64::infinity_bits; }
[[nodiscard]] inline GradientReport report_of(const Found& found) noexcept {
  return {is_finite(found), bit_cast<double>(found.largest)};
}
/// What is said of gradients that are not finite.
[[nodiscard]] constexpr GradientNorm overflow() noexcept {
  return {{false, infinity}, infinity};
}
[[nodiscard]] inline GradientNorm norm_of(const Found& found) noexcept {
  const GradientReport report = report_of(found);
  return {report, report.finite ? __builtin_sqrt(found.sum_of_squares) : report.max_abs};
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
