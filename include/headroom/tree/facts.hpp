#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/walk.hpp>

#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

// What can be known of a tree from its type.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class Predicate, class T, class... Ancestors>
constexpr bool every_node();

template <class Predicate, class Tuple, class... Ancestors>
struct every_part;
template <class Predicate, class... Ts, class... Ancestors>
struct every_part<Predicate, std::tuple<Ts...>, Ancestors...> {
  static constexpr bool value = (every_node<Predicate, bare<Ts>, Ancestors...>() && ...);
};
template <class Predicate, class Variant, class... Ancestors>
struct every_alternative;
template <class Predicate, class... Ts, class... Ancestors>
struct every_alternative<Predicate, std::variant<Ts...>, Ancestors...> {
  static constexpr bool value = (every_node<Predicate, bare<Ts>, Ancestors...>() && ...);
};

/// Whether Predicate::test<T>() holds for T and, where T is a branch, all types below it. `Ancestors` are the types on the way
/// down: a struct that holds a vector of itself is not looked at twice.
template <class Predicate, class T, class... Ancestors>
constexpr bool every_node() {
  if constexpr ((std::is_same_v<T, Ancestors> || ...)) {
    return true;
  } else if constexpr (!Predicate::template test<T>()) {
    return false;
  } else if constexpr (node_kind_v<T> != node_kind::branch) {
    return true;
  } else if constexpr (kind_of_branch<T> == branch_kind::dynamic) {
    return true;
  } else if constexpr (kind_of_branch<T> == branch_kind::product) {
    return every_part<Predicate, children_t<T>, T, Ancestors...>::value;
  } else if constexpr (kind_of_branch<T> == branch_kind::sequence) {
    return every_node<Predicate, bare<decltype(*std::begin(std::declval<T&>()))>, T, Ancestors...>();
  } else if constexpr (kind_of_branch<T> == branch_kind::map) {
    return every_node<Predicate, typename T::mapped_type, T, Ancestors...>();
  } else if constexpr (kind_of_branch<T> == branch_kind::pointer) {
    return every_node<Predicate, bare<typename tree_traits<T>::element_type>, T, Ancestors...>();
  } else {
    return every_alternative<Predicate, T, T, Ancestors...>::value;
  }
}

/// Who owns the parts of a product.
enum class parts { own, referenced, unknown };

template <class Types>
struct parts_of_types {
  static constexpr parts value = parts::unknown;
};
template <template <class...> class List, class... Ts>
struct parts_of_types<List<Ts...>> {
  static constexpr parts value = (std::is_reference_v<Ts> || ...) ? parts::referenced : parts::own;
};
/// Of HEADROOM_TREE they are known. Functions that return children may get them from anywhere.
template <class T>
struct parts_of : parts_of_types<typename decltype(fields_of(std::declval<T&>()))::declared> {};
template <class... Ts>
struct parts_of<std::tuple<Ts...>> : parts_of_types<types<Ts...>> {};
template <class A, class B>
struct parts_of<std::pair<A, B>> : parts_of_types<types<A, B>> {};

template <bool IfUnknown, bool IfDynamic>
struct OwnsItsElements {
  template <class T>
  static constexpr bool test() {
    if constexpr (node_kind_v<T> == node_kind::tensor) {
      return !tensor_is_view<T>::value;
    } else if constexpr (is_pointer_node<T>()) {
      return !tree_traits<T>::is_shared;
    } else if constexpr (is_dynamic_node<T>()) {
      return IfDynamic;
    } else if constexpr (is_product_node<T>()) {
      return parts_of<T>::value == parts::own || (IfUnknown && parts_of<T>::value == parts::unknown);
    } else {
      return true;
    }
  }
};
/// It is known that a copy of the tree has elements of its own, and that nobody else has those of this one: not so of a struct
/// whose children come from a function. `IfDynamic`: nodes of dynamic dtype, whose copies can be replaced, count as such.
template <class T, bool IfDynamic = false>
inline constexpr bool owns_elements_v = every_node<OwnsItsElements<false, IfDynamic>, bare<T>>();
/// Not known to share its elements with anybody.
template <class T, bool IfDynamic = false>
inline constexpr bool may_own_elements_v = every_node<OwnsItsElements<true, IfDynamic>, bare<T>>();

// std::vector<std::unique_ptr<T>> claims to be copyable, and so does every struct that has one; what counts is the pointer.
struct IsCopyable {
  template <class T>
  static constexpr bool test() {
    return !is_pointer_node<T>() || std::is_copy_constructible_v<T>;
  }
};
template <class T>
inline constexpr bool is_copyable_tree_v = std::is_copy_constructible_v<bare<T>>&& every_node<IsCopyable, bare<T>>();

template <class To>
struct HasDtype {
  template <class T>
  static constexpr bool test() {
    if constexpr (node_kind_v<T> == node_kind::scalar) {
      return std::is_same_v<T, To>;
    } else if constexpr (node_kind_v<T> == node_kind::tensor) {
      return std::is_same_v<typename tensor_traits<T>::value_type, To>;
    } else {
      return !is_dynamic_node<T>();
    }
  }
};
template <class T, class To>
inline constexpr bool every_leaf_is_v = every_node<HasDtype<To>, bare<T>>();
template <class To>
struct CanHaveDtype {
  template <class T>
  static constexpr bool test() {
    return is_dynamic_node<T>() || HasDtype<To>::template test<T>();
  }
};
/// Or could be, without a change of type.
template <class T, class To>
inline constexpr bool every_leaf_can_be_v = every_node<CanHaveDtype<To>, bare<T>>();

struct HasStaticDtype {
  template <class T>
  static constexpr bool test() {
    return !is_dynamic_node<T>();
  }
};
template <class T>
inline constexpr bool has_dynamic_node_v = !every_node<HasStaticDtype, bare<T>>();

template <node_kind... Kinds>
struct IsNone {
  template <class T>
  static constexpr bool test() {
    return ((node_kind_v<T> != Kinds) && ...) && !is_dynamic_node<T>();
  }
};
/// Whether a tree of this type has leaves, of which none can be a floating-point one. (std::tuple<> has none at all.)
template <class T>
inline constexpr bool has_only_integers_v =
    every_node<IsNone<node_kind::scalar, node_kind::tensor, node_kind::unknown>, bare<T>>() &&
    !every_node<IsNone<node_kind::integers>, bare<T>>();

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
}  // namespace HEADROOM_BUILD
}  // namespace headroom
