#pragma once

#include <headroom/tree/tree_traits.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
template <class T>
using traits_children_t = decltype(tree_traits<T>::children(std::declval<T&>()));
template <class T>
using traits_subtrees_t = typename tree_traits<T>::subtrees;
template <class T, class Owner, bool Owns, class... Parts>
constexpr auto as_fields(const Fields<Owner, Owns, Parts...>& fields) {
  static_assert(
      std::is_same_v<T, Owner>,
      "headroom: this struct has the HEADROOM_TREE of its base, which does not know the struct's "
      "own members; write one for it: HEADROOM_TREE(Type, member of the base, ..., member, ...)");
  return fields;
}
template <class T, class... Children>
constexpr auto as_fields(const std::tuple<Children...>& children) {
  static_assert(((std::is_lvalue_reference_v<Children> || is_view_v<bare<Children>>)&&...),
                "headroom: children(T&) returns copies, so nothing done to them would reach the "
                "struct; write: return std::tie(member, ...);  (only views, such as "
                "headroom::span, may be returned by value)");
  return Fields<T, false, Children...>{children, nullptr};
}

/// Calls children(T&) once.
template <class T>
constexpr auto fields_of(T& node) {
  if constexpr (is_detected_v<traits_children_t, T>)
    return detail::as_fields<T>(tree_traits<T>::children(node));
  else if constexpr (is_detected_v<member_fields_t, T>)
    return detail::as_fields<T>(node.headroom_tree(node));
  else
    return detail::as_fields<T>(headroom_tree(node));
}
template <class T>
using fields_t = decltype(detail::fields_of(std::declval<T&>()));

/// The parts are const if the node is. children(T&) is called without const.
template <class Node>
struct Product {
  using Owner = std::remove_const_t<Node>;
  fields_t<Owner> fields;
  explicit constexpr Product(Node& node) : fields(detail::fields_of(const_cast<Owner&>(node))) {}
  template <std::size_t Index>
  constexpr auto& part() {
    if constexpr (std::is_const_v<Node>)
      return std::as_const(std::get<Index>(fields.parts));
    else
      return std::get<Index>(fields.parts);
  }
};
}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
