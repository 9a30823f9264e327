#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/facts.hpp>

#include <cstddef>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

// Which type a tree has with elements of another dtype.

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Stands for "each leaf keeps its dtype" where a verb takes a dtype.
struct same_dtype {};

namespace detail {

/// What decltype can carry of a type that may not be default constructible.
template <class T>
struct type_tag {
  using type = T;
};

/// What a verb was asked for in angle brackets.
template <class To>
constexpr auto checked_dtype() {
  constexpr bool known = is_dtype_v<To> || std::is_same_v<To, same_dtype>;
  static_assert(
      known,
      "headroom: cast<To> and unscale<To> make floating-point numbers: To is float, double, headroom::half, "
      "headroom::bfloat16, or of headroom::dtype_traits; integers, long double and complex numbers are not supported");
  return std::conditional_t<known, type_tag<To>, type_tag<same_dtype>>{};
}
template <class To>
using checked_dtype_t = typename decltype(checked_dtype<To>())::type;

template <class Dtype, class To>
using dtype_or = std::conditional_t<std::is_same_v<To, same_dtype>, Dtype, To>;

template <class>
inline constexpr bool never = false;

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
  if constexpr (std::is_same_v<To, same_dtype> || every_leaf_can_be_v<T, To>) {
    return type_tag<T>{};
  } else if constexpr (has_struct_rebind<T, To>::value) {
    return type_tag<typename tree_traits<T>::template rebind<To>>{};
  } else if constexpr (template_over_scalar<T, To>::value) {
    return type_tag<typename template_over_scalar<T, To>::type>{};
  } else {
    static_assert(
        never<T>,
        "headroom: this struct has no counterpart with elements of another dtype. Use the _into form of the verb with a "
        "destination of your own, make the struct a class template whose first parameter is its scalar, or specialise "
        "headroom::tree_traits<T> "
        "with: template <class To> using rebind = ...;");
    return type_tag<T>{};
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
  if constexpr (kind_of_branch<T> == branch_kind::dynamic) {
    return type_tag<T>{};
  } else if constexpr (kind_of_branch<T> == branch_kind::product) {
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

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
