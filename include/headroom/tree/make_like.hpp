#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/rebind.hpp>

#include <cstddef>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

// New trees with the structure and sizes of another, of the type that tree/rebind.hpp finds. The caller fills their
// floating-point elements; everything else is copied.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class To, class Old, class New>
void shape_parts_like(const Old& old_node, New& new_node);

/// Gives a part of a new struct the shape of the old one's. A part may follow the struct's dtype or have its own: a `double` in
/// a Model<T> stays double.
template <class To, class Old, class New>
void shape_like(const Old& old_part, New& new_part) {
  // The copied struct may share this part with the old one, which is not ours to write.
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
    constexpr bool both_products = is_branch<Old, branch_kind::product>() && is_branch<New, branch_kind::product>();
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
  using Parts = std::make_index_sequence<std::tuple_size_v<parts_t<const Old>>>;
  shape_each_like<To>(fields_of(old_node).members, fields_of(new_node).members, Parts{});
}

template <class To, class T>
rebound_t<T, To> make_struct_like(const T& tree) {
  using Result = rebound_t<T, To>;
  constexpr bool has_parts = parts_of_v<Result> != parts::referenced;
  static_assert(
      has_parts,
      "headroom: a struct of references has no elements of its own, so there is no new one to be made: use the verb's "
      "_into or _in_place form");
  if constexpr (!has_parts) {
    return tree;
  } else if constexpr (std::is_same_v<Result, T> && is_copyable_tree_v<T>) {
    Result result(tree);  // copies the members that are not children, too
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

/// A tree with the structure and sizes of `tree` and elements of To.
template <class To, class T>
rebound_t<T, To> make_like(const T& tree) {
  if constexpr (node_kind_v<T> == node_kind::scalar) {
    return rebound_t<T, To>{};
  } else if constexpr (node_kind_v<T> == node_kind::tensor) {
    using Element = dtype_or<typename tensor_traits<T>::value_type, To>;
    if constexpr (is_detected_v<tensor_rebind_t, T, Element>) {
      return tensor_traits<T>::template like<Element>(tree);
    } else {
      return tree;
    }
  } else if constexpr (node_kind_v<T> == node_kind::branch) {
    return branch<kind_of_branch<T>()>::template make_like<To>(tree);
  } else {
    return tree;
  }
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
