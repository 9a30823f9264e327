#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/rebind.hpp>

#include <cstddef>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

// New trees of the structure and sizes of another, of the type that tree/rebind.hpp finds. Their floating-point elements are
// for the caller to fill; everything else is copied.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class To, class T>
[[nodiscard]] rebound_t<T, To> make_like(const T& tree);

template <class To, class Old, class New>
void shape_parts_like(const Old& old_node, New& new_node);

/// Gives a part of a new struct the shape of the old one's. A part may follow the struct's dtype or have one of its own: the
/// `double` of a Model<T> stays double.
template <class To, class Old, class New>
void shape_like(const Old& old_part, New& new_part) {
  // A copy of the struct may have led here to what it shares with the old one, which is not ours to write.
  if (static_cast<const void*>(&old_part) == static_cast<const void*>(&new_part)) return;
  if constexpr (std::is_array_v<New>) {
    if constexpr (node_kind_v<Old> == node_kind::branch || node_kind_v<Old> == node_kind::integers) {
      auto element = std::begin(new_part);
      for (const auto& old_element : old_part) detail::shape_like<To>(old_element, *element++);
    }
  } else if constexpr (std::is_same_v<New, rebound_t<Old, To>>) {
    new_part = detail::make_like<To>(old_part);
  } else if constexpr (std::is_same_v<New, rebound_t<Old, same_dtype>>) {
    new_part = detail::make_like<same_dtype>(old_part);
  } else {
    constexpr bool both_products = is_product_node<Old>() && is_product_node<New>();
    static_assert(both_products,
                  "headroom: a member of this struct is a view (a span, a map) or of a type that does not follow the struct's "
                  "dtype, so the verb cannot make a new one: use its _into or _in_place form");
    if constexpr (both_products) detail::shape_parts_like<To>(old_part, new_part);
  }
}

template <class To, class OldParts, class NewParts, std::size_t... I>
void shape_each_like(OldParts old_parts, NewParts new_parts, std::index_sequence<I...>) {
  static_assert(sizeof...(I) == std::tuple_size_v<NewParts>, "headroom: the rebound struct has another number of children");
  (detail::shape_like<To>(std::get<I>(old_parts), std::get<I>(new_parts)), ...);
}
template <class To, class Old, class New>
void shape_parts_like(const Old& old_node, New& new_node) {
  using Parts = std::make_index_sequence<std::tuple_size_v<children_t<const Old>>>;
  shape_each_like<To>(children_of(old_node), children_of(new_node), Parts{});
}

template <class To, class T>
rebound_t<T, To> make_struct_like(const T& tree) {
  using Result = rebound_t<T, To>;
  constexpr bool has_parts = parts_of<Result>::value != parts::referenced;
  static_assert(
      has_parts,
      "headroom: a struct of references has no elements of its own, so there is no new one to be made: use the verb's "
      "_into or _in_place form");
  if constexpr (!has_parts) {
    return tree;
  } else if constexpr (std::is_same_v<Result, T> && is_copyable_tree_v<T>) {
    Result result(tree);  // with the members that are no children
    if constexpr (!may_own_elements_v<T>) detail::shape_parts_like<To>(tree, result);
    return result;
  } else {
    static_assert(std::is_default_constructible_v<Result>,
                  "headroom: a new struct is made by its default constructor, which this one lacks: use the _into form");
    Result result{};
    detail::shape_parts_like<To>(tree, result);
    return result;
  }
}

template <class To, class... Ts>
rebound_t<std::tuple<Ts...>, To> make_struct_like(const std::tuple<Ts...>& tree) {
  return std::apply([](const auto&... parts) { return rebound_t<std::tuple<Ts...>, To>(detail::make_like<To>(parts)...); },
                    tree);
}
template <class To, class A, class B>
rebound_t<std::pair<A, B>, To> make_struct_like(const std::pair<A, B>& tree) {
  return {detail::make_like<To>(tree.first), detail::make_like<To>(tree.second)};
}

template <class Container, class = void>
struct has_push_back : std::false_type {};
template <class Container>
struct has_push_back<
    Container, std::void_t<decltype(std::declval<Container&>().push_back(std::declval<typename Container::value_type>()))>>
    : std::true_type {};

template <class To, class T>
rebound_t<T, To> make_sequence_like(const T& tree) {
  rebound_t<T, To> result{};
  if constexpr (has_push_back<rebound_t<T, To>>::value) {
    for (const auto& element : tree) result.push_back(detail::make_like<To>(element));
  } else {
    auto place = std::begin(result);
    for (const auto& element : tree) *place++ = detail::make_like<To>(element);
  }
  return result;
}

template <class T, class = void>
struct is_ordered_map : std::false_type {};
template <class T>
struct is_ordered_map<T, std::void_t<decltype(std::declval<const T&>().key_comp())>> : std::true_type {};

/// With the functions that order or hash the keys, which may have a state.
template <class Result, class T>
Result make_empty_map_like(const T& tree) {
  if constexpr (is_ordered_map<T>::value) {
    return Result(tree.key_comp());
  } else {
    return Result(tree.size(), tree.hash_function(), tree.key_eq());
  }
}

template <class To, class T>
rebound_t<T, To> make_map_like(const T& tree) {
  auto result = make_empty_map_like<rebound_t<T, To>>(tree);
  for (const auto& [key, value] : tree) result.emplace(key, detail::make_like<To>(value));
  return result;
}

template <class To, class T>
rebound_t<T, To> make_pointer_like(const T& tree) {
  if (const auto* subtree = tree_traits<T>::get(tree)) return tree_traits<T>::make(detail::make_like<To>(*subtree));
  if constexpr (std::is_default_constructible_v<rebound_t<T, To>>) {
    return {};
  } else {
    __builtin_unreachable();  // a reference is never empty
  }
}

template <class To, std::size_t I = 0, class T>
rebound_t<T, To> make_variant_like(const T& tree) {
  if constexpr (I + 1 < std::variant_size_v<T>) {
    if (tree.index() != I) return make_variant_like<To, I + 1>(tree);
  }
  return rebound_t<T, To>(std::in_place_index<I>, detail::make_like<To>(std::get<I>(tree)));
}

/// A tree of the structure and sizes of `tree`, with elements of To.
template <class To, class T>
rebound_t<T, To> make_like(const T& tree) {
  if constexpr (node_kind_v<T> == node_kind::scalar) {
    return rebound_t<T, To>{};
  } else if constexpr (node_kind_v<T> == node_kind::tensor) {
    using Element = dtype_or<typename tensor_traits<T>::value_type, To>;
    if constexpr (has_tensor_rebind<T, Element>::value) {
      return tensor_traits<T>::template like<Element>(tree);
    } else {
      return tree;
    }
  } else if constexpr (node_kind_v<T> != node_kind::branch) {
    return tree;
  } else if constexpr (kind_of_branch<T> == branch_kind::dynamic) {
    return tree_traits<T>::template like<To>(tree);
  } else if constexpr (kind_of_branch<T> == branch_kind::product) {
    return make_struct_like<To>(tree);
  } else if constexpr (kind_of_branch<T> == branch_kind::sequence) {
    return make_sequence_like<To>(tree);
  } else if constexpr (kind_of_branch<T> == branch_kind::map) {
    return make_map_like<To>(tree);
  } else if constexpr (kind_of_branch<T> == branch_kind::pointer) {
    return make_pointer_like<To>(tree);
  } else {
    return make_variant_like<To>(tree);
  }
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
