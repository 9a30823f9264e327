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
/// a / b. Under -ffast-math, too, the compiler does not combine it with other operations.
[[nodiscard]] inline double divided(double a, double b) noexcept { return hide_from_optimizer(a / hide_from_optimizer(b)); }

/// The factor that reduces the norm to `max_norm`; 1 if the norm is small enough or not finite. As in
/// optax.clip_by_global_norm, no epsilon is added to the norm.
[[nodiscard]] inline double clip_factor(const GradientNorm& measured, const double& max_norm) noexcept {
  const bool clips = measured.finite && !is_infinite(measured.norm) && !is_infinite(max_norm) && measured.norm > max_norm;
  return clips ? divided(__builtin_fabs(max_norm), measured.norm) : 1.0;  // -0.0 would change the signs of all elements
}

/// Divides what was measured on scaled gradients by the scale. A norm beyond double cannot be clipped: it is an overflow.
[[nodiscard]] inline GradientNorm unscaled(const GradientNorm& scaled, double scale) noexcept {
  if (!scaled.finite || is_infinite(scaled.norm)) return overflow();
  return {{true, divided(scaled.max_abs, scale)}, divided(scaled.norm, scale)};
}

/// Multiplies by `factor`. If that is too small for a normal float, several passes multiply by parts of it.
template <class Executor>
GradientReport scale_by_any(const Executor& executor, const Plan& plan, std::size_t op, double factor) {
  constexpr double part = 0x1p-100, least = 0x1p-125;
  for (; factor > 0.0 && factor < least; factor /= part) (void)detail::run(executor, plan, Pass{op, part});
  return report_of(detail::run(executor, plan, Pass{op, factor}));
}

}  // namespace detail

/// Unscales in place and clips the unscaled gradients to an L2 norm of at most `max_norm`. Returns finite, max_abs and norm of
/// the unscaled gradients before clipping. Makes two passes: one reads, the other multiplies by clip factor / loss scale.
/// Gradients with Inf or NaN are unscaled, but not clipped. The norm is measured before unscaling. If `measure` overflows, as
/// it can with doubles, the gradients count as not finite. If it underflows, the norm is 0. Throws std::invalid_argument if
/// max_norm is negative or NaN, or if loss_scale is not in [2^-126, 2^126].
template <class Executor, class Tree>
[[nodiscard]] GradientNorm unscale_and_clip_in_place(const Executor& executor, Tree&& tree, const float& loss_scale,
                                                     const double& max_norm) {
  detail::check_max_norm(max_norm);
  const detail::Pass unscaling = detail::unscale_pass(loss_scale);
  const auto scale = static_cast<double>(loss_scale);
  detail::Plan plan;
  using Ops = detail::Ops<detail::Op::scale, detail::Op::unscale, detail::Op::measure>;
  detail::make_plan<Ops, detail::Access::in_place>(plan, tree);
  const GradientNorm measured = detail::unscaled(detail::norm_of(detail::run(executor, plan, detail::Pass{2})), scale);
  const double factor = detail::clip_factor(measured, max_norm);
  if (factor == 1.0 && scale == 1.0) return measured;  // nothing is written
  const GradientReport stored = factor == 1.0 ? detail::report_of(detail::run(executor, plan, unscaling))
                                              : detail::scale_by_any(executor, plan, 0, detail::divided(factor, scale));
  return stored.finite ? measured : detail::overflow();
}
template <class Tree>
[[nodiscard]] GradientNorm unscale_and_clip_in_place(Tree&& tree, const float& loss_scale, const double& max_norm) {
  return headroom::unscale_and_clip_in_place(sequential, tree, loss_scale, max_norm);
}

/// Multiplies the tree by max_norm / norm if its L2 norm is finite and above `max_norm`. Otherwise leaves it as it is. Returns
/// finite, max_abs and norm before clipping. Makes two passes: one reads, the other multiplies. Throws std::invalid_argument if
/// max_norm is negative or NaN.
template <class Executor, class Tree>
GradientNorm clip_by_global_norm(const Executor& executor, Tree&& tree, const double& max_norm) {
  return headroom::unscale_and_clip_in_place(executor, tree, 1.0F, max_norm);
}
template <class Tree>
GradientNorm clip_by_global_norm(Tree&& tree, const double& max_norm) {
  return headroom::clip_by_global_norm(sequential, tree, max_norm);
}

HEADROOM_DETAIL_END_NAMESPACE
