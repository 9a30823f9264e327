#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/fields.hpp>
#include <headroom/tree/tensor_traits.hpp>

#include <cstddef>
#include <iterator>
#include <tuple>
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
/// The children must be parts that a copy of the struct does not share; put a std::shared_ptr itself among them, not what it
/// points to. Nobody can see that they are: a verb that returns a tree copies even a temporary of such a struct, and throws
/// where the copy has the same elements. With HEADROOM_TREE the members are known, and a temporary that owns them is used
/// itself. A struct of another dtype is default constructed and has its children filled: members that are no children keep
/// their defaults.
///
/// A walk calls itself for each level of the tree: a list of nodes that own each other by std::unique_ptr, tens of thousands of
/// them, overflows the stack, as their destructors do. Keep them in a std::vector.
///
/// Shorter: a member or free function `children`, or the macro HEADROOM_TREE. A derived struct needs its own of either: it
/// inherits children() of its base as it inherits any function, without the members it adds. The other kinds of branch, with
/// `kind`, are those of the standard containers: see tree/std.hpp. A tensor whose dtype is known at run time only is of kind
/// branch_kind::dynamic and has
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

template <class T, class = void>
struct has_tree_traits : std::true_type {};
template <class T>
struct has_tree_traits<T, std::void_t<typename tree_traits<T>::not_specialized>> : std::false_type {};

template <class T, class = void>
struct has_traits_children : std::false_type {};
template <class T>
struct has_traits_children<T, std::void_t<decltype(tree_traits<std::remove_const_t<T>>::children(std::declval<T&>()))>>
    : std::true_type {};

template <class T, class = void>
struct has_member_children : std::false_type {};
template <class T>
struct has_member_children<T, std::void_t<decltype(std::declval<T&>().children())>> : std::true_type {};

template <class T, class = void>
struct has_free_children : std::false_type {};
template <class T>
struct has_free_children<T, std::void_t<decltype(children(std::declval<T&>()))>> : std::true_type {};

template <class T, class = void>
struct has_member_fields : std::false_type {};
template <class T>
struct has_member_fields<T, std::void_t<decltype(std::declval<T&>().headroom_tree(std::declval<T&>()))>> : std::true_type {};

template <class T, class = void>
struct has_free_fields : std::false_type {};
template <class T>
struct has_free_fields<T, std::void_t<decltype(headroom_tree(std::declval<T&>()))>> : std::true_type {};

template <class T, class = void>
struct holds_only_integers : std::false_type {};
template <class T>
struct holds_only_integers<T, std::enable_if_t<tree_traits<T>::holds_only_integers>> : std::true_type {};

template <class T, class = void>
struct kind_or_product {
  static constexpr branch_kind value = branch_kind::product;
};
template <class T>
struct kind_or_product<T, std::void_t<decltype(tree_traits<T>::kind)>> {
  static constexpr branch_kind value = tree_traits<T>::kind;
};

/// What a type is to a walk. `integers` is everything without floating-point elements: it is left alone.
enum class node_kind { scalar, tensor, branch, integers, unknown };

template <class T>
constexpr bool is_struct_branch =
    has_member_children<T>::value || has_free_children<T>::value || has_member_fields<T>::value || has_free_fields<T>::value;

template <class T>
constexpr node_kind kind_of_node() {
  if constexpr (is_dtype_v<T>) {
    return node_kind::scalar;
  } else if constexpr (has_tensor_traits<T>::value) {
    check_tensor_traits<T>();
    return is_dtype_v<typename tensor_traits<T>::value_type> ? node_kind::tensor : node_kind::integers;
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T> || std::is_null_pointer_v<T>) {
    return node_kind::integers;
  } else if constexpr (has_tree_traits<T>::value) {
    return holds_only_integers<T>::value ? node_kind::integers : node_kind::branch;
  } else if constexpr (is_struct_branch<T>) {
    return node_kind::branch;
  } else {
    return node_kind::unknown;
  }
}

template <class T>
constexpr branch_kind kind_of_branch = kind_or_product<T>::value;

