#pragma once

#include <headroom/dtype/format.hpp>
#include <headroom/ops/transform.hpp>

#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE

namespace detail {

/// Sets `cast(executor, tree)` apart from `cast(tree, saturate)`.
template <class T>
using unless_saturate = std::enable_if_t<!std::is_same_v<std::decay_t<T>, saturate_t>, int>;

}  // namespace detail

/// The tree with every floating-point leaf converted to `To`: to the nearest value, ties to even, or to Inf if too large (NaN
/// if `To` has no Inf); NaN stays NaN. Integers are copied. The structure stays the same: std::vector<float> becomes
/// std::vector<To>, Model<float> becomes Model<To>; views become tensors that own their elements.
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

/// The same into an existing tree of any floating-point dtypes. Integers in the destination are left alone. Throws
/// std::invalid_argument naming the path, before anything is written, if structure or shapes differ.
/// - A leaf may be its own destination if its elements keep their size, each in its place. Otherwise a destination must not
///   overlap any source, nor reach an element twice. Only a leaf without gaps that meets its own destination in part, and one
///   with gaps that starts where its destination does, is noticed: std::invalid_argument.
/// - A flat leaf (std::vector, span) can stand for a tensor of any shape without gaps, with its elements in the order they have
///   in memory: a row-major matrix goes into a std::vector row by row, and from there into a column-major one by columns.
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
