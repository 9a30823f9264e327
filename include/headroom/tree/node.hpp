#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/std.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <type_traits>
#include <utility>

// The messages for types that are neither leaf nor branch.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class T>
using complex_t =
    std::void_t<typename T::value_type, decltype(std::declval<const T&>().real()), decltype(std::declval<const T&>().imag())>;

template <class T, class A>
void container_base(const std::vector<T, A>*);
template <class T, std::size_t N>
void container_base(const std::array<T, N>*);
template <class T>
void container_base(const span<T>*);
template <class T, class A>
void container_base(const std::deque<T, A>*);
template <class T, class A>
void container_base(const std::list<T, A>*);
template <class K, class T, class C, class A>
void container_base(const std::map<K, T, C, A>*);
template <class K, class T, class H, class E, class A>
void container_base(const std::unordered_map<K, T, H, E, A>*);
template <class T>
using container_base_t = decltype(detail::container_base(static_cast<const T*>(nullptr)));

template <class T>
inline constexpr bool is_span_v = false;
template <class T>
inline constexpr bool is_span_v<span<T>> = true;

template <class T>
constexpr bool may_be_16_bit_float() {
  if constexpr (std::is_object_v<T> && !std::is_array_v<T>) {
    return sizeof(T) == 2 && std::is_trivially_copyable_v<T> && !std::is_empty_v<T>;
  } else {
    return false;
  }
}

/// Names the most likely mistake for an unknown type.
template <class T>
constexpr void explain_stranger() {
  constexpr bool is_pointer = std::is_pointer_v<T>, is_complex = is_detected_v<complex_t, T>;
  constexpr bool is_long_double = std::is_same_v<T, long double>, is_derived = is_detected_v<container_base_t, T>;
  static_assert(!is_pointer,
                "headroom: a pointer does not say how many elements there are: write headroom::span<T>(pointer, size), or "
                "std::reference_wrapper for a single tree");
  static_assert(!is_long_double, "headroom: long double is not supported: use double");
  static_assert(!is_complex,
                "headroom: complex numbers are not supported: give the verb their real and imaginary parts, as "
                "headroom::span<float>(reinterpret_cast<float*>(pointer), 2 * size)");
  static_assert(!is_span_v<T>,
                "headroom: the elements of this span are of no floating-point type headroom knows: specialise "
                "headroom::dtype_traits for it (long double and complex numbers are not supported)");
  static_assert(!is_derived || is_span_v<T>,
                "headroom: this class is derived from a tensor or container, and is not taken for one, since it may have more "
                "than its base: write template <> struct headroom::tensor_traits<T> : headroom::tensor_traits<Base> {}; (of a "
                "branch tree_traits), or HEADROOM_TREE(T, member, ...)");
  if constexpr (!is_pointer && !is_long_double && !is_complex && !is_derived) {
    static_assert(!may_be_16_bit_float<T>(),
                  "headroom: this type has 16 bits, and is no floating-point type headroom knows. If it is one, write template "
                  "<> struct headroom::dtype_traits<T> { using format = headroom::binary16; }; (or brain16); or make it a "
                  "branch by HEADROOM_TREE");
    static_assert(may_be_16_bit_float<T>(),
                  "headroom: this type is neither a leaf nor a branch of a tree. Make it a leaf by specialising "
                  "headroom::tensor_traits<T> (for Eigen, xtensor and libtorch include the adapter: "
                  "<headroom/adapters/eigen.hpp>, <headroom/adapters/xtensor.hpp>, <headroom/adapters/torch.hpp>), or a "
                  "branch by one of three routes: specialise headroom::tree_traits<T>; give it a member or free function "
                  "children that returns std::tie(member, ...); or write HEADROOM_TREE(Type, member, ...) after it");
  }
}

template <class T>
constexpr bool check_is_tree() {
  constexpr bool known = node_kind_v<T> != node_kind::unknown;
  if constexpr (!known) explain_stranger<bare<T>>();
  return known;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
