#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/transform.hpp>

#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The tree with every floating-point leaf as `To`: each value the nearest, ties to even; Inf where it is too large, NaN stays
/// NaN. Integers are copied. Any tree in, the same structure out: std::vector<float> gives std::vector<To>, Model<float> gives
/// Model<To>; views give tensors that own their elements.
template <class To, class Executor, class Tree>
[[nodiscard]] auto cast(const Executor& executor, Tree&& tree) {
  return detail::transform<detail::checked_dtype_t<To>, detail::CastOps>(executor, detail::Pass{0}, std::forward<Tree>(tree))
      .tree;
}
template <class To, class Tree>
[[nodiscard]] auto cast(Tree&& tree) {
  return headroom::cast<To>(sequential, std::forward<Tree>(tree));
}

/// The same into a tree that is there already, of any floating-point dtypes. Integers of the destination are left alone. Throws
/// std::invalid_argument naming the path, before anything is written, where structure or shapes differ or memory overlaps.
/// - A leaf may be its own destination where the size of its elements stays the same, each element in its place. Any other
///   memory that is both read and written is an error, be it of one leaf or of two.
/// - A flat leaf (std::vector, span) stands for a tensor of any shape without gaps, and has its elements in the order in which
///   they lie in memory: a row-major matrix goes into a std::vector row by row, and that into a column-major one by columns.
template <class Executor, class Source, class Destination>
void cast_into(const Executor& executor, const Source& source, Destination&& destination) {
  (void)detail::transform_into<detail::CastOps>(executor, detail::Pass{0}, source, destination);
}
template <class Source, class Destination>
void cast_into(const Source& source, Destination&& destination) {
  headroom::cast_into(sequential, source, destination);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
