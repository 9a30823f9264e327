#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/ops/transform.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

inline void check_max_norm(const double& max_norm) {
  const auto bits = bit_cast<std::uint64_t>(max_norm);
  const bool is_number = (bits & binary64::abs_mask) <= binary64::infinity_bits;
  const bool is_negative = (bits & binary64::sign_mask) != 0 && (bits & binary64::abs_mask) != 0;
  if (!is_number || is_negative) throw_bad_value("max_norm", max_norm, "0 or more (Inf: no clipping)");
}

[[nodiscard]] inline bool is_infinite(const double& magnitude) noexcept {
  return bit_cast<std::uint64_t>(magnitude) == binary64::infinity_bits;
}
/// Whether there is something to clip. A norm may be beyond all doubles where no gradient is.
[[nodiscard]] inline bool clips(const GradientNorm& measured, const double& max_norm) noexcept {
  if (!measured.finite || is_infinite(measured.max_abs) || is_infinite(max_norm)) return false;
  return is_infinite(measured.norm) || measured.norm > max_norm;
}
/// The factor that brings `norm` down to `max_norm`; 1 where it is there already, and where the norm is beyond all doubles. As
/// in JAX (optax.clip_by_global_norm): nothing is added to the norm.
[[nodiscard]] inline double clip_factor(const GradientNorm& measured, const double& max_norm) noexcept {
  return clips(measured, max_norm) && !is_infinite(measured.norm) ? max_norm / measured.norm : 1.0;
}

/// a / b, whatever a compiler may do with divisions.
[[nodiscard]] inline double divided(double a, double b) noexcept { return launder(a / launder(b)); }

/// value * 2^exponent: what brings 1e200 down to 1e-200 is no double.
struct WideFactor {
  double value;
  int exponent = 0;
};
/// max_norm / norm
[[nodiscard]] inline WideFactor clip_factor(const kernel::unchecked::WideNorm& norm, const double& max_norm) noexcept {
  int exponent = 0;
  const double fraction = std::frexp(max_norm, &exponent);
  return {divided(fraction, norm.root), exponent - norm.exponent};
}

/// tree *= factor; `bytes` of all leaves. A factor too small for a normal float comes in several.
template <class Executor, class Tree>
Findings multiply_in_place(const Executor& executor, const WideFactor& factor, std::size_t bytes, Tree& tree) {
  int exponent = 0;
  const double fraction = std::frexp(factor.value, &exponent);  // in [1/2, 1), or 0
  constexpr int part = -100, least = -125;
  for (exponent += factor.exponent; fraction > 0.0 && exponent < least; exponent -= part) {
    (void)run_pass(executor, Multiply{kernel::unchecked::power_of_two(part)}, bytes, tree);
  }
  return run_pass(executor, Multiply{std::ldexp(fraction, exponent)}, bytes, tree);
}
template <class Executor, class Tree>
Findings multiply_in_place(const Executor& executor, double factor, std::size_t bytes, Tree& tree) {
  return detail::multiply_in_place(executor, WideFactor{factor}, bytes, tree);
}

/// What was measured on scaled gradients, and a factor of unscaled ones, the other way about.
[[nodiscard]] inline kernel::unchecked::WideNorm unscaled(const kernel::unchecked::WideNorm& scaled, double scale) noexcept {
  if (!scaled.report.finite) return scaled;
  return {{true, detail::divided(scaled.report.max_abs, scale)}, detail::divided(scaled.root, scale), scaled.exponent};
}
[[nodiscard]] inline WideFactor unscaled(const WideFactor& factor, double scale) noexcept {
  return {detail::divided(factor.value, scale), factor.exponent};
}

struct Clipped {
  GradientNorm norm;      ///< of the unscaled gradients before clipping
  GradientReport stored;  ///< of what lies in memory now
};
/// Divides the tree by `scale` and clips it: see LossScaleVerbs::unscale_and_clip_in_place. Where there is nothing to do
/// nothing is written.
template <class Executor, class Tree>
Clipped unscale_and_clip(const Executor& executor, Tree& tree, float loss_scale, const double& max_norm) {
  check_max_norm(max_norm);
  const auto scale = static_cast<double>(loss_scale);
  const std::size_t bytes = check_trees(CheckInPlace{}, tree);
  const kernel::unchecked::WideNorm norm = unscaled(measure_checked(executor, bytes, tree), scale);
  const GradientNorm measured = kernel::unchecked::rounded(norm);
  const bool clipped = clips(measured, max_norm);
  if (!clipped && scale == 1.0) return {measured, measured};
  const Findings found = clipped
                             ? detail::multiply_in_place(executor, unscaled(clip_factor(norm, max_norm), scale), bytes, tree)
                             : run_pass(executor, Unscale{kernel::unchecked::unscaling_by(loss_scale)}, bytes, tree);
  return {found.finite() ? measured : kernel::unchecked::rounded({found.report(), 0.0, 0}), found.report()};
}

}  // namespace detail

/// Multiplies the tree by max_norm / norm where its L2 norm is above `max_norm`; else, and where it is not finite, leaves it as
/// it is. Returns what was measured before. Two passes: read, then multiply. Throws std::invalid_argument where max_norm is
/// negative or NaN.
template <class Executor, class Tree>
GradientNorm clip_by_global_norm(const Executor& executor, Tree&& tree, const double& max_norm) {
  return detail::unscale_and_clip(executor, tree, 1.0F, max_norm).norm;
}
template <class Tree>
GradientNorm clip_by_global_norm(Tree&& tree, const double& max_norm) {
  return headroom::clip_by_global_norm(sequential, tree, max_norm);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
