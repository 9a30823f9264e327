#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/branches.hpp>
#include <headroom/tree/fields.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

// Products: structs and tuples, and the routes to their parts.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class T>
using traits_subtrees_t = typename tree_traits<T>::subtrees;

/// What a route of T led to, as Fields: those of HEADROOM_TREE, or the tuple that children(T&) returned.
template <class T, class Owner, class Declared, class Members>
constexpr Fields<Owner, Declared, Members> as_fields(const Fields<Owner, Declared, Members>& fields) {
  static_assert(std::is_same_v<T, Owner>,
                "headroom: this struct has the HEADROOM_TREE of its base, which does not know the struct's own members; write "
                "one for it: HEADROOM_TREE(Type, member of the base, ..., member, ...)");
  return fields;
}
template <class T, class... Children>
constexpr auto as_fields(const std::tuple<Children...>& children) {
  static_assert(((std::is_lvalue_reference_v<Children> || is_view_v<bare<Children>>)&&...),
                "headroom: children(T&) returns copies, so nothing done to them would reach the struct; write: return "
                "std::tie(member, ...);  (only views, such as headroom::span, may be returned by value)");
  return Fields<T, detected_or_t<void, traits_subtrees_t, T>, std::tuple<Children...>>{children, nullptr};
}
template <class T, class Children>
constexpr auto as_fields(const Children&) {
  static_assert(!std::is_same_v<T, T>,
                "headroom: children(T&) must return a tuple of references; write: return std::tie(member, ...);");
  return Fields<T, void, std::tuple<>>{};
}

/// The parts of a node by the first route that exists; children(T&) is called once. A const T without a route of its own uses
/// T's, and the walk adds the const again.
template <class T>
constexpr auto fields_of(T& node) {
  using Mutable = std::remove_const_t<T>;
  if constexpr (is_detected_v<traits_children_t, T>) {
    return detail::as_fields<Mutable>(tree_traits<Mutable>::children(node));
  } else if constexpr (is_detected_v<member_children_t, T>) {
    return detail::as_fields<Mutable>(node.children());
  } else if constexpr (is_detected_v<free_children_t, T>) {
    return detail::as_fields<Mutable>(children(node));
  } else if constexpr (is_detected_v<member_fields_t, T>) {
    return detail::as_fields<Mutable>(node.headroom_tree(node));
  } else if constexpr (is_detected_v<free_fields_t, T>) {
    return detail::as_fields<Mutable>(headroom_tree(node));
  } else {
    static_assert(std::is_const_v<T>,
                  "headroom: tree_traits<T> has no children; write: template <class Self> static auto "
                  "children(Self& self) { return std::tie(self.member, ...); }");
    return detail::fields_of(const_cast<Mutable&>(node));
  }
}
template <class T>
using fields_t = decltype(detail::fields_of(std::declval<T&>()));
template <class... Ts>
types<Ts...> types_of(const std::tuple<Ts...>&);
template <class T>
using parts_t = decltype(std::declval<fields_t<T>>().members);

// ---- what a verb has to know of them ----

/// Who owns the parts of a product.
enum class parts { own, referenced, unknown };

template <class>
inline constexpr parts parts_of_fields = parts::unknown;
template <class Owner, class... Ts, class Members>
inline constexpr parts parts_of_fields<Fields<Owner, types<Ts...>, Members>> = (std::is_reference_v<Ts> || ...)
                                                                                   ? parts::referenced
                                                                                   : parts::own;
/// For HEADROOM_TREE and tuples this is known. Functions that return children may get them from anywhere.
template <class T>
inline constexpr parts parts_of_v = parts_of_fields<fields_t<T>>;

// ---- the walk ----

template <class T>
using names_t = decltype(tree_traits<T>::names[0]);
template <class Visit>
using writes_t = std::enable_if_t<Visit::writes>;

/// A product with its parts as the walk passes them on: const if the product is, which a tuple of references forgets.
template <class Node>
struct Product {
  static constexpr std::size_t size = std::tuple_size_v<parts_t<Node>>;
  fields_t<Node> fields;

  template <std::size_t I>
  constexpr auto& part() {
    if constexpr (std::is_const_v<Node>) {
      return std::as_const(std::get<I>(fields.members));
    } else {
      return std::get<I>(fields.members);
    }
  }
  /// The step to part I, in a Path that has been used for others.
  template <std::size_t I>
  constexpr void name_part(Path& here) const {
    using Traits = tree_traits<bare<Node>>;
    here.index = I;
    if constexpr (is_detected_v<names_t, bare<Node>>) {
      static_assert(std::size(Traits::names) == size,
                    "headroom: tree_traits<T>::names must have one name for each of the children");
      here.append = append_name;
      here.what = Traits::names[I];
    }
  }
  /// For a visit that writes. A view is as const as what it looks at; if the struct had to be made mutable to get it, that is
  /// unknown.
  template <class Visit, std::size_t I>
  static constexpr void check_is_writable() {
    constexpr bool is_view = !std::is_reference_v<std::tuple_element_t<I, parts_t<Node>>>;
    static_assert(
        !(is_view && is_detected_v<writes_t, Visit> && std::is_const_v<Node> && !has_parts_v<Node>),
        "headroom: this verb writes into the tree, and a leaf of it is const: a view that children() returns by value, "
        "without being declared for a const struct");
  }
};

/// A new struct: tree/make_like.hpp.
template <class To, class T>
rebound_t<T, To> make_struct_like(const T& tree);

template <>
struct branch<branch_kind::product> {
  template <class T>
  using subtrees = decltype(detail::types_of(std::declval<parts_t<T>>()));

  template <class Visit, class First, class... Second>
  static void walk(const Path& path, Visit& visit, First& first, Second&... second) {
    using Parts = std::make_index_sequence<Product<First>::size>;
    walk_parts(Parts{}, path, visit, Product<First>{detail::fields_of(first)}, Product<Second>{detail::fields_of(second)}...);
  }
  template <class To, class T>
  static rebound_t<T, To> make_like(const T& node) {
    if constexpr (is_detected_v<traits_subtrees_t, T>) {
      return std::apply([](const auto&... parts) { return rebound_t<T, To>(detail::make_like<To>(parts)...); },
                        tree_traits<T>::children(node));
    } else {
      return detail::make_struct_like<To>(node);
    }
  }

 private:
  template <std::size_t... I, class Visit, class First, class... Second>
  static void walk_parts(std::index_sequence<I...>, const Path& path, [[maybe_unused]] Visit& visit, Product<First> first,
                         [[maybe_unused]] Product<Second>... second) {
    static_assert(((Product<First>::size == Product<Second>::size) && ...),
                  "headroom: the two trees differ in structure: a struct or tuple of the one has more parts than the other's");
    [[maybe_unused]] Path here{&path, first.fields.names == nullptr ? append_element : append_field, first.fields.names};
    (walk_part<I>(here, visit, first, second...), ...);
  }
  template <std::size_t I, class Visit, class First, class... Second>
  static void walk_part(Path& here, Visit& visit, Product<First>& first, Product<Second>&... second) {
    using Last = std::tuple_element_t<sizeof...(Second), std::tuple<First, Second...>>;
    Product<Last>::template check_is_writable<Visit, I>();
    first.template name_part<I>(here);
    detail::walk(here, visit, first.template part<I>(), second.template part<I>()...);
  }
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
