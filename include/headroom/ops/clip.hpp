#pragma once

#include <headroom/ops/measure.hpp>
#include <headroom/ops/transform.hpp>

#include <cstddef>
#include <cstdint>

HEADROOM_DETAIL_BEGIN_NAMESPACE

namespace detail {

inline void check_max_norm(const double& max_norm) {
  check_in("max_norm", max_norm, 0.0, infinity, "0 or more (Inf: no clipping)");
}

[[nodiscard]] inline bool is_infinite(const double& magnitude) noexcept {
  return bit_cast<std::uint64_t>(magnitude) == binary64::infinity_bits;
}
/// a / b, whatever a compiler may do with divisions.
[[nodiscard]] inline double divided(double a, double b) noexcept { return hide_from_optimizer(a / hide_from_optimizer(b)); }

/// The factor that brings the norm down to `max_norm`; 1 if it is small enough already or not finite. As in
/// optax.clip_by_global_norm, nothing is added to the norm.
[[nodiscard]] inline double clip_factor(const GradientNorm& measured, const double& max_norm) noexcept {
  const bool clips = measured.finite && !is_infinite(measured.norm) && !is_infinite(max_norm) && measured.norm > max_norm;
  return clips ? divided(__builtin_fabs(max_norm), measured.norm) : 1.0;  // -0.0 would turn the signs of all elements
}

/// The unscaled counterpart of what was measured on scaled gradients. A norm beyond double cannot be clipped, so it is an
/// overflow.
[[nodiscard]] inline GradientNorm unscaled(const GradientNorm& scaled, double scale) noexcept {
  if (!scaled.finite || is_infinite(scaled.norm)) return overflow();
  return {{true, divided(scaled.max_abs, scale)}, divided(scaled.norm, scale)};
}

/// Multiplies by a factor that may be too small for a normal float; if so, in several passes.
template <class Executor>
GradientReport scale_by_any(const Executor& executor, const Plan& plan, std::size_t op, double factor) {
  constexpr double part = 0x1p-100, least = 0x1p-125;
  for (; factor > 0.0 && factor < least; factor /= part) (void)detail::run(executor, plan, Pass{op, part});
  return report_of(detail::run(executor, plan, Pass{op, factor}));
}

/// Returns what there was before clipping. If there is nothing to do, nothing is written.
template <class Executor, class Tree>
GradientNorm unscale_and_clip(const Executor& executor, Tree& tree, const float& loss_scale, const double& max_norm) {
  check_max_norm(max_norm);
  const Pass unscaling = unscale_pass(loss_scale);
  const auto scale = static_cast<double>(loss_scale);
  Plan plan;
  detail::make_plan<Ops<Op::scale, Op::unscale, Op::measure>, Access::in_place>(plan, tree);
  const GradientNorm measured = unscaled(norm_of(detail::run(executor, plan, Pass{2})), scale);
  const double factor = clip_factor(measured, max_norm);
  if (factor == 1.0 && scale == 1.0) return measured;
  const GradientReport stored = factor == 1.0 ? report_of(detail::run(executor, plan, unscaling))
                                              : detail::scale_by_any(executor, plan, 0, divided(factor, scale));
  return stored.finite ? measured : overflow();
}

}  // namespace detail

/// Unscales in place and clips the unscaled gradients to an L2 norm of at most `max_norm`. Two passes: one reads, the other
/// multiplies by inverse scale times clip factor. Returns finite, max_abs and norm of the unscaled gradients before clipping.
/// Non-finite gradients are unscaled but not clipped. The norm is measured before unscaling. If it is too large for `measure`,
/// as it can be with doubles, the gradients count as not finite; if it is too small, as zero. Throws std::invalid_argument if
/// max_norm is negative or NaN, or loss_scale is not in [2^-126, 2^126].
template <class Executor, class Tree>
[[nodiscard]] GradientNorm unscale_and_clip_in_place(const Executor& executor, Tree&& tree, const float& loss_scale,
                                                     const double& max_norm) {
  return detail::unscale_and_clip(executor, tree, loss_scale, max_norm);
}
template <class Tree>
[[nodiscard]] GradientNorm unscale_and_clip_in_place(Tree&& tree, const float& loss_scale, const double& max_norm) {
  return headroom::unscale_and_clip_in_place(sequential, tree, loss_scale, max_norm);
}

/// Multiplies the tree by max_norm / norm if its L2 norm is finite and above `max_norm`; otherwise leaves it as it is. Returns
/// what was measured before clipping. Two passes: read, then multiply. Throws std::invalid_argument if max_norm is negative or
/// NaN.
template <class Executor, class Tree>
GradientNorm clip_by_global_norm(const Executor& executor, Tree&& tree, const double& max_norm) {
  return detail::unscale_and_clip(executor, tree, 1.0F, max_norm);
}
template <class Tree>
GradientNorm clip_by_global_norm(Tree&& tree, const double& max_norm) {
  return headroom::clip_by_global_norm(sequential, tree, max_norm);
}

HEADROOM_DETAIL_END_NAMESPACE
