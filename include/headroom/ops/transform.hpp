#pragma once

#include <headroom/dtype/scale_range.hpp>
#include <headroom/ops/find_nonfinite.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/tree/make_like.hpp>

#include <optional>
#include <type_traits>
#include <utility>

// The three ways to apply a verb that writes: in place, into a tree of the user, into a new tree. All of them check before they
// write: if they throw, nothing has been written.

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// A tree of unscaled gradients, and the report of the pass over it: `auto [grads, report] = unscale<float>(tree, loss_scale);`
template <class Tree>
struct Unscaled {
  Tree grads;
  GradientReport report;

  /// Finds the first Inf or NaN of `grads` and counts both. Empty, and nothing is read, if the report says finite.
  [[nodiscard]] std::optional<NonFinite> find_nonfinite() const {
    return report.finite ? std::nullopt : headroom::find_nonfinite(grads);
  }
};

namespace detail {

using ScaleOps = Ops<Op::scale>;
using UnscaleOps = Ops<Op::scale, Op::unscale>;
using CastOps = Ops<Op::cast>;
struct SaturatingCastOps {
  /// Quantizing with a factor of 1 has the same results, and SIMD kernels.
  template <class In, class Out>
  static constexpr PieceKind kind =
      std::conditional_t<is_fp8<Out>, Ops<Op::quantize>,
                         CastOps>::template kind<In, std::conditional_t<is_fp8<Out>, Out, saturating<Out>>>;
};

/// The pass that unscales. For a power of two it is the first op, which multiplies by the exact reciprocal. Otherwise it is the
/// second, which divides. Throws std::invalid_argument if loss_scale is not in [2^-126, 2^126].
[[nodiscard]] inline Pass unscale_pass(const float& loss_scale) {
  check_loss_scale("loss_scale", loss_scale);
  const auto scale = static_cast<double>(loss_scale);
  return is_power_of_two(loss_scale) ? Pass{0, 1.0 / scale} : Pass{1, scale};
}

/// Whether an argument `Tree&&` is a temporary that owns its elements, so that they may be overwritten.
template <class Tree>
inline constexpr bool is_expiring =
    !std::is_lvalue_reference_v<Tree> && !std::is_const_v<Tree> && !std::is_array_v<Tree> && owns_elements_v<Tree>;

/// Returns a tree with elements of To (or same_dtype): a new one, or an expiring argument itself if it has that type.
template <class To, class VerbOps, class Executor, class Tree>
auto transform(const Executor& executor, const Pass& pass, Tree&& tree) {
  using Result = rebound_t<Tree, To>;
  if constexpr (!check_has_floats<bare<Tree>>()) {
    return Unscaled<bare<Tree>>{tree, {}};
  } else if constexpr (is_expiring<Tree> && std::is_same_v<Result, bare<Tree>>) {
    Found found{0, 0.0};
    if constexpr (!std::is_same_v<VerbOps, CastOps>)
      found = detail::plan_and_run<VerbOps, Access::in_place>(executor, pass, tree);
    return Unscaled<Result>{std::forward<Tree>(tree), report_of(found)};
  } else {
    Unscaled<Result> result{detail::make_like<To>(std::as_const(tree)), {}};
    result.report =
        report_of(detail::plan_and_run<VerbOps, Access::into_new>(executor, pass, std::as_const(tree), result.grads));
    return result;
  }
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
