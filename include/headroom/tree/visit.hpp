#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/branches.hpp>
#include <headroom/tree/product.hpp>

#include <cstddef>
#include <string>
#include <type_traits>

// The visitor: one walk over one tree, or over two of the same structure side by side (source and destination, whose element
// and container types may differ). It calls visit(path, leaf...) for every leaf; everything that is not floating-point is
// passed over.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// For a visit that takes nodes of dynamic dtype as they are.
template <class Visit>
using takes_dynamic_t = std::enable_if_t<Visit::takes_dynamic_nodes>;

template <class Visit, class First, class... Second>
void walk_alike(const Path& path, Visit& visit, First& first, Second&... second) {
  constexpr node_kind node = node_kind_v<First>;
  static_assert(((node == node_kind_v<Second>)&&...),
                "headroom: the two trees differ in structure: a leaf faces a branch, or a floating-point leaf an integer");
  if constexpr (node == node_kind::scalar || node == node_kind::tensor) {
    visit(path, first, second...);
  } else if constexpr (node == node_kind::branch) {
    constexpr branch_kind kind = kind_of_branch<bare<First>>();
    static_assert(((kind == kind_of_branch<bare<Second>>()) && ...),
                  "headroom: the two trees differ in structure: a struct, a sequence, a map or a variant faces something else");
    branch<kind>::walk(path, visit, first, second...);
  }
}

template <class Visit, class... Nodes>
void walk(const Path& path, Visit& visit, Nodes&... nodes) {
  if constexpr ((check_is_tree<Nodes>() && ...)) {
    if constexpr ((is_branch<Nodes, branch_kind::pointer>() || ...)) {
      branch<branch_kind::pointer>::walk(path, visit, nodes...);
    } else if constexpr (!(is_dynamic_node<Nodes>() || ...)) {
      detail::walk_alike(path, visit, nodes...);
    } else if constexpr (is_detected_v<takes_dynamic_t, Visit>) {
      visit(path, nodes...);
    } else {
      branch<branch_kind::dynamic>::walk(path, visit, nodes...);
    }
  }
}

}  // namespace detail

/// Calls `f(leaf)` for every leaf of `tree`, depth first, members and elements in order. A leaf is passed as what it is: a
/// scalar, a std::vector<float>, an Eigen matrix; const if the tree is. Integers are not leaves.
template <class Tree, class F>
void for_each_leaf(Tree&& tree, F&& f) {
  const auto visit = [&f](const detail::Path&, auto& leaf) { f(leaf); };
  detail::walk(detail::root, visit, tree);
}

/// The same with `f(path, leaf)`. The path is a std::string that reads like C++: layers[2].weight, ["encoder"], <1> for an
/// element of a tuple or an unnamed member; empty if the tree itself is a leaf.
template <class Tree, class F>
void for_each_leaf_with_path(Tree&& tree, F&& f) {
  const auto visit = [&f](const detail::Path& path, auto& leaf) { f(path.text(), leaf); };
  detail::walk(detail::root, visit, tree);
}

template <class Tree>
[[nodiscard]] std::size_t leaf_count(const Tree& tree) {
  std::size_t count = 0;
  headroom::for_each_leaf(tree, [&count](const auto&) { ++count; });
  return count;
}

/// Number of floating-point elements over all leaves.
template <class Tree>
[[nodiscard]] std::size_t element_count(const Tree& tree) {
  std::size_t count = 0;
  headroom::for_each_leaf(tree, [&count](const auto& leaf) { count += detail::size_of(leaf); });
  return count;
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
