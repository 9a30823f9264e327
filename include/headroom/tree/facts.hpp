#pragma once

#include <headroom/tree/visit.hpp>

#include <type_traits>

// Properties of a tree's type.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

template <class Fact, class... Ancestors, class... Ts>
constexpr unsigned facts_below(types<Ts...>);

/// The bits of Fact::of<T>() for T and, if T is a branch, for all types below it, combined by OR. `Ancestors` are the types
/// above T. They end the recursion if a struct holds a vector of itself.
template <class Fact, class T, class... Ancestors>
constexpr unsigned facts_of() {
  if constexpr ((std::is_same_v<T, Ancestors> || ...)) {
    return 0;
  } else if constexpr (node_kind_v<T> == node_kind::branch) {
    return Fact::template of<T>() | detail::facts_below<Fact, T, Ancestors...>(subtrees_t<T>{});
  } else {
    return Fact::template of<T>();
  }
}
template <class Fact, class... Ancestors, class... Ts>
constexpr unsigned facts_below(types<Ts...>) {
  return (0U | ... | facts_of<Fact, bare<Ts>, Ancestors...>());
}

struct Holds {
  static constexpr unsigned floats = 1, integers = 2, unknown_types = 4, dynamic_nodes = 8;
  static constexpr unsigned narrow_floats = 16;    // exponents smaller than float's: fp16, 8-bit formats
  static constexpr unsigned shared_elements = 32;  // a copy has the same elements: views, references, shared pointers
  static constexpr unsigned unknown_owners = 64;   // a copy may have the same elements
  static constexpr unsigned unique_owners = 128;   // a std::unique_ptr, which has no copy

  template <class T>
  static constexpr unsigned of() {
    if constexpr (node_kind_v<T> == node_kind::scalar) {
      return of_dtype<T>();
    } else if constexpr (node_kind_v<T> == node_kind::tensor) {
      constexpr unsigned dtype = of_dtype<typename tensor_traits<T>::value_type>();
      return dtype | (is_view_v<T> ? shared_elements : is_detected_v<says_is_view_t, T> ? 0U : unknown_owners);
    } else if constexpr (node_kind_v<T> == node_kind::integers) {
      return integers;
    } else if constexpr (node_kind_v<T> == node_kind::unknown) {
      return unknown_types;
    } else if constexpr (is_dynamic_node<T>()) {
      return dynamic_nodes;
    } else if constexpr (is_branch<T, branch_kind::pointer>()) {
      // std::vector<std::unique_ptr<T>> claims to be copyable, and so does every struct that has one.
      return (tree_traits<T>::is_shared ? shared_elements : 0U) | (std::is_copy_constructible_v<T> ? 0U : unique_owners);
    } else if constexpr (is_detected_v<traits_subtrees_t, T>) {  // a tuple
      return has_reference(traits_subtrees_t<T>{}) ? shared_elements : 0U;
    } else if constexpr (is_branch<T, branch_kind::product>()) {
      return fields_t<T>::owns ? 0U : unknown_owners;
    } else {
      return 0;
    }
  }

 private:
  template <class Dtype>
  static constexpr unsigned of_dtype() {
    return format_of<Dtype>::exponent_bits < binary32::exponent_bits ? floats | narrow_floats : floats;
  }
  template <class... Ts>
  static constexpr bool has_reference(types<Ts...>) {
    return (std::is_reference_v<Ts> || ...);
  }
};
template <class T>
inline constexpr unsigned holds_v = facts_of<Holds, bare<T>>();

/// Whether a copy of the tree is known to have elements of its own.
template <class T>
inline constexpr bool owns_elements_v = (holds_v<T> &
                                         (Holds::shared_elements | Holds::unknown_owners | Holds::dynamic_nodes)) == 0;
/// Whether a copy of the tree is known to share its elements.
template <class T>
inline constexpr bool shares_elements_v = (holds_v<T> & (Holds::shared_elements | Holds::dynamic_nodes)) != 0;
template <class T>
inline constexpr bool has_dynamic_node_v = (holds_v<T> & Holds::dynamic_nodes) != 0;
template <class T>
inline constexpr bool has_narrow_leaf_v = (holds_v<T> & Holds::narrow_floats) != 0;
/// Whether a tree of this type has leaves but can have no floating-point one. (std::tuple<> has no leaves at all.)
template <class T>
inline constexpr bool has_only_integers_v = (holds_v<T> & (Holds::floats | Holds::integers | Holds::unknown_types |
                                                           Holds::dynamic_nodes)) == Holds::integers;

template <class... Dtypes>
struct HasOther {
  template <class T>
  static constexpr unsigned of() {
    if constexpr (node_kind_v<T> == node_kind::scalar) {
      return (std::is_same_v<T, Dtypes> || ...) ? 0U : 1U;
    } else if constexpr (node_kind_v<T> == node_kind::tensor) {
      return of<typename tensor_traits<T>::value_type>();
    } else {
      return 0;
    }
  }
};
/// Whether every leaf has one of the dtypes, or may have it at run time.
template <class T, class... Dtypes>
inline constexpr bool every_leaf_can_be_v = facts_of<HasOther<Dtypes...>, bare<T>>() == 0;
template <class T, class... Dtypes>
inline constexpr bool every_leaf_is_v = every_leaf_can_be_v<T, Dtypes...> && !has_dynamic_node_v<T>;

template <class T>
constexpr bool check_has_floats() {
  static_assert(
      !has_only_integers_v<T>,
      "headroom: there is no floating-point number in this type, so nothing in it would be scaled, unscaled or checked. "
      "For a 1 write 1.0f; for fp16 bits that are kept as std::uint16_t (ggml_fp16_t, DLPack, C code) write "
      "headroom::as_half(pointer, size), for bfloat16 headroom::as_bfloat16(pointer, size)");
  return !has_only_integers_v<T>;
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
