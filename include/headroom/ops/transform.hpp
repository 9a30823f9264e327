#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/overlap.hpp>
#include <headroom/ops/pass.hpp>
#include <headroom/tree/make_like.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

// The three ways to apply an action that writes: in place, into a tree of the user's, into a new tree. All check first: where
// they throw, nothing has been written.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class Executor, class Action, class Tree>
GradientReport transform_in_place(const Executor& executor, const Action& action, Tree& tree) {
  const std::size_t bytes = check_trees(CheckInPlace{}, tree);
  return run_pass(executor, action, bytes, tree).report();
}

/// `bytes` of all leaves.
template <class Executor, class Action, class Source, class Destination>
GradientReport run_into(const Executor& executor, Action action, std::size_t bytes, const Source& source,
                        Destination& destination) {
  action.stores = kernel::stores_for(bytes);
  return run_pass(executor, action, bytes, source, destination).report();
}
template <class Executor, class Action, class Source, class Destination>
GradientReport transform_into(const Executor& executor, const Action& action, const Source& source, Destination& destination) {
  CheckIntoOthers check;
  const std::size_t bytes = check_trees(check, source, destination);
  if (!check.are_apart()) check_leaves_apart(check.leaves, source, destination);
  return run_into(executor, action, bytes, source, destination);
}

/// Whether an argument `Tree&&` is about to go away together with its elements, so that they can be overwritten.
template <class Tree>
inline constexpr bool is_expiring =
    !std::is_lvalue_reference_v<Tree> && !std::is_const_v<Tree> && !std::is_array_v<Tree> && owns_elements_v<Tree>;

template <class Result>
struct Transformed {
  Result tree;
  GradientReport report;
};

/// A new tree with elements of To (or same_dtype). An expiring tree that has that type already is used itself.
template <class To, class Executor, class Action, class Tree>
auto transform(const Executor& executor, const Action& action, Tree&& tree) {
  using Result = rebound_t<Tree, To>;
  if constexpr (is_expiring<Tree> && std::is_same_v<Result, bare<Tree>>) {
    const GradientReport report = transform_in_place(executor, action, tree);
    return Transformed<Result>{std::forward<Tree>(tree), report};
  } else {
    (void)check_trees(CheckReadable{}, tree);
    Transformed<Result> result{make_like<To>(std::as_const(tree)), {}};
    (void)check_trees(CheckNothingShared{}, std::as_const(tree), result.tree);
    const std::size_t bytes = check_trees(CheckInto{}, std::as_const(tree), result.tree);
    result.report = run_into(executor, action, bytes, tree, result.tree);
    return result;
  }
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
