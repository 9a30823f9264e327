#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/overlap.hpp>
#include <headroom/ops/plan.hpp>
#include <headroom/tree/facts.hpp>
#include <headroom/tree/visit.hpp>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

// The one walk of a verb checks every leaf and writes down what is to be done. If it throws, nothing has been written to the
// trees. Errors name the leaf by its path.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

// ---- what can be wrong with a leaf ----

/// Names the leaf: "the source", "the source's [2]"; if there is only one tree, "the tree" or "[2]".
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_bad_leaf(const Path& path, const char* which,
                                                                  std::initializer_list<std::string_view> what) {
  const bool is_only_tree = *which == '\0';
  const std::string name = is_only_tree ? path.name() : path.text();
  throw_invalid_argument({which, is_only_tree || name.empty() ? "" : "'s ", name, " ", concat(what)});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_null_leaf(const Path& path, const char* which, std::size_t size) {
  throw_bad_leaf(path, which, {"is null, with a size of ", std::to_string(size)});
}

template <class T>
using obstacle_t = decltype(tensor_traits<T>::obstacle(std::declval<const T&>()));
/// Why the leaf cannot be walked; null if it can. Of one that cannot, the layout is not asked for.
template <class Leaf>
[[nodiscard]] const char* obstacle_of([[maybe_unused]] const Leaf& leaf) {
  if constexpr (is_detected_v<obstacle_t, Leaf>) {
    return tensor_traits<Leaf>::obstacle(leaf);
  } else {
    return nullptr;
  }
}

template <class Leaf, class Element>
void check_walkable(const Path& path, const char* which, Leaf& leaf, const Element* data, std::size_t size) {
  const char* const obstacle = detail::obstacle_of(std::as_const(leaf));
  if (obstacle != nullptr) throw_bad_leaf(path, which, {obstacle});
  if (size != 0 && data == nullptr) throw_null_leaf(path, which, size);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_too_many_dimensions(const Path& path, const char* which, int rank) {
  throw_bad_leaf(path, which,
                 {"has ", std::to_string(rank), " dimensions, not counting those of one element; there may be ",
                  std::to_string(Layout::max_rank)});
}
template <class Leaf>
[[nodiscard]] Layout checked_layout_of(const Path& path, const char* which, const Leaf& leaf) {
  const Layout layout = detail::layout_of(leaf);
  if (layout.excess() != 0) throw_too_many_dimensions(path, which, layout.rank() + layout.excess());
  return layout;
}

inline void check_distinct_elements(const Path& path, const Layout& layout) {
  if (!layout.repeats_elements()) return;
  throw_bad_leaf(
      path, "",
      {"repeats elements (its strides lead to some more than once), so it cannot be written one by one: copy it first"});
}

template <class Element>
constexpr bool check_is_writable() {
  static_assert(!std::is_const_v<Element>, "headroom: this verb writes into the tree, and a leaf of it is const");
  return !std::is_const_v<Element>;
}

/// Whether one is flat and the other, without gaps, has as many elements. Throws if neither that nor the shape is the same.
inline bool are_flat_and_dense(const Path& path, const Layout& source, const Layout& destination) {
  if (source.same_shape(destination)) return false;
  const bool dense = (source.rank() <= 1 || destination.rank() <= 1) && LoopNest(source, source).is_contiguous() &&
                     LoopNest(destination, destination).is_contiguous();
  const bool both_empty = source.size() == 0 && destination.size() == 0;
  if (!both_empty && (source.size() != destination.size() || !dense)) {
    throw_structure_differs(path, {"the source is ", source.shape_text(), ", the destination is ", destination.shape_text()});
  }
  return true;
}

template <class A, class B>
using same_structure_t = decltype(tensor_traits<A>::same_structure(std::declval<const A&>(), std::declval<const B&>()));

template <class Source, class Destination>
void check_same_structure(const Path& path, const Source& source, const Destination& destination) {
  bool same = true;
  if constexpr (is_detected_v<same_structure_t, Source, Destination>) {
    same = tensor_traits<Source>::same_structure(source, destination);
  } else if constexpr (is_detected_v<same_structure_t, Destination, Source>) {
    same = tensor_traits<Destination>::same_structure(destination, source);
  }
  if (!same) throw_structure_differs(path, {"source and destination have their elements in different places"});
}

/// If children() of a struct reaches through a pointer, copying the struct copies the pointer, and the new tree is not new.
inline void check_not_shared(const Path& path, const void* old_elements, const void* new_elements) {
  if (old_elements != new_elements || old_elements == nullptr) return;
  throw_bad_leaf(
      path, "",
      {"is shared by copies of its owner, so there is no new tree to be made: use the verb's _into or _in_place form"});
}

// ---- the walks ----

/// One tree, which is read, or worked on in place. `Pieces` is the writer of a plan or what takes its place.
template <class VerbOps, bool Writes, class Pieces>
struct PlanOneTree {
  static constexpr bool writes = Writes;
  Pieces& plan;

  template <class Leaf>
  void operator()(const Path& path, Leaf& leaf) const {
    auto* const data = detail::data_of(leaf);
    using Element = std::remove_pointer_t<decltype(data)>;
    const std::size_t size = detail::size_of(leaf);
    detail::check_walkable(path, "", leaf, data, size);
    using Format = format_of<Element>;
    void* destination = nullptr;
    if constexpr (Writes) {
      if constexpr (check_is_writable<Element>()) destination = data;
    }
    constexpr auto& kind = VerbOps::template kind<Format, Format>;
    if constexpr (has_layout<std::remove_const_t<Leaf>>::value) {
      const Layout layout = detail::checked_layout_of(path, "", leaf);
      if (Writes) check_distinct_elements(path, layout);
      plan.add(data, destination, size, LoopNest(layout, layout), kind);
    } else {
      plan.add(data, destination, size, kind);
    }
  }
};

/// What a destination is to its source.
enum class DestinationIs { the_users, new_tree };

/// From one tree into another.
template <class VerbOps, DestinationIs Destination, class Pieces>
struct PlanTwoTrees {
  static constexpr bool writes = true;
  static constexpr bool is_new = Destination == DestinationIs::new_tree;
  Pieces& plan;
  Apartness& apartness;

  template <class From, class To>
  void operator()(const Path& path, From& source, To& destination) const {
    auto* const from = detail::data_of(source);
    auto* const to = detail::data_of(destination);
    using Element = std::remove_pointer_t<decltype(to)>;
    const std::size_t size = detail::size_of(source);
    detail::check_walkable(path, is_new ? "" : "the source", source, from, size);
    detail::check_walkable(path, "the destination", destination, to, detail::size_of(destination));
    if constexpr (check_is_writable<Element>()) {
      constexpr auto& kind = VerbOps::template kind<format_of<std::remove_pointer_t<decltype(from)>>, format_of<Element>>;
      if constexpr (has_layout<std::remove_const_t<From>>::value || has_layout<std::remove_const_t<To>>::value) {
        add_strided(path, from, detail::checked_layout_of(path, is_new ? "" : "the source", source), to,
                    detail::checked_layout_of(path, "the destination", destination), kind);
        detail::check_same_structure<std::remove_const_t<From>, std::remove_const_t<To>>(path, source, destination);
      } else {
        if (size != detail::size_of(destination)) throw_sizes_differ(path, size, detail::size_of(destination));
        detail::check_same_structure<std::remove_const_t<From>, std::remove_const_t<To>>(path, source, destination);
        add(path, from, to, size, kind);
      }
    }
  }

 private:
  void add(const Path& path, const void* from, void* to, std::size_t size, const PieceKind& kind) const {
    if (is_new) {
      check_not_shared(path, size == 0 ? nullptr : from, to);
    } else if (size != 0) {
      apartness.add(path, ByteRange(from, size * kind.source_bytes), ByteRange(to, size * kind.destination_bytes));
    }
    plan.add(from, to, size, kind);
  }
  void add_strided(const Path& path, const void* from, const Layout& from_layout, void* to, const Layout& to_layout,
                   const PieceKind& kind) const {
    const bool as_flat = are_flat_and_dense(path, from_layout, to_layout);
    const auto size = static_cast<std::size_t>(to_layout.size());
    check_distinct_elements(path, to_layout);
    if (as_flat) return add(path, from, to, size, kind);
    if (is_new) {
      check_not_shared(path, size == 0 ? nullptr : from, to);
    } else if (size != 0) {
      apartness.add(path, extent_at(from, kind.source_bytes, from_layout), extent_at(to, kind.destination_bytes, to_layout));
    }
    plan.add(from, to, size, LoopNest(from_layout, to_layout), kind);
  }
};

/// Whether two leaves of such a tree can be one: views, or what may be one, shared pointers, tensors of dynamic dtype.
template <class Tree>
inline constexpr bool leaves_may_meet_v = (holds_v<Tree> &
                                           (Holds::shared_elements | Holds::unsaid_views | Holds::dynamic_nodes)) != 0;

template <class VerbOps, bool Writes, class Pieces, class Tree>
void walk_trees(Pieces& pieces, Tree& tree) {
  const PlanOneTree<VerbOps, Writes, Pieces> visit{pieces};
  if constexpr (check_has_floats<bare<Tree>>()) detail::walk(root, visit, tree);
}
template <class VerbOps, bool Writes, class Tree>
void plan_one(Plan& plan, Tree& tree) {
  Plan::Writer writer(plan);
  detail::walk_trees<VerbOps, Writes>(writer, tree);
  writer.close();
  if constexpr (Writes && leaves_may_meet_v<Tree>) {
    if (!leaves_are_in_order(plan)) detail::check_leaves_apart(plan, tree, true);
  }
}

template <class VerbOps, DestinationIs Is, class Pieces, class Source, class Destination>
[[nodiscard]] Apartness walk_trees(Pieces& pieces, const Source& source, Destination& destination) {
  Apartness apartness;
  const PlanTwoTrees<VerbOps, Is, Pieces> visit{pieces, apartness};
  if constexpr (check_has_floats<bare<Source>>() && check_has_floats<bare<Destination>>()) {
    detail::walk(root, visit, source, destination);
  }
  return apartness;
}
/// A leaf may be its own destination if its elements keep their size; any other memory that is both read and written is an
/// error.
template <class VerbOps, DestinationIs Is, class Source, class Destination>
void plan_two(Plan& plan, const Source& source, Destination& destination) {
  Plan::Writer writer(plan);
  const Apartness apartness = detail::walk_trees<VerbOps, Is>(writer, source, destination);
  writer.close();
  if (Is == DestinationIs::the_users && !apartness.is_certain()) detail::check_leaves_apart(plan, source, false);
}

/// Whether a tree is, by its type, one leaf whose elements lie side by side.
template <class Tree>
inline constexpr bool is_lone_piece_v = (node_kind_v<Tree> == node_kind::scalar || node_kind_v<Tree> == node_kind::tensor) &&
                                        !has_layout<bare<Tree>>::value;

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
