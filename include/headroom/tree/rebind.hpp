#pragma once

#include <headroom/tree/facts.hpp>

#include <cstddef>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

// New trees: which type a tree has with elements of another dtype, and how one of the same structure and sizes is made. Its
// floating-point elements are for the caller to fill; everything else is copied.

namespace headroom {

/// Stands for "each leaf keeps its dtype" where a verb takes a dtype.
struct same_dtype {};

namespace detail {

template <class Dtype, class To>
using dtype_or = std::conditional_t<std::is_same_v<To, same_dtype>, Dtype, To>;

template <class>
inline constexpr bool never = false;

// ---- types ----

template <class T, class To, class = void>
struct has_tensor_rebind : std::false_type {};
template <class T, class To>
struct has_tensor_rebind<T, To, std::void_t<typename tensor_traits<T>::template rebind<To>>> : std::true_type {};

template <class T, class To, class = void>
struct has_struct_rebind : std::false_type {};
template <class T, class To>
struct has_struct_rebind<T, To, std::void_t<typename tree_traits<T>::template rebind<To>>> : std::true_type {};

template <class T, class To>
constexpr auto rebound_tag();

/// What decltype can carry of a type that may not be default constructible.
template <class T>
struct type_tag {
  using type = T;
};

template <class T, class To>
using rebound_t = typename decltype(rebound_tag<bare<T>, To>())::type;

/// A class template over a scalar (or over tensors): Model<float> with To = half is Model<half>.
template <class T, class To>
struct template_over_scalar {
  static constexpr bool value = false;
};
template <class Argument, class To>
constexpr bool argument_changes = is_dtype_v<Argument> || has_tensor_traits<Argument>::value;
template <class Argument, class To>
constexpr auto rebound_argument() {
  if constexpr (argument_changes<Argument, To>) {
    return type_tag<rebound_t<Argument, To>>{};
  } else {
    return type_tag<Argument>{};
  }
}
template <template <class...> class Template, class... Arguments, class To>
struct template_over_scalar<Template<Arguments...>, To> {
  static constexpr bool value = (argument_changes<Arguments, To> || ...);
  using type = Template<typename decltype(rebound_argument<Arguments, To>())::type...>;
};
template <template <class, auto, auto...> class Template, class Argument, auto First, auto... Rest, class To>
struct template_over_scalar<Template<Argument, First, Rest...>, To> {
  static constexpr bool value = argument_changes<Argument, To>;
  using type = Template<typename decltype(rebound_argument<Argument, To>())::type, First, Rest...>;
};

template <class T, class To>
constexpr auto rebound_struct_tag() {
  if constexpr (std::is_same_v<To, same_dtype> || every_leaf_is_v<T, To>) {
    return type_tag<T>{};
  } else if constexpr (has_struct_rebind<T, To>::value) {
    return type_tag<typename tree_traits<T>::template rebind<To>>{};
  } else if constexpr (template_over_scalar<T, To>::value) {
    return type_tag<typename template_over_scalar<T, To>::type>{};
  } else {
    static_assert(
        never<T>,
        "headroom: this struct has no counterpart with elements of another dtype. Use the _into form of the verb with a "
        "destination of your own, make the struct a class template of its scalar, or specialise headroom::tree_traits<T> "
        "with: template <class To> using rebind = ...;");
  }
}

template <class To, class T>
constexpr auto rebound_parts_tag(type_tag<T>) {
  return rebound_struct_tag<T, To>();
}
template <class To, class... Ts>
constexpr auto rebound_parts_tag(type_tag<std::tuple<Ts...>>) {
  return type_tag<std::tuple<rebound_t<Ts, To>...>>{};
}
template <class To, class A, class B>
constexpr auto rebound_parts_tag(type_tag<std::pair<A, B>>) {
  return type_tag<std::pair<rebound_t<A, To>, rebound_t<B, To>>>{};
}
template <class To, class... Ts>
constexpr auto rebound_alternatives_tag(type_tag<std::variant<Ts...>>) {
  return type_tag<std::variant<rebound_t<Ts, To>...>>{};
}

template <class T, class To>
constexpr auto rebound_branch_tag() {
  if constexpr (kind_of_branch<T> == branch_kind::product) {
    return rebound_parts_tag<To>(type_tag<T>{});
  } else if constexpr (kind_of_branch<T> == branch_kind::sequence) {
    using Element = bare<decltype(*std::begin(std::declval<T&>()))>;
    return type_tag<typename tree_traits<T>::template rebuilt<rebound_t<Element, To>>>{};
  } else if constexpr (kind_of_branch<T> == branch_kind::map) {
    return type_tag<typename tree_traits<T>::template rebuilt<rebound_t<typename T::mapped_type, To>>>{};
  } else if constexpr (kind_of_branch<T> == branch_kind::pointer) {
    using Subtree = rebound_t<typename tree_traits<T>::element_type, To>;
    return type_tag<decltype(tree_traits<T>::make(std::declval<Subtree>()))>{};
  } else {
    return rebound_alternatives_tag<To>(type_tag<T>{});
  }
}

template <class T, class To>
constexpr auto rebound_tag() {
  if constexpr (node_kind_v<T> == node_kind::scalar) {
    return type_tag<dtype_or<T, To>>{};
  } else if constexpr (node_kind_v<T> == node_kind::tensor) {
    using Element = dtype_or<typename tensor_traits<T>::value_type, To>;
    if constexpr (has_tensor_rebind<T, Element>::value) {
      return type_tag<typename tensor_traits<T>::template rebind<Element>>{};
    } else {
      static_assert(std::is_same_v<Element, typename tensor_traits<T>::value_type> && !tensor_is_view<T>::value,
                    "headroom: no new tensor can be made for this verb's result: use its _into or _in_place form, or give "
                    "headroom::tensor_traits<T> `template <class To> using rebind = ...;` and `like`");
      return type_tag<T>{};
    }
  } else if constexpr (node_kind_v<T> == node_kind::branch) {
    return rebound_branch_tag<T, To>();
  } else {
    return type_tag<T>{};
  }
}

// ---- values ----

template <class To, class T>
[[nodiscard]] rebound_t<T, To> make_like(const T& tree);

template <class To, class Old, class New>
void shape_parts_like(const Old& old_node, New& new_node);

template <class T>
constexpr bool is_product_node() {
  if constexpr (node_kind_v<T> == node_kind::branch) {
    return kind_of_branch<bare<T>> == branch_kind::product;
  } else {
    return false;
  }
}

/// Gives a part of a new struct the shape of the old one's. A part may follow the struct's dtype or have one of its own: the
/// `double` of a Model<T> stays double.
template <class To, class Old, class New>
void shape_like(const Old& old_part, New& new_part) {
  if constexpr (std::is_array_v<New>) {
    if constexpr (node_kind_v<Old> == node_kind::branch) {
      auto element = std::begin(new_part);
      for (const auto& old_element : old_part) shape_like<To>(old_element, *element++);
    }
  } else if constexpr (std::is_same_v<New, rebound_t<Old, To>>) {
    new_part = make_like<To>(old_part);
  } else if constexpr (std::is_same_v<New, rebound_t<Old, same_dtype>>) {
    new_part = make_like<same_dtype>(old_part);
  } else {
    constexpr bool both_products = is_product_node<Old>() && is_product_node<New>();
    static_assert(both_products,
                  "headroom: a member of this struct is a view (a span, a map) or of a type that does not follow the struct's "
                  "dtype, so the verb cannot make a new one: use its _into or _in_place form");
    if constexpr (both_products) shape_parts_like<To>(old_part, new_part);
  }
}

template <class To, class OldParts, class NewParts, std::size_t... I>
void shape_each_like(OldParts old_parts, NewParts new_parts, std::index_sequence<I...>) {
  static_assert(sizeof...(I) == std::tuple_size_v<NewParts>, "headroom: the rebound struct has another number of children");
  (shape_like<To>(std::get<I>(old_parts), std::get<I>(new_parts)), ...);
}
template <class To, class Old, class New>
void shape_parts_like(const Old& old_node, New& new_node) {
  using Parts = std::make_index_sequence<std::tuple_size_v<children_t<const Old>>>;
  shape_each_like<To>(children_of(old_node), children_of(new_node), Parts{});
}

template <class To, class T>
rebound_t<T, To> make_struct_like(const T& tree) {
  using Result = rebound_t<T, To>;
  if constexpr (std::is_same_v<Result, T> && is_copyable_tree_v<T>) {
    Result result(tree);  // with the members that are no children
    if constexpr (!owns_elements_v<T>) shape_parts_like<To>(tree, result);
    return result;
  } else {
    static_assert(std::is_default_constructible_v<Result>,
                  "headroom: a new struct is made by its default constructor, which this one lacks: use the _into form");
    Result result{};
    shape_parts_like<To>(tree, result);
    return result;
  }
}

template <class To, class... Ts>
rebound_t<std::tuple<Ts...>, To> make_struct_like(const std::tuple<Ts...>& tree) {
  return std::apply([](const auto&... parts) { return rebound_t<std::tuple<Ts...>, To>(make_like<To>(parts)...); }, tree);
}
template <class To, class A, class B>
rebound_t<std::pair<A, B>, To> make_struct_like(const std::pair<A, B>& tree) {
  return {make_like<To>(tree.first), make_like<To>(tree.second)};
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
    for (const auto& element : tree) result.push_back(make_like<To>(element));
  } else {
    auto place = std::begin(result);
    for (const auto& element : tree) *place++ = make_like<To>(element);
  }
  return result;
}

template <class To, class T>
rebound_t<T, To> make_map_like(const T& tree) {
  rebound_t<T, To> result;
  for (const auto& [key, value] : tree) result.emplace(key, make_like<To>(value));
  return result;
}

template <class To, class T>
rebound_t<T, To> make_pointer_like(const T& tree) {
  if (const auto* subtree = tree_traits<T>::get(tree)) return tree_traits<T>::make(make_like<To>(*subtree));
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
  return rebound_t<T, To>(std::in_place_index<I>, make_like<To>(std::get<I>(tree)));
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

}  // namespace headroom
