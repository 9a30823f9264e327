#pragma once

#include <headroom/config.hpp>
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

// The standard containers: leaves where they are contiguous and their elements scalars, branches otherwise. To add a container,
// add one specialisation. `rebuilt<To>` is its type with other subtrees; how one is filled is in tree/make_like.hpp.

namespace headroom {
inline namespace HEADROOM_BUILD {

// ---- leaves ----

template <class T, class Allocator>
struct tensor_traits<std::vector<T, Allocator>, std::enable_if_t<is_dtype_v<T>>> : detail::contiguous_tensor<T> {
  template <class To>
  using rebind = std::vector<To, typename std::allocator_traits<Allocator>::template rebind_alloc<To>>;
  template <class To>
  static rebind<To> like(const std::vector<T, Allocator>& tensor) {
    return rebind<To>(tensor.size());
  }
};

template <class T, std::size_t N>
struct tensor_traits<std::array<T, N>, std::enable_if_t<is_dtype_v<T>>> : detail::contiguous_tensor<T> {
  template <class To>
  using rebind = std::array<To, N>;
  template <class To>
  static rebind<To> like(const std::array<T, N>&) {
    return {};
  }
};

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

namespace detail {

template <class T>
struct sequence_of {
  static constexpr branch_kind kind = branch_kind::sequence;
  static constexpr bool holds_only_integers = kind_of_node<T>() == node_kind::integers;
};
template <class T>
struct map_to {
  static constexpr branch_kind kind = branch_kind::map;
  static constexpr bool holds_only_integers = kind_of_node<T>() == node_kind::integers;
};
/// `get` is a pointer to the subtree, null where there is none. `is_shared`: a copy has the same subtree.
template <class T, bool Shared>
struct pointer_to {
  static constexpr branch_kind kind = branch_kind::pointer;
  static constexpr bool holds_only_integers = kind_of_node<std::remove_const_t<T>>() == node_kind::integers;
  static constexpr bool is_shared = Shared;
  using element_type = T;
};

}  // namespace detail

template <class T, class Allocator>
struct tree_traits<std::vector<T, Allocator>, std::enable_if_t<!is_dtype_v<T>>> : detail::sequence_of<T> {
  template <class To>
  using rebuilt = std::vector<To, typename std::allocator_traits<Allocator>::template rebind_alloc<To>>;
};
template <class T, class Allocator>
struct tree_traits<std::deque<T, Allocator>> : detail::sequence_of<T> {
  template <class To>
  using rebuilt = std::deque<To, typename std::allocator_traits<Allocator>::template rebind_alloc<To>>;
};
template <class T, class Allocator>
struct tree_traits<std::list<T, Allocator>> : detail::sequence_of<T> {
  template <class To>
  using rebuilt = std::list<To, typename std::allocator_traits<Allocator>::template rebind_alloc<To>>;
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
  using rebuilt =
      std::map<Key, To, Compare, typename std::allocator_traits<Allocator>::template rebind_alloc<std::pair<const Key, To>>>;
};
template <class Key, class T, class Hash, class Equal, class Allocator>
struct tree_traits<std::unordered_map<Key, T, Hash, Equal, Allocator>> : detail::map_to<T> {
  template <class To>
  using rebuilt =
      std::unordered_map<Key, To, Hash, Equal,
                         typename std::allocator_traits<Allocator>::template rebind_alloc<std::pair<const Key, To>>>;
};

template <class... Ts>
struct tree_traits<std::tuple<Ts...>> {
  template <class Self>
  static constexpr auto children(Self& self) {
    return std::apply([](auto&... parts) { return std::tie(parts...); }, self);
  }
};
template <class First, class Second>
struct tree_traits<std::pair<First, Second>> {
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
    return self.has_value() ? &*self : nullptr;
  }
  template <class To>
  static std::optional<To> make(To&& tree) {
    return std::optional<To>(std::move(tree));
  }
};
/// Not of T[], whose size it does not know: give the tree a span of it.
template <class T, class Deleter>
struct tree_traits<std::unique_ptr<T, Deleter>, std::enable_if_t<!std::is_array_v<T>>> : detail::pointer_to<T, false> {
  static T* get(const std::unique_ptr<T, Deleter>& self) { return self.get(); }
  template <class To>
  static std::unique_ptr<To> make(To&& tree) {
    return std::make_unique<To>(std::move(tree));
  }
};
/// A tree reached by two pointers is visited twice, and scaled twice in place: put one of them into the tree.
template <class T>
struct tree_traits<std::shared_ptr<T>, std::enable_if_t<!std::is_array_v<T>>> : detail::pointer_to<T, true> {
  static T* get(const std::shared_ptr<T>& self) { return self.get(); }
  template <class To>
  static std::shared_ptr<To> make(To&& tree) {
    return std::make_shared<To>(std::move(tree));
  }
};
/// A reference; new trees hold the value itself.
template <class T>
struct tree_traits<std::reference_wrapper<T>> : detail::pointer_to<T, true> {
  static T* get(const std::reference_wrapper<T>& self) { return &self.get(); }
  template <class To>
  static To make(To&& tree) {
    return std::move(tree);
  }
};

template <class... Ts>
struct tree_traits<std::variant<Ts...>> {
  static constexpr branch_kind kind = branch_kind::variant;
};

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
