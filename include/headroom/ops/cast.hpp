#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/ops/transform.hpp>

#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// Sets `cast(executor, tree)` apart from `cast(tree, saturate)`.
template <class T>
using unless_saturate = std::enable_if_t<!std::is_same_v<std::decay_t<T>, saturate_t>, int>;

}  // namespace detail

/// The tree with every floating-point leaf as `To`: each value the nearest, ties to even; Inf where it is too large, or NaN
/// where `To` has no Inf; NaN stays NaN. Integers are copied. Any tree in, the same structure out: std::vector<float> gives
/// std::vector<To>, Model<float> gives Model<To>; views give tensors that own their elements.
template <class To, class Executor, class Tree, detail::unless_saturate<Tree> = 0>
[[nodiscard]] auto cast(const Executor& executor, Tree&& tree) {
  return detail::transform<detail::checked_dtype_t<To>, detail::CastOps>(executor, detail::Pass{0}, std::forward<Tree>(tree))
      .tree;
}
template <class To, class Tree>
[[nodiscard]] auto cast(Tree&& tree) {
  return headroom::cast<To>(sequential, std::forward<Tree>(tree));
}
/// With `saturate`, Inf and what is too large become the largest finite value of `To`.
template <class To, class Executor, class Tree>
[[nodiscard]] auto cast(const Executor& executor, Tree&& tree, saturate_t) {
  using Ops = detail::SaturatingCastOps;
  return detail::transform<detail::checked_dtype_t<To>, Ops>(executor, detail::Pass{0}, std::forward<Tree>(tree)).tree;
}
template <class To, class Tree>
[[nodiscard]] auto cast(Tree&& tree, saturate_t) {
  return headroom::cast<To>(sequential, std::forward<Tree>(tree), saturate);
}

/// The same into a tree that is there already, of any floating-point dtypes. Integers of the destination are left alone. Throws
/// std::invalid_argument naming the path, before anything is written, where structure or shapes differ or memory overlaps.
/// - A leaf may be its own destination where the size of its elements stays the same, each element in its place. Any other
///   memory that is both read and written is an error, be it of one leaf or of two.
/// - A flat leaf (std::vector, span) stands for a tensor of any shape without gaps, and has its elements in the order in which
///   they lie in memory: a row-major matrix goes into a std::vector row by row, and that into a column-major one by columns.
template <class Executor, class Source, class Destination, detail::unless_saturate<Destination> = 0>
void cast_into(const Executor& executor, const Source& source, Destination&& destination) {
  (void)detail::transform_into<detail::CastOps>(executor, detail::Pass{0}, source, destination);
}
template <class Source, class Destination>
void cast_into(const Source& source, Destination&& destination) {
  headroom::cast_into(sequential, source, destination);
}
template <class Executor, class Source, class Destination>
void cast_into(const Executor& executor, const Source& source, Destination&& destination, saturate_t) {
  (void)detail::transform_into<detail::SaturatingCastOps>(executor, detail::Pass{0}, source, destination);
}
template <class Source, class Destination>
void cast_into(const Source& source, Destination&& destination, saturate_t) {
  headroom::cast_into(sequential, source, destination, saturate);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
