#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/tree/node.hpp>
#include <headroom/tree/path.hpp>
#include <headroom/tree/std.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

// The visitor: one walk over one tree, or over two of the same structure side by side (source and destination, whose element
// and container types may differ). It calls visit(path, leaf...) for every leaf; what is not floating-point is passed by.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_structure_differs(const Path& path, const std::string& what) {
  const std::string where = path.text();
  throw_invalid_argument("the trees differ" + (where.empty() ? where : " at " + where) + ": " + what);
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_sizes_differ(const Path& path, std::size_t source,
                                                                      std::size_t destination) {
  throw_structure_differs(path,
                          "source has " + std::to_string(source) + " elements, destination has " + std::to_string(destination));
}

template <class Visit, class... Nodes>
void walk(const Path& path, Visit& visit, Nodes&... nodes);

// ---- products ----

template <class Visit, class First, class... Parts>
void walk_part(const Path& path, First& owner, std::size_t index, Visit& visit, Parts&... parts) {
  const PartName name = name_of_child(owner, index);
  if (name.text != nullptr) {
    detail::walk(Path(path, FieldStep{name}), visit, parts...);
  } else {
    detail::walk(Path(path, ElementStep{index}), visit, parts...);
  }
}

/// A part as the walk hands it on: const where its owner is, for a tuple of references would forget that.
template <class Owner, class Part>
auto& with_const_of(Part& part) {
  if constexpr (std::is_const_v<Owner>) {
    return std::as_const(part);
  } else {
    return part;
  }
}

template <std::size_t... I, class Visit, class First, class Children>
void walk_parts(std::index_sequence<I...>, [[maybe_unused]] const Path& path, [[maybe_unused]] Visit& visit,
                [[maybe_unused]] First& node, [[maybe_unused]] Children children) {
  (walk_part(path, node, I, visit, with_const_of<First>(std::get<I>(children))), ...);
}
template <std::size_t... I, class Visit, class First, class Second, class Children, class OtherChildren>
void walk_parts(std::index_sequence<I...>, [[maybe_unused]] const Path& path, [[maybe_unused]] Visit& visit,
                [[maybe_unused]] First& node, Second&, [[maybe_unused]] Children children,
                [[maybe_unused]] OtherChildren others) {
  (walk_part(path, node, I, visit, with_const_of<First>(std::get<I>(children)), with_const_of<Second>(std::get<I>(others))),
   ...);
}

template <class Visit, class Node>
void walk_product(const Path& path, Visit& visit, Node& node) {
  using Indices = std::make_index_sequence<std::tuple_size_v<children_t<Node>>>;
  walk_parts(Indices{}, path, visit, node, children_of(node));
}
template <class Visit, class First, class Second>
void walk_product(const Path& path, Visit& visit, First& first, Second& second) {
  constexpr std::size_t size = std::tuple_size_v<children_t<First>>;
  static_assert(size == std::tuple_size_v<children_t<Second>>,
                "headroom: the two trees differ in structure: a struct or tuple of the one has more parts than the other's");
  walk_parts(std::make_index_sequence<size>{}, path, visit, first, second, children_of(first), children_of(second));
}

// ---- sequences ----

template <class Visit, class Node>
void walk_sequence(const Path& path, Visit& visit, Node& node) {
  std::size_t index = 0;
  for (auto& element : node) detail::walk(Path(path, IndexStep{index++}), visit, element);
}
template <class Visit, class First, class Second>
void walk_sequence(const Path& path, Visit& visit, First& first, Second& second) {
  if (std::size(first) != std::size(second)) throw_sizes_differ(path, std::size(first), std::size(second));
  std::size_t index = 0;
  auto other = std::begin(second);
  for (auto& element : first) detail::walk(Path(path, IndexStep{index++}), visit, element, *other++);
}

// ---- maps ----

template <class Visit, class Node>
void walk_map(const Path& path, Visit& visit, Node& node) {
  for (auto& [key, value] : node) detail::walk(Path(path, KeyStep<bare<decltype(key)>>{key}), visit, value);
}
template <class Visit, class First, class Second>
void walk_map(const Path& path, Visit& visit, First& first, Second& second) {
  if (first.size() != second.size()) throw_sizes_differ(path, first.size(), second.size());
  for (auto& [key, value] : first) {
    const KeyStep<bare<decltype(key)>> step{key};
    const Path here(path, step);
    const auto other = second.find(key);
    if (other == second.end()) throw_structure_differs(here, "the destination does not have this key");
    detail::walk(here, visit, value, other->second);
  }
}

// ---- pointers ----

/// The tree behind a pointer branch, or the node itself; null where there is none.
template <class Node>
auto* pointee(Node& node) {
  if constexpr (is_pointer_node<Node>()) {
    auto* subtree = tree_traits<bare<Node>>::get(node);
    // An owned subtree is as const as its owner; a shared one is not the owner's to protect.
    if constexpr (std::is_const_v<Node> && !tree_traits<bare<Node>>::is_shared) {
      return static_cast<std::add_const_t<std::remove_pointer_t<decltype(subtree)>>*>(subtree);
    } else {
      return subtree;
    }
  } else {
    return &node;
  }
}

