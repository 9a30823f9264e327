#pragma once

#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/tree/facts.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

// New trees with the structure and sizes of another tree, and elements of another dtype. The caller fills the floating-point
// elements. Everything else is copied.

HEADROOM_DETAIL_BEGIN_NAMESPACE

namespace detail {

template <class Dtype, class To>
using dtype_or = std::conditional_t<std::is_same_v<To, same_dtype>, Dtype, To>;

template <class T, class To>
using tensor_rebind_t = typename tensor_traits<T>::template rebind<To>;
template <class T, class To>
using struct_rebind_t = typename tree_traits<T>::template rebind<To>;

// ---- the type ----

template <class T, class To>
struct rebound {
  using type = rebound_t<T, To>;
};
template <class T>
inline constexpr bool changes_dtype_v = is_dtype_v<T> || has_tensor_traits_v<T>;
template <class Argument, class To>
using rebound_argument_t =
    typename std::conditional_t<changes_dtype_v<Argument>, rebound<Argument, To>, type_tag<Argument>>::type;

/// A class template over a scalar (or over tensors): Model<float> with To = half is Model<half>.
template <class T, class To>
struct template_over_scalar : std::false_type {};
template <template <class...> class Template, class... Arguments, class To>
struct template_over_scalar<Template<Arguments...>, To> {
  static constexpr bool value = (changes_dtype_v<Arguments> || ...);
  using type = Template<rebound_argument_t<Arguments, To>...>;
};
template <template <class, auto, auto...> class Template, class Argument, auto First, auto... Rest, class To>
struct template_over_scalar<Template<Argument, First, Rest...>, To> {
  static constexpr bool value = changes_dtype_v<Argument>;
  using type = Template<rebound_argument_t<Argument, To>, First, Rest...>;
};

template <class T, class To>
constexpr auto rebound_struct() {
  if constexpr (std::is_same_v<To, same_dtype> || every_leaf_can_be_v<T, To>) {
    return type_tag<T>{};
  } else if constexpr (is_detected_v<struct_rebind_t, T, To>) {
    return type_tag<struct_rebind_t<T, To>>{};
  } else {
    static_assert(template_over_scalar<T, To>::value,
                  "headroom: this struct has no counterpart with elements of another dtype. Use the _into form of the verb "
                  "with a destination of your own, make the struct a class template whose first parameter is its scalar, or "
                  "specialise headroom::tree_traits<T> with: template <class To> using rebind = ...;");
    return template_over_scalar<T, To>{};
  }
}

// ---- the tree ----

/// Gives a part of a new struct the shape of the old one. It may have its own dtype: a `double` in a Model<T> stays double.
template <class To, class Old, class New>
void assign_part(const Old& old_part, New& new_part) {
  // A copied struct may reach its parts through a pointer. Then it shares them with the old struct: leave them alone.
  if (static_cast<const void*>(std::addressof(old_part)) == static_cast<const void*>(std::addressof(new_part))) return;
  if constexpr (std::is_array_v<New>) {
    for (std::size_t i = 0; i < std::extent_v<New>; ++i) detail::assign_part<To>(old_part[i], new_part[i]);
  } else if constexpr (std::is_same_v<New, rebound_t<Old, To>>) {
    new_part = detail::make_like<To>(old_part);
  } else {
    static_assert(
        std::is_same_v<New, rebound_t<Old, same_dtype>>,
        "headroom: a member of this struct is a view or does not follow its dtype: use the verb's _into or _in_place");
    new_part = detail::make_like<same_dtype>(old_part);
  }
}
template <class To, class Old, class New, std::size_t... I>
void assign_parts(const Old& old_struct, New& new_struct, std::index_sequence<I...>) {
  Product<const Old> old_parts(old_struct);
  Product<New> new_parts(new_struct);
  (detail::assign_part<To>(old_parts.template part<I>(), new_parts.template part<I>()), ...);
}

/// See tree_traits for what is copied.
template <class Result, class To, class T>
Result make_struct(const T& tree) {
  using Parts = std::make_index_sequence<fields_t<T>::size>;
  constexpr bool can_be_copied = std::is_copy_constructible_v<T> && (holds_v<T> & Holds::unique_owners) == 0;
  if constexpr (std::is_same_v<Result, T> && can_be_copied) {
    Result result(tree);
    if constexpr (shares_elements_v<T>) detail::assign_parts<To, T, Result>(tree, result, Parts{});
    return result;
  } else {
    Result result{};  // if this does not compile, the struct has no default constructor: use the verb's _into form
    detail::assign_parts<To, T, Result>(tree, result, Parts{});
    return result;
  }
}
template <class To, class T>
auto make_struct_like(const T& tree) {
  using Result = typename decltype(detail::rebound_struct<T, To>())::type;
  return detail::make_struct<Result, To>(tree);  // states its return type, because a struct may hold others of its type
}

/// A tree with the structure and sizes of `tree` and elements of To.
template <class To, class T>
auto make_like(const T& tree) {
  static_assert(is_dtype_v<To> || std::is_same_v<To, same_dtype>,
                "headroom: cast<To> and unscale<To> make floating-point numbers: To is float, double, headroom::half, "
                "headroom::bfloat16, or of headroom::dtype_traits; integers, long double and complex numbers are not "
                "supported");
  if constexpr (node_kind_v<T> == node_kind::scalar) {
    return dtype_or<T, To>{};
  } else if constexpr (node_kind_v<T> == node_kind::tensor) {
    using Old = typename tensor_traits<T>::value_type;
    using New = dtype_or<Old, To>;
    constexpr bool has_rebind = is_detected_v<tensor_rebind_t, T, New>;
    static_assert(has_rebind || (std::is_same_v<Old, New> && !is_view_v<T>),
                  "headroom: no new tensor can be made for this verb's result: use its _into or _in_place form, or give "
                  "headroom::tensor_traits<T> `template <class To> using rebind = ...;` and `like`");
    if constexpr (has_rebind) {
      return tensor_rebind_t<T, New>(tensor_traits<T>::template like<New>(tree));
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
HEADROOM_DETAIL_END_NAMESPACE
