#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/tree/node.hpp>
#include <headroom/tree/path.hpp>
#include <headroom/tree/std.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

// One strategy for each kind of branch except products, which have a header of their own:
//
//     template <class T> using subtrees = types<...>;                      // of a T
//     template <class Visit, class... Nodes>
//     static void walk(const Path&, Visit&, Nodes&... nodes);              // one node, or two side by side
//     template <class To, class T>
//     static rebound_t<T, To> make_like(const T& node);                    // see tree/make_like.hpp
//
// If a node's type is tree_traits<T>::rebuilt of other subtrees, rebound_t finds it without help.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

// The functions over all kinds of node, which strategies call for subtrees; defined further down.
template <class Visit, class... Nodes>
void walk(const Path& path, Visit& visit, Nodes&... nodes);
template <class T, class To>
struct rebound;
template <class T, class To>
using rebound_t = typename rebound<bare<T>, To>::type;
template <class To, class T>
[[nodiscard]] rebound_t<T, To> make_like(const T& tree);

template <branch_kind Kind>
struct branch;

template <class T>
using subtrees_t = typename branch<kind_of_branch<T>()>::template subtrees<T>;

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_structure_differs(const Path& path,
                                                                           std::initializer_list<std::string_view> what) {
  const std::string where = path.text();
  throw_invalid_argument({"the trees differ", where.empty() ? "" : " at ", where, ": ", concat(what)});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_sizes_differ(const Path& path, std::size_t source,
                                                                      std::size_t destination) {
  throw_structure_differs(path,
                          {"source has ", std::to_string(source), " elements, destination has ", std::to_string(destination)});
}
inline void check_same_size(const Path& path, std::size_t source, std::size_t destination) {
  if (source != destination) throw_sizes_differ(path, source, destination);
}

// ---- sequences ----

template <class Container>
using push_back_t = decltype(std::declval<Container&>().push_back(std::move(*std::begin(std::declval<Container&>()))));

template <>
struct branch<branch_kind::sequence> {
  template <class T>
  using subtrees = types<decltype(*std::begin(std::declval<T&>()))>;

  template <class Visit, class First, class... Second>
  static void walk(const Path& path, Visit& visit, First& first, Second&... second) {
    (check_same_size(path, std::size(first), std::size(second)), ...);
    walk_elements(path, visit, std::begin(first), std::end(first), std::begin(second)...);
  }
  template <class To, class T>
  static rebound_t<T, To> make_like(const T& node) {
    using Result = rebound_t<T, To>;
    if constexpr (is_made_at_once<Result>) {
      return make_each_like<To, Result>(node, std::make_index_sequence<std::tuple_size_v<Result>>{});
    } else {
      auto result = detail::empty_like<Result>(node);
      if constexpr (is_detected_v<push_back_t, Result>) {
        for (const auto& element : node) result.push_back(detail::make_like<To>(element));
      } else {
        check_same_size(Path(), std::size(node), std::size(result));
        auto place = std::begin(result);
        for (const auto& element : node) *place++ = detail::make_like<To>(element);
      }
      return result;
    }
  }

 private:
  template <class To, class Result, class T, std::size_t... I>
  static Result make_each_like(const T& node, std::index_sequence<I...>) {
    return {{detail::make_like<To>(node[I])...}};
  }
  template <class Visit, class At, class End, class... Others>
  static void walk_elements(const Path& path, Visit& visit, At at, const End end, Others... others) {
    Path here{&path, append_index};
    for (std::size_t index = 0; at != end; ++at) {  // counted apart, for what is in memory takes longer to count
      here.index = index++;
      detail::walk(here, visit, *at, *others++...);
    }
  }
};

// ---- maps ----

template <>
struct branch<branch_kind::map> {
  template <class T>
  using subtrees = types<typename T::mapped_type>;

  template <class Visit, class First, class... Second>
  static void walk(const Path& path, Visit& visit, First& first, Second&... second) {
    (check_same_size(path, first.size(), second.size()), ...);
    Path here{&path, append_key<typename First::key_type>};
    for (auto& [key, value] : first) {
      here.what = std::addressof(key);
      detail::walk(here, visit, value, value_at(here, second, key)...);
    }
  }
  template <class To, class T>
  static rebound_t<T, To> make_like(const T& node) {
    auto result = detail::empty_like<rebound_t<T, To>>(node);
    for (const auto& [key, value] : node) result.emplace(key, detail::make_like<To>(value));
    return result;
  }

 private:
  template <class Map, class Key>
  static auto& value_at(const Path& path, Map& map, const Key& key) {
    const auto found = map.find(key);
    if (found == map.end()) throw_structure_differs(path, {"the destination does not have this key"});
    return found->second;
  }
};

// ---- pointers ----

template <>
struct branch<branch_kind::pointer> {
  template <class T>
  using subtrees = types<typename tree_traits<T>::element_type>;

  template <class Visit, class... Nodes>
  static void walk(const Path& path, Visit& visit, Nodes&... nodes) {
    walk_pointees(path, visit, pointee(nodes)...);
  }
  template <class To, class T>
  static rebound_t<T, To> make_like(const T& node) {
    using Result = rebound_t<T, To>;
    using Subtree = rebound_t<typename tree_traits<T>::element_type, To>;
    if (const auto* subtree = tree_traits<T>::get(node)) {
      if constexpr (std::is_constructible_v<Result, Subtree>) {
        return Result(detail::make_like<To>(*subtree));
      } else {
        return Result(new Subtree(detail::make_like<To>(*subtree)));
      }
    }
    if constexpr (std::is_default_constructible_v<Result>) {
      return {};
    } else {
      __builtin_unreachable();  // a reference is never empty
    }
  }

 private:
  /// The tree behind a pointer branch, or the node itself; null if there is none.
  template <class Node>
  static auto* pointee(Node& node) {
    if constexpr (is_branch<Node, branch_kind::pointer>()) {
      auto* subtree = tree_traits<bare<Node>>::get(node);
      // An owned subtree is as const as its owner; a shared one is not.
      if constexpr (std::is_const_v<Node> && !tree_traits<bare<Node>>::is_shared) {
        return static_cast<std::add_const_t<std::remove_pointer_t<decltype(subtree)>>*>(subtree);
      } else {
        return subtree;
      }
    } else {
      return std::addressof(node);
    }
  }
  static void check_same_emptiness(const Path& path, bool source, bool destination) {
    if (source != destination) throw_structure_differs(path, {source ? "the destination is empty" : "the source is empty"});
  }
  template <class Visit, class First, class... Second>
  static void walk_pointees(const Path& path, Visit& visit, First* first, Second*... second) {
    (check_same_emptiness(path, first != nullptr, second != nullptr), ...);
    if (first != nullptr) detail::walk(path, visit, *first, *second...);
  }
};

// ---- variants ----

template <>
struct branch<branch_kind::variant> {
  template <class T>
  using subtrees = typename tree_traits<T>::subtrees;

  template <class Visit, class First, class... Second>
  static void walk(const Path& path, Visit& visit, First& first, Second&... second) {
    static_assert(((std::variant_size_v<bare<First>> == std::variant_size_v<bare<Second>>)&&...),
                  "headroom: the two trees differ in structure: their variants have different numbers of alternatives");
    check_has_value(path, first.valueless_by_exception() || (second.valueless_by_exception() || ...));
    (check_same_alternative(path, first.index(), second.index()), ...);
    walk_alternative<0>(path, visit, first, second...);
  }
  template <class To, std::size_t I = 0, class T>
  static rebound_t<T, To> make_like(const T& node) {
    if constexpr (I + 1 < std::variant_size_v<T>) {
      if (node.index() != I) return make_like<To, I + 1>(node);
    }
    return rebound_t<T, To>(std::in_place_index<I>, detail::make_like<To>(std::get<I>(node)));
  }

 private:
  static void check_has_value(const Path& path, bool valueless) {
    if (valueless) throw_invalid_argument({path.name(), " is a variant that has lost its value to an exception"});
  }
  static void check_same_alternative(const Path& path, std::size_t source, std::size_t destination) {
    if (source != destination) {
      throw_structure_differs(
          path, {"source holds alternative ", std::to_string(source), ", destination holds ", std::to_string(destination)});
    }
  }
  template <std::size_t I, class Visit, class First, class... Second>
  static void walk_alternative(const Path& path, Visit& visit, First& first, Second&... second) {
    if constexpr (I + 1 < std::variant_size_v<bare<First>>) {
      if (first.index() != I) return walk_alternative<I + 1>(path, visit, first, second...);
    }
    detail::walk(path, visit, *std::get_if<I>(&first), *std::get_if<I>(&second)...);
  }
};

// ---- tensors of dynamic dtype ----

template <>
struct branch<branch_kind::dynamic> {
  template <class T>
  using subtrees = types<>;

  template <class Visit, class Node>
  static void walk(const Path& path, Visit& visit, Node& node) {
    with_view(node, [&](auto&& view) { detail::walk(path, visit, view); });
  }
  template <class Visit, class First, class Second>
  static void walk(const Path& path, Visit& visit, First& first, Second& second) {
    with_view(first, [&](auto&& source) {
      with_view(second, [&](auto&& destination) { walk_views(path, visit, source, destination); });
    });
  }
  template <class To, class T>
  static T make_like(const T& node) {
    return tree_traits<T>::template like<To>(node);
  }

 private:
  /// f(view of a dynamic node), or f(node).
  template <class Node, class F>
  static void with_view(Node& node, F&& f) {
    if constexpr (is_dynamic_node<Node>()) {
      tree_traits<bare<Node>>::with_view(node, std::forward<F>(f));
    } else {
      f(node);
    }
  }
  template <class T>
  static constexpr bool is_branch_or_unknown = node_kind_v<T> == node_kind::branch || node_kind_v<T> == node_kind::unknown;

  template <class Visit, class Source, class Destination>
  static void walk_views(const Path& path, Visit& visit, Source& source, Destination& destination) {
    if constexpr (!is_branch_or_unknown<Source> && !is_branch_or_unknown<Destination> &&
                  node_kind_v<Source> != node_kind_v<Destination>) {
      throw_structure_differs(path, {"a floating-point tensor faces something else"});
    } else {
      detail::walk(path, visit, source, destination);
    }
  }
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
