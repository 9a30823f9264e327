#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/facts.hpp>
#include <headroom/tree/overlap.hpp>
#include <headroom/tree/pieces.hpp>

#include <cstddef>
#include <string>
#include <type_traits>

// What is checked before a verb writes anything.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class A, class B, class = void>
struct has_same_structure : std::false_type {};
template <class A, class B>
struct has_same_structure<
    A, B, std::void_t<decltype(tensor_traits<A>::same_structure(std::declval<const A&>(), std::declval<const B&>()))>>
    : std::true_type {};

template <class Leaf>
constexpr void check_is_writable(Leaf& leaf) {
  static_assert(!std::is_const_v<std::remove_pointer_t<decltype(detail::data_of(leaf))>>,
                "headroom: this verb writes into the tree, and a leaf of it is const");
}

template <class T, class = void>
struct has_obstacle : std::false_type {};
template <class T>
struct has_obstacle<T, std::void_t<decltype(tensor_traits<T>::obstacle(std::declval<const T&>()))>> : std::true_type {};

/// "the source", "the source's [2]"; where there is but one tree, "the tree" or "[2]".
inline std::string name_of(const std::string& which, const Path& path) {
  const std::string text = path.text();
  if (which.empty()) return path.name();
  return text.empty() ? which : which + "'s " + text;
}

template <class Leaf>
void check_walkable(const Path& path, const char* which, Leaf& leaf) {
  if constexpr (has_obstacle<std::remove_const_t<Leaf>>::value) {
    const char* obstacle = tensor_traits<std::remove_const_t<Leaf>>::obstacle(leaf);
    if (obstacle != nullptr) throw_invalid_argument(name_of(which, path) + ' ' + obstacle);
  }
  if (detail::size_of(leaf) != 0 && detail::data_of(leaf) == nullptr) {
    throw_invalid_argument(name_of(which, path) + " is null, with a size of " + std::to_string(detail::size_of(leaf)));
  }
}

template <class Leaf>
void check_distinct_elements(const Path& path, const Leaf& leaf) {
  if constexpr (has_layout<Leaf>::value) {
    if (detail::layout_of(leaf).repeats_elements()) {
      throw_invalid_argument(
          path.name() +
          " repeats elements (its strides lead to some more than once), so it cannot be written one by one: copy it first");
    }
  }
}

struct CheckReadable {
  template <class Leaf>
  void operator()(const Path& path, Leaf& leaf) const {
    check_walkable(path, "", leaf);
  }
};

struct CheckInPlace {
  template <class Leaf>
  void operator()(const Path& path, Leaf& leaf) const {
    check_is_writable(leaf);
    check_walkable(path, "", leaf);
    check_distinct_elements(path, leaf);
  }
};

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_shapes_differ(const Path& path, const Layout& source,
                                                                       const Layout& destination) {
  throw_structure_differs(path, "the source is " + source.shape_text() + ", the destination is " + destination.shape_text());
}

/// Same shape; or one of them flat and as many elements in the other, which has no gaps.
template <class Source, class Destination>
void check_same_shape(const Path& path, const Source& source, const Destination& destination) {
  if constexpr (has_layout<Source>::value || has_layout<Destination>::value) {
    const Layout from = detail::layout_of(source), to = detail::layout_of(destination);
    if (from.same_shape(to) || (from.size() == 0 && to.size() == 0)) return;
    const bool flat_and_dense =
        (from.rank() <= 1 || to.rank() <= 1) && LoopNest(from, from).is_contiguous() && LoopNest(to, to).is_contiguous();
    if (from.size() != to.size() || !flat_and_dense) throw_shapes_differ(path, from, to);
  } else {
    if (detail::size_of(source) != detail::size_of(destination))
      throw_sizes_differ(path, detail::size_of(source), detail::size_of(destination));
  }
}

template <class Source, class Destination>
void check_overlap(const Path& path, const Source& source, const Destination& destination) {
  if (!detail::range_of(source).meets(detail::range_of(destination))) return;
  const Extent from = detail::extent_of(source), to = detail::extent_of(destination);
  if (!same_places(from, to) && share_elements(from, to)) {
    throw_invalid_argument(path.name() +
                           ": source and destination overlap, and are not the same elements in the same places, so that some "
                           "would be overwritten before they are read");
  }
}

struct CheckInto {
  template <class Source, class Destination>
  void operator()(const Path& path, Source& source, Destination& destination) const {
    check_is_writable(destination);
    check_walkable(path, "the source", source);
    check_walkable(path, "the destination", destination);
    check_same_shape(path, source, destination);
    check_distinct_elements(path, destination);
    check_overlap(path, source, destination);
    using From = std::remove_const_t<Source>;
    bool same_structure = true;
    if constexpr (has_same_structure<From, Destination>::value) {
      same_structure = tensor_traits<From>::same_structure(source, destination);
    } else if constexpr (has_same_structure<Destination, From>::value) {
      same_structure = tensor_traits<Destination>::same_structure(destination, source);
    }
    if (!same_structure) throw_structure_differs(path, "source and destination have their elements in different places");
  }
};

/// Of a tree and a new one made like it: a struct whose children() reaches through a pointer has been copied with the pointer.
struct CheckNothingShared {
  template <class Old, class New>
  void operator()(const Path& path, Old& old_leaf, New& new_leaf) const {
    if (detail::size_of(old_leaf) != 0) check_apart(path, detail::data_of(old_leaf), detail::data_of(new_leaf));
  }
  static void check_apart(const Path& path, const void* old_place, const void* new_place) {
    if (old_place != new_place) return;
    throw_invalid_argument(path.name() +
                           " is shared by copies of its owner, so there is no new tree to be made: use the verb's _into or "
                           "_in_place form");
  }
};
/// Of a tree and its copy, whose nodes of dynamic dtype share their elements and are to be replaced.
struct CheckNodesApart {
  static constexpr bool takes_dynamic_nodes = true;
  template <class Node>
  void operator()(const Path& path, const Node& old_node, Node& new_node) const {
    if constexpr (is_dynamic_node<Node>()) {
      CheckNothingShared::check_apart(path, &old_node, &new_node);
    } else {
      CheckNothingShared()(path, old_node, new_node);
    }
  }
};

template <class Check>
struct CheckAndCount {
  Check& check;
  std::size_t bytes = 0;
  template <class... Leaves>
  void operator()(const Path& path, Leaves&... leaves) {
    check(path, leaves...);
    ((bytes += detail::size_of(leaves) * sizeof(*detail::data_of(leaves))), ...);
  }
};

/// Returns how many bytes all floating-point leaves have.
template <class Check, class... Trees>
std::size_t check_trees(Check&& check, Trees&... trees) {
  CheckAndCount<std::remove_reference_t<Check>> visit{check};
  if constexpr ((check_has_floats<bare<Trees>>() && ...)) detail::walk(Path(), visit, trees...);
  return visit.bytes;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
