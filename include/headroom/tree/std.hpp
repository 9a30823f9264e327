#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/fields.hpp>
#include <headroom/tree/tensor_traits.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <array>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#if defined(__cpp_lib_span)
#include <span>
#endif

// The standard containers: leaves if they are contiguous and their elements are scalars, branches otherwise. To add a
// container, add one specialisation. `rebuilt<To>` is its type with subtrees of type To. How each kind is walked and a new one
// is filled is in tree/branches.hpp.

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

template <class Allocator, class To>
using allocator_of = typename std::allocator_traits<Allocator>::template rebind_alloc<To>;

template <branch_kind Kind, class T>
struct branch_of {
  static constexpr branch_kind kind = Kind;
  static constexpr bool holds_only_integers = node_kind_v<T> == node_kind::integers;
};
template <class T>
using sequence_of = branch_of<branch_kind::sequence, T>;
template <class T>
using map_to = branch_of<branch_kind::map, T>;
/// `get` returns a pointer to the subtree, null if there is none. `is_shared`: a copy has the same subtree.
template <class T, bool Shared>
struct pointer_to : branch_of<branch_kind::pointer, T> {
  static constexpr bool is_shared = Shared;
  using element_type = T;
};

template <class T>
using own_allocator_t =
    std::enable_if_t<!std::is_same_v<typename T::allocator_type, std::allocator<typename T::allocator_type::value_type>>,
                     decltype(std::declval<const T&>().get_allocator())>;
/// A new container with the allocator that a copy of `old` would have.
template <class New, class Old, class... Arguments>
New container_like([[maybe_unused]] const Old& old, const Arguments&... arguments) {
  using Allocator = detected_or_t<void, own_allocator_t, New>;
  if constexpr (is_detected_v<own_allocator_t, Old> && std::is_constructible_v<New, const Arguments&..., Allocator>) {
    using Traits = std::allocator_traits<typename Old::allocator_type>;
    return New(arguments..., Allocator(Traits::select_on_container_copy_construction(old.get_allocator())));
  } else {
    return New(arguments...);
  }
}

}  // namespace detail

// ---- leaves ----

template <class T, class Allocator>
struct tensor_traits<std::vector<T, Allocator>, std::enable_if_t<is_dtype_v<T>>> : detail::contiguous_tensor<T> {
  template <class To>
  using rebind = std::vector<To, detail::allocator_of<Allocator, To>>;
  template <class To>
  static rebind<To> like(const std::vector<T, Allocator>& tensor) {
    return detail::container_like<rebind<To>>(tensor, tensor.size());
  }
};

template <class T, std::size_t N>
struct tensor_traits<std::array<T, N>, std::enable_if_t<is_dtype_v<T>>> : detail::array_tensor<T, N> {};

/// A span is a view; new tensors of its size are std::vectors. Spans of integers are left alone like all integers.
template <class T>
struct tensor_traits<span<T>, std::enable_if_t<detail::is_element_v<T>>> : detail::contiguous_tensor<T> {
  static constexpr bool is_view = true;
  template <class To>
  using rebind = std::vector<To>;
  template <class To>
  static rebind<To> like(const span<T>& tensor) {
    return rebind<To>(tensor.size());
  }
};

#if defined(__cpp_lib_span)
template <class T, std::size_t Extent>
struct tensor_traits<std::span<T, Extent>, std::enable_if_t<detail::is_element_v<T>>> : tensor_traits<span<T>> {};
#endif

// ---- branches ----

template <class T, class Allocator>
struct tree_traits<std::vector<T, Allocator>, std::enable_if_t<!is_dtype_v<T>>> : detail::sequence_of<T> {
  template <class To>
  using rebuilt = std::vector<To, detail::allocator_of<Allocator, To>>;
};
template <class T, class Allocator>
struct tree_traits<std::deque<T, Allocator>> : detail::sequence_of<T> {
  template <class To>
  using rebuilt = std::deque<To, detail::allocator_of<Allocator, To>>;
};
template <class T, class Allocator>
struct tree_traits<std::list<T, Allocator>> : detail::sequence_of<T> {
  template <class To>
  using rebuilt = std::list<To, detail::allocator_of<Allocator, To>>;
};
template <class T, std::size_t N>
struct tree_traits<std::array<T, N>, std::enable_if_t<!is_dtype_v<T>>> : detail::sequence_of<T> {
  template <class To>
  using rebuilt = std::array<To, N>;
};
/// An array of trees; new ones are std::arrays.
template <class T, std::size_t N>
struct tree_traits<T[N], std::enable_if_t<!is_dtype_v<T>>> : detail::sequence_of<T> {
  template <class To>
  using rebuilt = std::array<To, N>;
};