template <class Visit, class Node>
void walk_pointer(const Path& path, Visit& visit, Node& node) {
  if (auto* subtree = detail::pointee(node)) detail::walk(path, visit, *subtree);
}
template <class Visit, class First, class Second>
void walk_pointer(const Path& path, Visit& visit, First& first, Second& second) {
  auto* source = detail::pointee(first);
  auto* destination = detail::pointee(second);
  if ((source == nullptr) != (destination == nullptr)) {
    throw_structure_differs(path, source == nullptr ? "the source is empty" : "the destination is empty");
  }
  if (source != nullptr) detail::walk(path, visit, *source, *destination);
}

// ---- variants ----

template <class Node>
void check_has_value(const Path& path, const Node& node) {
  if (node.valueless_by_exception()) {
    throw_invalid_argument(path.name() + " is a variant that has lost its value to an exception");
  }
}
template <class Visit, class Node>
void walk_variant(const Path& path, Visit& visit, Node& node) {
  check_has_value(path, node);
  std::visit([&](auto& alternative) { detail::walk(path, visit, alternative); }, node);
}
template <std::size_t I, class Visit, class First, class Second>
void walk_alternative(const Path& path, Visit& visit, First& first, Second& second) {
  if (auto* source = std::get_if<I>(&first)) detail::walk(path, visit, *source, *std::get_if<I>(&second));
}
template <std::size_t... I, class Visit, class First, class Second>
void walk_alternatives(std::index_sequence<I...>, const Path& path, Visit& visit, First& first, Second& second) {
  (walk_alternative<I>(path, visit, first, second), ...);
}
template <class Visit, class First, class Second>
void walk_variant(const Path& path, Visit& visit, First& first, Second& second) {
  constexpr std::size_t size = std::variant_size_v<bare<First>>;
  static_assert(size == std::variant_size_v<bare<Second>>,
                "headroom: the two trees differ in structure: their variants have different numbers of alternatives");
  check_has_value(path, first);
  check_has_value(path, second);
  if (first.index() != second.index()) {
    throw_structure_differs(path, "source holds alternative " + std::to_string(first.index()) + ", destination holds " +
                                      std::to_string(second.index()));
  }
  walk_alternatives(std::make_index_sequence<size>{}, path, visit, first, second);
}

// ---- tensors of dynamic dtype ----

template <class Node, class F>
void with_view(Node& node, F&& f) {
  if constexpr (is_dynamic_node<bare<Node>>()) {
    tree_traits<bare<Node>>::with_view(node, std::forward<F>(f));
  } else {
    f(node);
  }
}
template <class T>
inline constexpr bool is_leaf_or_integers = node_kind_v<T> != node_kind::branch&& node_kind_v<T> != node_kind::unknown;

template <class Visit, class Node>
void walk_dynamic(const Path& path, Visit& visit, Node& node) {
  detail::with_view(node, [&](auto&& view) { detail::walk(path, visit, view); });
}
template <class Visit, class First, class Second>
void walk_dynamic(const Path& path, Visit& visit, First& first, Second& second) {
  detail::with_view(first, [&](auto&& source) {
    detail::with_view(second, [&](auto&& destination) {
      using Source = decltype(source);
      using Destination = decltype(destination);
      if constexpr (is_leaf_or_integers<Source> && is_leaf_or_integers<Destination> &&
                    node_kind_v<Source> != node_kind_v<Destination>) {
        throw_structure_differs(path, "a floating-point tensor faces something else");
      } else {
        detail::walk(path, visit, source, destination);
      }
    });
  });
}

/// For a visit that takes nodes of dynamic dtype as they are.
template <class Visit, class = void>
struct takes_dynamic_nodes : std::false_type {};
template <class Visit>
struct takes_dynamic_nodes<Visit, std::enable_if_t<Visit::takes_dynamic_nodes>> : std::true_type {};

// ---- any node ----

template <branch_kind Kind, class Visit, class... Nodes>
void walk_branch(const Path& path, Visit& visit, Nodes&... nodes) {
  static_assert(((kind_of_branch<bare<Nodes>> == Kind) && ...),
                "headroom: the two trees differ in structure: a struct, a sequence, a map or a variant faces something else");
  if constexpr (Kind == branch_kind::product) {
    walk_product(path, visit, nodes...);
  } else if constexpr (Kind == branch_kind::sequence) {
    walk_sequence(path, visit, nodes...);
  } else if constexpr (Kind == branch_kind::map) {
    walk_map(path, visit, nodes...);
  } else {
    walk_variant(path, visit, nodes...);
  }
}

template <class Visit, class... Nodes>
void walk(const Path& path, Visit& visit, Nodes&... nodes) {
  if constexpr ((check_is_tree<Nodes>() && ...)) {
    constexpr node_kind kinds[] = {node_kind_v<Nodes>...};
    if constexpr ((is_pointer_node<Nodes>() || ...)) {
      walk_pointer(path, visit, nodes...);
    } else if constexpr ((is_dynamic_node<bare<Nodes>>() || ...)) {
      if constexpr (takes_dynamic_nodes<Visit>::value) {
        visit(path, nodes...);
      } else {
        walk_dynamic(path, visit, nodes...);
      }
    } else {
      static_assert(((node_kind_v<Nodes> == kinds[0]) && ...),
                    "headroom: the two trees differ in structure: a leaf faces a branch, or a floating-point leaf an integer");
      using First = bare<std::tuple_element_t<0, std::tuple<Nodes...>>>;
      if constexpr (kinds[0] == node_kind::scalar || kinds[0] == node_kind::tensor) {
        visit(path, nodes...);
      } else if constexpr (kinds[0] == node_kind::branch) {
        walk_branch<kind_of_branch<First>>(path, visit, nodes...);
      }
    }
  }
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
