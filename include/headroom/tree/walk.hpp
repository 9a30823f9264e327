#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/branches.hpp>
#include <headroom/tree/product.hpp>

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
}  // namespace HEADROOM_BUILD
}  // namespace headroom