template <class Key, class T, class Compare, class Allocator>
struct tree_traits<std::map<Key, T, Compare, Allocator>> : detail::map_to<T> {
  template <class To>
  using rebuilt = std::map<Key, To, Compare, detail::allocator_of<Allocator, std::pair<const Key, To>>>;
};
template <class Key, class T, class Hash, class Equal, class Allocator>
struct tree_traits<std::unordered_map<Key, T, Hash, Equal, Allocator>> : detail::map_to<T> {
  template <class To>
  using rebuilt = std::unordered_map<Key, To, Hash, Equal, detail::allocator_of<Allocator, std::pair<const Key, To>>>;
};

template <class... Ts>
struct tree_traits<std::tuple<Ts...>> {
  using subtrees = detail::types<Ts...>;
  template <class... To>
  using rebuilt = std::tuple<To...>;
  template <class Self>
  static constexpr auto children(Self& self) {
    return std::apply([](auto&... parts) { return std::tie(parts...); }, self);
  }
};
template <class First, class Second>
struct tree_traits<std::pair<First, Second>> {
  using subtrees = detail::types<First, Second>;
  template <class A, class B>
  using rebuilt = std::pair<A, B>;
  template <class Self>
  static constexpr auto children(Self& self) {
    return std::tie(self.first, self.second);
  }
  static constexpr std::array<const char*, 2> names = {"first", "second"};
};

template <class T>
struct tree_traits<std::optional<T>> : detail::pointer_to<T, false> {
  template <class Self>
  static auto* get(Self& self) {
    return self.has_value() ? std::addressof(*self) : nullptr;
  }
  template <class To>
  using rebuilt = std::optional<To>;
};
/// Not for T[], whose size it does not know: put a span of it into the tree. Of an object that is derived from T, the T in
/// it is the tree, and a new one is a T; so it is with std::shared_ptr and std::reference_wrapper.
template <class T, class Deleter>
struct tree_traits<std::unique_ptr<T, Deleter>, std::enable_if_t<!std::is_array_v<T>>> : detail::pointer_to<T, false> {
  static T* get(const std::unique_ptr<T, Deleter>& self) { return self.get(); }
  template <class To>
  using rebuilt = std::unique_ptr<To>;
};
/// A tree that two pointers reach is visited twice, and scaled twice in place: put only one of them into the tree.
template <class T>
struct tree_traits<std::shared_ptr<T>, std::enable_if_t<!std::is_array_v<T>>> : detail::pointer_to<T, true> {
  static T* get(const std::shared_ptr<T>& self) { return self.get(); }
  template <class To>
  using rebuilt = std::shared_ptr<To>;
};
/// A reference; new trees hold the value itself.
template <class T>
struct tree_traits<std::reference_wrapper<T>> : detail::pointer_to<T, true> {
  static T* get(const std::reference_wrapper<T>& self) { return std::addressof(self.get()); }
  template <class To>
  using rebuilt = To;
};

template <class... Ts>
struct tree_traits<std::variant<Ts...>> {
  static constexpr branch_kind kind = branch_kind::variant;
  using subtrees = detail::types<Ts...>;
  template <class... To>
  using rebuilt = std::variant<To...>;
};

// ---- new ones ----

namespace detail {

template <class Map>
using ordered_t = decltype(std::declval<const Map&>().key_comp());
template <class Map>
using hashed_t = decltype(std::declval<const Map&>().hash_function());

/// A container to be filled. Keeps the functions that order or hash the keys, which may have state.
template <class Result, class T>
Result empty_like(const T& node) {
  if constexpr (is_detected_v<ordered_t, T>) {
    return detail::container_like<Result>(node, node.key_comp());
  } else if constexpr (is_detected_v<hashed_t, T>) {
    return detail::container_like<Result>(node, node.size(), node.hash_function(), node.key_eq());
  } else {
    return detail::container_like<Result>(node);
  }
}

/// For arrays of what cannot be made first and assigned later; others may be too large to list.
template <class>
inline constexpr bool is_made_at_once = false;
template <class T, std::size_t N>
inline constexpr bool is_made_at_once<std::array<T, N>> = !std::is_default_constructible_v<T> || !std::is_move_assignable_v<T>;

}  // namespace detail

// ---- neither ----

/// Text and the empty alternative hold no gradients.
template <class Char, class Traits, class Allocator>
struct tree_traits<std::basic_string<Char, Traits, Allocator>> {
  static constexpr bool holds_only_integers = true;
};
template <>
struct tree_traits<std::monostate> {
  static constexpr bool holds_only_integers = true;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
