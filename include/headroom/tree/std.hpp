#pragma once

#include <headroom/tree/tensor_traits.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <array>
#include <cstddef>
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

#if __has_include(<span>)
#include <span>  // empty before C++20
#endif

// The standard containers. They are leaves if they are contiguous and their elements are scalars, and branches otherwise. To
// add a container, add one specialisation. `rebuilt<To>` is its type with subtrees of type To. A new container is default
// constructed, so the state of an allocator or a comparator is lost. tree/visit.hpp walks each kind of branch.

HEADROOM_DETAIL_BEGIN_NAMESPACE

namespace detail {

template <class Allocator, class To>
using allocator_of = typename std::allocator_traits<Allocator>::template rebind_alloc<To>;

template <branch_kind Kind, class T>
struct branch_of {
  static constexpr branch_kind kind = Kind;
  static constexpr bool holds_only_integers = node_kind_v<T> == node_kind::integers;
};
template <template <class...> class Container, class T, class Allocator>
struct sequence_of : branch_of<branch_kind::sequence, T> {
  template <class To>
  using rebuilt = Container<To, allocator_of<Allocator, To>>;
};
/// `get` returns a pointer to the subtree, or null. `is_shared`: copies share the subtree, and const does not reach it.
template <template <class...> class Pointer, class T, bool Shared>
struct pointer_to : branch_of<branch_kind::pointer, T> {
  static constexpr bool is_shared = Shared;
  using element_type = T;
  template <class To>
  using rebuilt = Pointer<To>;
  template <class Self>
  static auto* get(Self& self) {
    using Subtree = std::conditional_t<std::is_const_v<Self> && !Shared, const T, T>;
    return self ? static_cast<Subtree*>(std::addressof(*self)) : nullptr;
  }
};
template <template <class...> class Tuple, class... Ts>
struct tuple_of {
  using subtrees = types<Ts...>;
  template <class... To>
  using rebuilt = Tuple<To...>;
  template <class Self>
  static constexpr auto children(Self& self) {
    return std::apply([](auto&... parts) { return std::tie(parts...); }, self);
  }
};

}  // namespace detail

// ---- leaves ----

template <class T, class Allocator>
struct tensor_traits<std::vector<T, Allocator>, std::enable_if_t<is_dtype_v<T>>>
    : detail::owning_tensor<detail::sequence_of<std::vector, T, Allocator>::template rebuilt, T> {};

template <class T, std::size_t N>
struct tensor_traits<std::array<T, N>, std::enable_if_t<is_dtype_v<T>>> : detail::contiguous_tensor<T> {
  template <class To>
  using rebind = std::array<To, N>;
  template <class To, class Array>
  static rebind<To> like(const Array&) {
    return {};
  }
};
/// A C array of scalars. In a new tree it becomes a std::array.
template <class T, std::size_t N>
struct tensor_traits<T[N], std::enable_if_t<is_dtype_v<T>>> : tensor_traits<std::array<T, N>> {};

/// A span is a view. In a new tree it becomes a std::vector.
template <class T>
struct tensor_traits<span<T>> : detail::owning_tensor<std::vector, std::remove_cv_t<T>> {
  static constexpr bool is_view = true;
};

#if defined(__cpp_lib_span)
template <class T, std::size_t Extent>
struct tensor_traits<std::span<T, Extent>> : tensor_traits<span<T>> {};
#endif

// ---- branches ----

template <class T, class Allocator>
struct tree_traits<std::vector<T, Allocator>, std::enable_if_t<!is_dtype_v<T>>>
    : detail::sequence_of<std::vector, T, Allocator> {};
template <class T, class Allocator>
struct tree_traits<std::deque<T, Allocator>> : detail::sequence_of<std::deque, T, Allocator> {};
template <class T, class Allocator>
struct tree_traits<std::list<T, Allocator>> : detail::sequence_of<std::list, T, Allocator> {};
template <class T, std::size_t N>
struct tree_traits<std::array<T, N>, std::enable_if_t<!is_dtype_v<T>>> : detail::branch_of<branch_kind::sequence, T> {
  template <class To>
  using rebuilt = std::array<To, N>;
};
/// An array of trees. In a new tree it becomes a std::array.
template <class T, std::size_t N>
struct tree_traits<T[N], std::enable_if_t<!is_dtype_v<T>>> : tree_traits<std::array<T, N>> {};

template <class Key, class T, class Compare, class Allocator>
struct tree_traits<std::map<Key, T, Compare, Allocator>> : detail::branch_of<branch_kind::map, T> {
  template <class To>
  using rebuilt = std::map<Key, To, Compare, detail::allocator_of<Allocator, std::pair<const Key, To>>>;
};
template <class Key, class T, class Hash, class Equal, class Allocator>
struct tree_traits<std::unordered_map<Key, T, Hash, Equal, Allocator>> : detail::branch_of<branch_kind::map, T> {
  template <class To>
  using rebuilt = std::unordered_map<Key, To, Hash, Equal, detail::allocator_of<Allocator, std::pair<const Key, To>>>;
};

template <class... Ts>
struct tree_traits<std::tuple<Ts...>> : detail::tuple_of<std::tuple, Ts...> {};
template <class First, class Second>
struct tree_traits<std::pair<First, Second>> : detail::tuple_of<std::pair, First, Second> {
  static constexpr std::array<const char*, 2> names = {"first", "second"};
};

template <class T>
struct tree_traits<std::optional<T>> : detail::pointer_to<std::optional, T, false> {};
/// Not for T[], whose size is not known: put a span of it into the tree. If it points to an object of a class derived from T,
/// only the T is walked, and a new tree has a T. The same holds for std::shared_ptr and std::reference_wrapper.
template <class T, class Deleter>
struct tree_traits<std::unique_ptr<T, Deleter>, std::enable_if_t<!std::is_array_v<T>>>
    : detail::pointer_to<std::unique_ptr, T, false> {};
/// A subtree behind two pointers is visited twice: put only one of them into the tree.
template <class T>
struct tree_traits<std::shared_ptr<T>, std::enable_if_t<!std::is_array_v<T>>> : detail::pointer_to<std::shared_ptr, T, true> {};
/// A reference. In a new tree it becomes the value itself.
template <class T>
struct tree_traits<std::reference_wrapper<T>> : detail::pointer_to<std::reference_wrapper, T, true> {
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

// ---- without gradients ----

/// Text and the empty alternative hold no gradients.
template <class T>
struct tree_traits<T, std::enable_if_t<std::is_same_v<T, std::string> || std::is_same_v<T, std::monostate>>> {
  static constexpr bool holds_only_integers = true;
};

HEADROOM_DETAIL_END_NAMESPACE