/// Such a node has no elements of its own: tree_traits<T>::with_view(node, f) calls f with a view of it that is a tensor of a
/// static dtype, or with a nullptr_t where there are no floating-point elements.
template <class T>
constexpr bool is_dynamic_node() {
  if constexpr (kind_of_node<T>() == node_kind::branch) {
    return kind_of_branch<T> == branch_kind::dynamic;
  } else {
    return false;
  }
}

// ---- the parts of a product ----

template <class T>
struct is_tuple : std::false_type {};
template <class... Ts>
struct is_tuple<std::tuple<Ts...>> : std::true_type {};

template <class T>
inline constexpr bool is_reference_or_view =
    std::is_lvalue_reference_v<T> || tensor_is_view<std::remove_cv_t<std::remove_reference_t<T>>>::value;

template <class Tuple>
struct all_references_or_views : std::false_type {};
template <class... Ts>
struct all_references_or_views<std::tuple<Ts...>> : std::bool_constant<(is_reference_or_view<Ts> && ...)> {};

template <class T, class Owner, class Declared, class... Members>
constexpr void check_owner(const Fields<Owner, Declared, Members...>&) {
  static_assert(std::is_same_v<T, Owner>,
                "headroom: this struct has the HEADROOM_TREE of its base, which does not know the struct's own members; write "
                "one for it: HEADROOM_TREE(Type, member of the base, ..., member, ...)");
}

/// The Fields of a struct whose route is HEADROOM_TREE; of another, Fields that say nothing.
template <class T>
constexpr auto fields_of(T& node) {
  constexpr bool has_children = has_traits_children<T>::value || has_member_children<T>::value || has_free_children<T>::value;
  (void)node;
  if constexpr (!has_children && has_member_fields<T>::value) {
    return node.headroom_tree(node);
  } else if constexpr (!has_children && has_free_fields<T>::value) {
    return headroom_tree(node);
  } else {
    return Fields<T, void>{{}, nullptr};
  }
}

/// children(T&) by the first route there is. A const T without a route of its own takes that of T; the walk adds the const
/// again.
template <class T>
constexpr auto raw_children(T& node) {
  using Mutable = std::remove_const_t<T>;
  if constexpr (has_traits_children<T>::value) {
    return tree_traits<Mutable>::children(node);
  } else if constexpr (has_member_children<T>::value) {
    return node.children();
  } else if constexpr (has_free_children<T>::value) {
    return children(node);
  } else if constexpr (has_member_fields<T>::value || has_free_fields<T>::value) {
    check_owner<T>(fields_of(node));
    return fields_of(node).members;
  } else {
    static_assert(std::is_const_v<T>,
                  "headroom: tree_traits<T> has no children; write: template <class Self> static auto "
                  "children(Self& self) { return std::tie(self.member, ...); }");
    return raw_children(const_cast<Mutable&>(node));
  }
}

template <class T>
constexpr auto children_of(T& node) {
  using Children = decltype(raw_children(node));
  static_assert(is_tuple<Children>::value,
                "headroom: children(T&) must return a tuple of references; write: return std::tie(member, ...);");
  static_assert(!is_tuple<Children>::value || all_references_or_views<Children>::value,
                "headroom: children(T&) returns copies, so nothing done to them would reach the struct; write: return "
                "std::tie(member, ...);  (only views, such as headroom::span, may be returned by value)");
  return raw_children(node);
}

template <class T>
using children_t = decltype(children_of(std::declval<T&>()));

// ---- the names of the parts ----

template <class T, class = void>
struct has_traits_names : std::false_type {};
template <class T>
struct has_traits_names<T, std::void_t<decltype(tree_traits<T>::names[0])>> : std::true_type {};

/// The name of a part, where the struct gives one.
template <class T>
constexpr PartName name_of_child(T& node, std::size_t index) {
  using Mutable = std::remove_const_t<T>;
  auto& self = const_cast<Mutable&>(node);
  (void)self;
  if constexpr (has_traits_names<Mutable>::value) {
    static_assert(std::size(tree_traits<Mutable>::names) == std::tuple_size_v<children_t<T>>,
                  "headroom: tree_traits<T>::names must have one name for each of the children");
    return {tree_traits<Mutable>::names[index], PartName::whole};
  } else {
    return {fields_of(self).names, index};
  }
}

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
