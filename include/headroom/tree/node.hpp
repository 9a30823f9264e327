#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/std.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <type_traits>

// What a type is to a walk, and what is said of one that is nothing to it.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class T>
using bare = std::remove_cv_t<std::remove_reference_t<T>>;

template <class T>
inline constexpr node_kind node_kind_v = kind_of_node<bare<T>>();

template <class T>
constexpr bool is_product_node() {
  if constexpr (node_kind_v<T> == node_kind::branch) {
    return kind_of_branch<bare<T>> == branch_kind::product;
  } else {
    return false;
  }
}

template <class T>
constexpr bool is_pointer_node() {
  if constexpr (node_kind_v<T> == node_kind::branch) {
    return kind_of_branch<bare<T>> == branch_kind::pointer;
  } else {
    return false;
  }
}

template <class T>
constexpr bool check_is_tree() {
  static_assert(
      node_kind_v<T> != node_kind::unknown,
      "headroom: this type is neither a leaf nor a branch of a tree. Make it a leaf by specialising "
      "headroom::tensor_traits<T> (for Eigen, xtensor and others include the adapter: <headroom/adapters/...>), or a "
      "branch by one of three routes: specialise headroom::tree_traits<T>; give it a member or free function children "
      "that returns std::tie(member, ...); or write HEADROOM_TREE(Type, member, ...) after it");
  return node_kind_v<T> != node_kind::unknown;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
