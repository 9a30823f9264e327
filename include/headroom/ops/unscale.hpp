#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/transform.hpp>

#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// New gradients, divided by the scale in one pass that widens, unscales, checks and measures. Multiplies by the exact
/// reciprocal if the scale is a power of two and divides otherwise, never multiplying by a rounded reciprocal. `unscale<float>`
/// returns float gradients whatever comes in, which is what 16-bit gradients need: in fp16 a true gradient below 2^-25 rounds
/// to zero again. Throws std::invalid_argument if loss_scale is not in [2^-126, 2^126].
template <class To = same_dtype, class Executor, class Tree>
[[nodiscard]] auto unscale(const Executor& executor, Tree&& tree, const float& loss_scale) {
  return detail::transform<detail::checked_dtype_t<To>, detail::UnscaleOps>(executor, detail::unscale_pass(loss_scale),
                                                                            std::forward<Tree>(tree));
}
template <class To = same_dtype, class Tree>
[[nodiscard]] auto unscale(Tree&& tree, const float& loss_scale) {
  return headroom::unscale<To>(sequential, std::forward<Tree>(tree), loss_scale);
}

/// Unscales the gradients in place. 16-bit gradients are rounded, and may underflow, in their own dtype.
template <class Executor, class Tree>
GradientReport unscale_in_place(const Executor& executor, Tree&& tree, const float& loss_scale) {
  return detail::transform_in_place<detail::UnscaleOps>(executor, detail::unscale_pass(loss_scale), tree);
}
template <class Tree>
GradientReport unscale_in_place(Tree&& tree, const float& loss_scale) {
  return headroom::unscale_in_place(sequential, tree, loss_scale);
}

/// Unscales into an existing tree of the same structure and shapes, with any floating-point dtypes. As in cast_into, a leaf may
/// be its own destination if its elements keep their size, any other overlap is a std::invalid_argument, and a flat leaf can
/// stand for a tensor without gaps, with its elements in the order they have in memory.
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
