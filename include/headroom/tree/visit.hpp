#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/walk.hpp>

#include <cstddef>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Calls `f(leaf)` for every leaf of `tree`, depth first, members and elements in order. A leaf is passed as what it is: a
/// scalar, a std::vector<float>, an Eigen matrix; const if the tree is. Integers are not leaves.
template <class Tree, class F>
void for_each_leaf(Tree&& tree, F&& f) {
  const auto visit = [&f](const detail::Path&, auto& leaf) { f(leaf); };
  detail::walk(detail::Path(), visit, tree);
}

/// The same with `f(path, leaf)`. The path is a std::string that reads like C++: layers[2].weight, ["encoder"], <1> for an
/// element of a tuple or an unnamed member; empty if the tree itself is a leaf.
template <class Tree, class F>
void for_each_leaf_with_path(Tree&& tree, F&& f) {
  const auto visit = [&f](const detail::Path& path, auto& leaf) { f(path.text(), leaf); };
  detail::walk(detail::Path(), visit, tree);
}

template <class Tree>
[[nodiscard]] std::size_t leaf_count(const Tree& tree) {
  std::size_t count = 0;
  for_each_leaf(tree, [&count](const auto&) { ++count; });
  return count;
}

/// Number of floating-point elements over all leaves.
template <class Tree>
[[nodiscard]] std::size_t element_count(const Tree& tree) {
  std::size_t count = 0;
  for_each_leaf(tree, [&count](const auto& leaf) { count += detail::size_of(leaf); });
  return count;
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
