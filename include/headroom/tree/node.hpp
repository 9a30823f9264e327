#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/std.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <array>
#include <deque>
#include <list>
#include <map>
#include <type_traits>
#include <unordered_map>
#include <vector>

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

// ---- types that are neither leaf nor branch, by what to say of them ----

enum class stranger { none, pointer, long_double, complex, span, derived, small, other };

template <class T, class = void>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<T, std::void_t<typename T::value_type, decltype(std::declval<const T&>().real()),
                                 decltype(std::declval<const T&>().imag())>> : std::true_type {};

template <class T>
struct is_span : std::false_type {};
template <class T>
struct is_span<span<T>> : std::true_type {};

template <class T, class A>
void is_of_container(const std::vector<T, A>*);
template <class T, std::size_t N>
void is_of_container(const std::array<T, N>*);
template <class T>
void is_of_container(const span<T>*);
template <class T, class A>
void is_of_container(const std::deque<T, A>*);
template <class T, class A>
void is_of_container(const std::list<T, A>*);
template <class K, class T, class C, class A>
void is_of_container(const std::map<K, T, C, A>*);
template <class K, class T, class H, class E, class A>
void is_of_container(const std::unordered_map<K, T, H, E, A>*);
template <class T, class = void>
struct is_derived_from_container : std::false_type {};
template <class T>
struct is_derived_from_container<T, std::void_t<decltype(is_of_container(static_cast<const T*>(nullptr)))>> : std::true_type {};

template <class T>
constexpr stranger stranger_of() {
  if constexpr (node_kind_v<T> != node_kind::unknown) {
    return stranger::none;
  } else if constexpr (std::is_pointer_v<T>) {
    return stranger::pointer;
  } else if constexpr (std::is_same_v<T, long double>) {
    return stranger::long_double;
  } else if constexpr (is_complex<T>::value) {
    return stranger::complex;
  } else if constexpr (is_span<T>::value) {
    return stranger::span;
  } else if constexpr (is_derived_from_container<T>::value) {
    return stranger::derived;
  } else if constexpr (std::is_object_v<T> && !std::is_array_v<T>) {
    return sizeof(T) == 2 && std::is_trivially_copyable_v<T> && !std::is_empty_v<T> ? stranger::small : stranger::other;
  } else {
    return stranger::other;
  }
}

template <class T>
constexpr bool check_is_tree() {
  constexpr stranger found = stranger_of<bare<T>>();
  static_assert(found != stranger::pointer,
                "headroom: a pointer does not say how many elements there are: write headroom::span<T>(pointer, size), or "
                "std::reference_wrapper for a single tree");
  static_assert(found != stranger::long_double, "headroom: long double is not supported: use double");
  static_assert(found != stranger::complex,
                "headroom: complex numbers are not supported: give the verb their real and imaginary parts, as "
                "headroom::span<float>(reinterpret_cast<float*>(pointer), 2 * size)");
  static_assert(found != stranger::span,
                "headroom: the elements of this span are of no floating-point type headroom knows: specialise "
                "headroom::dtype_traits for it (long double and complex numbers are not supported)");
  static_assert(found != stranger::derived,
                "headroom: this class is derived from a tensor or container, and is not taken for one, since it may have more "
                "than its base: write template <> struct headroom::tensor_traits<T> : headroom::tensor_traits<Base> {}; (of a "
                "branch tree_traits), or HEADROOM_TREE(T, member, ...)");
  static_assert(
      found != stranger::small,
      "headroom: this type has 16 bits, and is no floating-point type headroom knows. If it is one, write template <> "
      "struct headroom::dtype_traits<T> { using format = headroom::binary16; }; (or brain16); or make it a branch by "
      "HEADROOM_TREE");
  static_assert(
      found != stranger::other,
      "headroom: this type is neither a leaf nor a branch of a tree. Make it a leaf by specialising "
      "headroom::tensor_traits<T> (for Eigen, xtensor and libtorch include the adapter: <headroom/adapters/eigen.hpp>, "
      "<headroom/adapters/xtensor.hpp>, <headroom/adapters/torch.hpp>), or a "
      "branch by one of three routes: specialise headroom::tree_traits<T>; give it a member or free function children "
      "that returns std::tie(member, ...); or write HEADROOM_TREE(Type, member, ...) after it");
  return found == stranger::none;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
