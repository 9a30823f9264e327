#pragma once

#include <headroom/dtype/format.hpp>
#include <headroom/ops/transform.hpp>

#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE

namespace detail {

/// Distinguishes `cast(executor, tree)` from `cast(tree, saturate)`.
template <class T>
using unless_saturate = std::enable_if_t<!std::is_same_v<std::decay_t<T>, saturate_t>, int>;

}  // namespace detail

/// Returns a new tree with every floating-point element converted to `To`, rounded to nearest-even. Values that are too large
/// become Inf, or NaN if `To` has no Inf. NaN stays NaN. Integers are copied. The structure stays the same: std::vector<float>
/// becomes std::vector<To>, Model<float> becomes Model<To>. Views become tensors that own their elements.
template <class To, class Executor, class Tree, detail::unless_saturate<Tree> = 0>
[[nodiscard]] auto cast(const Executor& executor, Tree&& tree) {
  return detail::transform<To, detail::CastOps>(executor, detail::Pass{0}, std::forward<Tree>(tree)).grads;
}
template <class To, class Tree>
[[nodiscard]] auto cast(Tree&& tree) {
  return headroom::cast<To>(sequential, std::forward<Tree>(tree));
}
/// With `saturate`, Inf and values that are too large become the largest finite value of `To`.
template <class To, class Executor, class Tree>
[[nodiscard]] auto cast(const Executor& executor, Tree&& tree, saturate_t) {
  using Ops = detail::SaturatingCastOps;
  return detail::transform<To, Ops>(executor, detail::Pass{0}, std::forward<Tree>(tree)).grads;
}
template <class To, class Tree>
[[nodiscard]] auto cast(Tree&& tree, saturate_t) {
  return headroom::cast<To>(sequential, std::forward<Tree>(tree), saturate);
}

/// Casts into an existing tree of the same structure and shapes, with any floating-point dtypes. Integers in the destination
/// stay as they are. Throws std::invalid_argument naming the path, and writes nothing, if structure or shapes differ.
/// - A leaf may be its own destination if its elements keep their size and places. Otherwise no destination may overlap a
///   source or reach an element twice. Throws if a leaf without gaps overlaps its own destination in part, or if a leaf with
///   gaps starts where its destination does, with other strides or element sizes. Other overlaps are not noticed.
/// - A flat leaf (std::vector, span) matches a tensor of any shape that has no gaps and the same size. Elements correspond in
///   the order of memory: a row-major matrix goes into a std::vector by rows, a std::vector into a column-major one by columns.
template <class Executor, class Source, class Destination, detail::unless_saturate<Destination> = 0>
void cast_into(const Executor& executor, const Source& source, Destination&& destination) {
  (void)detail::plan_and_run<detail::CastOps, detail::Access::into>(executor, detail::Pass{0}, source, destination);
}
template <class Source, class Destination>
void cast_into(const Source& source, Destination&& destination) {
  headroom::cast_into(sequential, source, destination);
}
template <class Executor, class Source, class Destination>
void cast_into(const Executor& executor, const Source& source, Destination&& destination, saturate_t) {
  using Ops = detail::SaturatingCastOps;
  (void)detail::plan_and_run<Ops, detail::Access::into>(executor, detail::Pass{0}, source, destination);
}
template <class Source, class Destination>
void cast_into(const Source& source, Destination&& destination, saturate_t) {
  headroom::cast_into(sequential, source, destination, saturate);
}

HEADROOM_DETAIL_END_NAMESPACE
