#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/tree/tensor_traits.hpp>

#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What a branch is made of.
enum class branch_kind {
  product,   ///< a fixed number of parts of different types: a struct, a tuple
  sequence,  ///< begin(), end(), size(): elements of one type
  map,       ///< begin(), end(), size(), find(): keys are left alone, values are trees
  pointer,   ///< one tree or none
  variant,   ///< one of several
  dynamic    ///< one tensor whose dtype is known at run time only
};

/// How to reach the subtrees of a type; a specialisation makes the type a branch. For a struct it is
///
///     template <> struct headroom::tree_traits<Model> {
///       template <class Self> static auto children(Self& self) { return std::tie(self.weight, self.bias); }
///       static constexpr std::array<const char*, 2> names = {"weight", "bias"};         // optional: for paths
///       template <class To> using rebind = ...;                                         // optional: for verbs that return
///     };                                                                                // another dtype
///
/// The children must be parts that a copy of the struct does not share: list a std::shared_ptr itself, not what it points to.
/// headroom cannot see whether they are, so a verb that returns a tree copies even a temporary of such a struct, and throws if
/// the copy has the same elements. With HEADROOM_TREE the members are known, and a temporary that owns them is reused.
///
/// A new struct of the same type is a copy, with the members that are not children. One of another dtype, or of a type that
/// cannot be copied, as with a std::unique_ptr in it, is default constructed and its children are filled; members that are not
/// children keep their defaults. The _in_place and _into forms leave them alone.
///
/// A walk calls itself for each level of the tree. A list of tens of thousands of nodes that own each other by std::unique_ptr
/// overflows the stack, as its destructor does: keep them in a std::vector.
///
/// A member or free function `children`, or the macro HEADROOM_TREE, is shorter. A derived struct needs its own: it inherits
/// children() of its base like any function, without the members it adds. A container of your own is
///
///     template <class T> struct headroom::tree_traits<Ring<T>> {
///       static constexpr branch_kind kind = branch_kind::sequence;
///       template <class To> using rebuilt = Ring<To>;        // the container with subtrees of type To; it has push_back
///     };
///
/// The other kinds are those of the standard containers: see tree/std.hpp. A tensor whose dtype is known only at run time has
/// the kind branch_kind::dynamic and
///
///       template <class F> static void with_view(const T&, F&& f);      // f(view): a leaf of static dtype; f(nullptr): none
///       template <class To> static T like(const T&);                    // a new one with elements of To (or same_dtype)
///       static T scaled(const T&, float factor);                        // a new one, as its library records it
template <class T, class Enable = void>
struct tree_traits {
  using not_specialized = void;
};

namespace detail {

// ---- what there is ----

template <class T>
using not_tree_t = typename tree_traits<T>::not_specialized;
template <class T>
using kind_t = std::enable_if_t<std::is_same_v<decltype(tree_traits<T>::kind), const branch_kind>>;
template <class T>
using only_integers_t = std::enable_if_t<tree_traits<T>::holds_only_integers>;

// The routes to the parts of a struct.
template <class T>
using traits_children_t = decltype(tree_traits<std::remove_const_t<T>>::children(std::declval<T&>()));
template <class T>
using member_children_t = decltype(std::declval<T&>().children());
template <class T>
using free_children_t = decltype(children(std::declval<T&>()));
template <class T>
using member_fields_t = decltype(std::declval<T&>().headroom_tree(std::declval<T&>()));
template <class T>
using free_fields_t = decltype(headroom_tree(std::declval<T&>()));

template <class T>
inline constexpr bool has_parts_v =
    is_detected_v<traits_children_t, T> || is_detected_v<member_children_t, T> || is_detected_v<free_children_t, T> ||
    is_detected_v<member_fields_t, T> || is_detected_v<free_fields_t, T>;

/// What a type is to a walk. `integers` is everything without floating-point elements, which is left alone.
enum class node_kind { scalar, tensor, branch, integers, unknown };

template <class T>
constexpr node_kind kind_of_node() {
  if constexpr (is_dtype_v<T>) {
    return node_kind::scalar;
  } else if constexpr (has_tensor_traits_v<T>) {
    check_tensor_traits<T>();
    return is_dtype_v<typename tensor_traits<T>::value_type> ? node_kind::tensor : node_kind::integers;
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T> || std::is_null_pointer_v<T>) {
    return node_kind::integers;
  } else if constexpr (!is_detected_v<not_tree_t, T>) {
    return is_detected_v<only_integers_t, T> ? node_kind::integers : node_kind::branch;
  } else {
    return has_parts_v<T> ? node_kind::branch : node_kind::unknown;
  }
}
template <class T>
inline constexpr node_kind node_kind_v = kind_of_node<bare<T>>();

template <class T>
constexpr branch_kind kind_of_branch() {
  if constexpr (is_detected_v<kind_t, T>) {
    return tree_traits<T>::kind;
  } else {
    return branch_kind::product;
  }
}
template <class T, branch_kind Kind>
constexpr bool is_branch() {
  if constexpr (node_kind_v<T> == node_kind::branch) {
    return kind_of_branch<bare<T>>() == Kind;
  } else {
    return false;
  }
}
/// A node of dynamic dtype has no elements of its own: tree_traits<T>::with_view(node, f) calls f with a view that is a tensor
/// of a static dtype, or with a nullptr_t if there are no floating-point elements.
template <class T>
constexpr bool is_dynamic_node() {
  return is_branch<T, branch_kind::dynamic>();
}

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
