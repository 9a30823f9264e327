#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/transform.hpp>

#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A tree of unscaled gradients and what the pass over it found: `auto [grads, report] = unscale<float>(tree, loss_scale);`
template <class Tree>
struct [[nodiscard]] Unscaled {
  Tree grads;
  GradientReport report;
};

/// New gradients divided by the scale, in one pass: widened, unscaled, checked, measured. By the exact reciprocal where the
/// scale is a power of two, else by division, never by a rounded reciprocal. `unscale<float>` gives float gradients whatever
/// comes in, which is what 16-bit gradients want: in fp16 a true gradient below 2^-25 rounds to zero again. Throws
/// std::invalid_argument where loss_scale is not in [2^-126, 2^126].
template <class To = same_dtype, class Executor, class Tree>
[[nodiscard]] auto unscale(const Executor& executor, Tree&& tree, const float& loss_scale) {
  auto result = detail::transform<detail::checked_dtype_t<To>, detail::UnscaleOps>(executor, detail::unscale_pass(loss_scale),
                                                                                   std::forward<Tree>(tree));
  return Unscaled<decltype(result.tree)>{std::move(result.tree), result.report};
}
template <class To = same_dtype, class Tree>
[[nodiscard]] auto unscale(Tree&& tree, const float& loss_scale) {
  return headroom::unscale<To>(sequential, std::forward<Tree>(tree), loss_scale);
}

/// The same where they lie. 16-bit gradients are rounded, and may underflow, in their own dtype.
template <class Executor, class Tree>
GradientReport unscale_in_place(const Executor& executor, Tree&& tree, const float& loss_scale) {
  return detail::transform_in_place<detail::UnscaleOps>(executor, detail::unscale_pass(loss_scale), tree);
}
template <class Tree>
GradientReport unscale_in_place(Tree&& tree, const float& loss_scale) {
  return headroom::unscale_in_place(sequential, tree, loss_scale);
}

/// The same into a tree of the same structure and shapes, of any floating-point dtypes, without a new tree. As in cast_into, a
/// leaf may be its own destination where its elements keep their size, other overlap is std::invalid_argument, and a flat leaf
/// stands for a tensor without gaps, with its elements in the order in which they lie in memory.
template <class Executor, class Source, class Destination>
GradientReport unscale_into(const Executor& executor, const Source& source, Destination&& destination,
                            const float& loss_scale) {
  return detail::transform_into<detail::UnscaleOps>(executor, detail::unscale_pass(loss_scale), source, destination);
}
template <class Source, class Destination>
GradientReport unscale_into(const Source& source, Destination&& destination, const float& loss_scale) {
  return headroom::unscale_into(sequential, source, destination, loss_scale);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
