#pragma once

#include <headroom/ops/measure.hpp>
#include <headroom/ops/transform.hpp>

#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// Returns new gradients, divided by the loss scale, and a report: `auto [grads, report] = unscale<float>(tree, loss_scale)`.
/// One pass widens, unscales, checks and measures. If the scale is a power of two, it multiplies by the exact reciprocal.
/// Otherwise it divides. `unscale<float>` returns float gradients for every dtype. Use it for 16-bit gradients: in fp16 a true
/// gradient below 2^-25 rounds to zero again. Throws std::invalid_argument if loss_scale is not in [2^-126, 2^126].
template <class To = same_dtype, class Executor, class Tree>
[[nodiscard]] auto unscale(const Executor& executor, Tree&& tree, const float& loss_scale) {
  return detail::transform<To, detail::UnscaleOps>(executor, detail::unscale_pass(loss_scale), std::forward<Tree>(tree));
}
template <class To = same_dtype, class Tree>
[[nodiscard]] auto unscale(Tree&& tree, const float& loss_scale) {
  return headroom::unscale<To>(sequential, std::forward<Tree>(tree), loss_scale);
}

namespace detail {

/// For NoOpLossScale: without a `To`, only measures the tree and returns it. Otherwise returns a tree of the type that other
/// policies return.
template <class To, class Executor, class Tree>
auto unscale_by_1(const Executor& executor, Tree&& tree) {
  if constexpr (std::is_same_v<To, same_dtype>) {
    const GradientReport report = detail::max_abs_of(executor, tree, false);
    return Unscaled<Tree>{std::forward<Tree>(tree), report};
  } else {
    return headroom::unscale<To>(executor, std::forward<Tree>(tree), 1.0F);
  }
}
template <class To, class Tree>
auto unscale_by_1(Tree&& tree) {
  return detail::unscale_by_1<To>(sequential, std::forward<Tree>(tree));
}

}  // namespace detail

/// Unscales the gradients in place. Each element is rounded to its own dtype, so 16-bit gradients may underflow. Throws as
/// `unscale` does, and if two views or shared pointers lead to one address.
template <class Executor, class Tree>
[[nodiscard]] GradientReport unscale_in_place(const Executor& executor, Tree&& tree, const float& loss_scale) {
  const detail::Pass pass = detail::unscale_pass(loss_scale);
  return detail::report_of(detail::plan_and_run<detail::UnscaleOps, detail::Access::in_place>(executor, pass, tree));
}
template <class Tree>
[[nodiscard]] GradientReport unscale_in_place(Tree&& tree, const float& loss_scale) {
  return headroom::unscale_in_place(sequential, tree, loss_scale);
}

/// Unscales into an existing tree of the same structure and shapes, with any floating-point dtypes. The conditions of cast_into
/// apply. Throws as `unscale` and cast_into do.
template <class Executor, class Source, class Destination>
[[nodiscard]] GradientReport unscale_into(const Executor& executor, const Source& source, Destination&& destination,
                                          const float& loss_scale) {
  const detail::Pass pass = detail::unscale_pass(loss_scale);
  using Ops = detail::UnscaleOps;
  return detail::report_of(detail::plan_and_run<Ops, detail::Access::into>(executor, pass, source, destination));
}
template <class Source, class Destination>
[[nodiscard]] GradientReport unscale_into(const Source& source, Destination&& destination, const float& loss_scale) {
  return headroom::unscale_into(sequential, source, destination, loss_scale);
}

/// destination += source / loss_scale, in one pass. Use it to sum the 16-bit gradients of micro-batches in float, as Megatron
/// does in main_grad. The report describes the addends, in float (in double if source or destination is double). To find a sum
/// that overflows, measure the destination. Inf and NaN are added, too: clear the destination when you skip the step.
///
/// Takes the same trees as unscale_into and throws the same errors. A leaf may be its own destination.
template <class Executor, class Source, class Destination>
[[nodiscard]] GradientReport accumulate_into(const Executor& executor, const Source& source, Destination&& destination,
                                             const float& loss_scale) {
  detail::Pass pass = detail::unscale_pass(loss_scale);
  pass.adds = true;
  using AddOps = detail::Ops<detail::Op::add_scaled, detail::Op::add_unscaled>;
  return detail::report_of(detail::plan_and_run<AddOps, detail::Access::into>(executor, pass, source, destination));
}
template <class Source, class Destination>
[[nodiscard]] GradientReport accumulate_into(const Source& source, Destination&& destination, const float& loss_scale) {
  return headroom::accumulate_into(sequential, source, destination, loss_scale);
}

HEADROOM_DETAIL_END_NAMESPACE
