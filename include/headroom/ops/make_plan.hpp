#pragma once

#include <headroom/detail/buffer.hpp>
#include <headroom/ops/leaf_checks.hpp>
#include <headroom/ops/plan.hpp>
#include <headroom/tree/any_tensor.hpp>
#include <headroom/tree/facts.hpp>
#include <headroom/tree/walk.hpp>

#include <algorithm>
#include <string>

// A verb makes one walk, which checks every leaf and makes the plan. If it throws, nothing has been
// written. After the walk no code knows the tree's types.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
enum class Access {
  read,
  read_by_offset,  ///< no leaf may repeat elements
  in_place,
  in_place_wide,  ///< the same, but refuses leaves of fewer exponent bits than float
  into,           ///< from one tree into another
  into_new        ///< the same, into a new tree that the verb makes
};

[[nodiscard]] constexpr bool is_in_place(Access access) noexcept {
  return access == Access::in_place || access == Access::in_place_wide;
}

template <class VerbOps>
inline constexpr bool writes_only_fp8 = false;
template <Op... ops>
inline constexpr bool writes_only_fp8<Ops<ops...>> = ((ops == Op::quantize) || ...);

/// By the dtype indexes of source and destination; null if the verb cannot write the latter.
template <class VerbOps, class Dtypes = any_dtypes>
struct AnyKinds;
template <class VerbOps, class... Ts>
struct AnyKinds<VerbOps, types<Ts...>> {
  template <class From, class To>
  static constexpr const PieceKind* find() {
    if constexpr (writes_only_fp8<VerbOps> && !is_fp8<To>) {
      return nullptr;
    } else {
      return &VerbOps::template kind<From, To>;
    }
  }
  template <class From>
  static constexpr const PieceKind* from[] = {find<format_of<From>, format_of<Ts>>()...};
  static constexpr const PieceKind* const* pair[] = {from<Ts>...};
  static constexpr const PieceKind* same[] = {find<format_of<Ts>, format_of<Ts>>()...};
  static constexpr bool is_narrow[] = {is_narrow_v<Ts>...};
};

/// Throws if a leaf overlaps its destination, unless both are the same elements, of one size and in
/// one order, and the tree is not new. Of a leaf with gaps (`nest`) only the first elements are
/// compared, because parts of a matrix may interleave.
inline void check_apart(const Path& path, const void* source, const void* destination,
                        std::size_t size, const PieceKind& kind, bool is_new,
                        const LoopNest* nest = nullptr) {
  const bool has_gaps = nest != nullptr && !nest->is_contiguous();
  const bool stays = !is_new && source == destination &&
                     kind.source_bytes == kind.destination_bytes &&
                     (!has_gaps || nest->has_equal_strides());
  if (overlap(source, has_gaps ? 1 : size * kind.source_bytes, destination,
              has_gaps ? 1 : size * kind.destination_bytes) &&
      !stays)
    throw_overlap(path);
}

/// Checks the leaves of one tree or two and adds them to `plan`, a Plan::Writer or a LonePiece.
template <class VerbOps, Access access, class Pieces>
struct PlanLeaves {
  Pieces& plan;

  template <class Leaf>
  void operator()(const Path& path, Leaf& leaf) const {
    auto* const data = detail::data_of(leaf);
    using Element = std::remove_pointer_t<decltype(data)>;
    void* destination = nullptr;
    if constexpr (is_in_place(access)) {
      if constexpr (check_is_writable<Element>()) destination = data;
    }
    constexpr auto& kind = VerbOps::template kind<format_of<Element>, format_of<Element>>;
    if constexpr (has_layout_v<std::remove_const_t<Leaf>>) {
      add_strided(path, leaf, kind);
    } else {
      const std::size_t size = detail::size_of(leaf);
      detail::check_walkable(path, "", leaf, data, size, is_in_place(access));
      plan.add(data, destination, size, kind);
    }
  }

  template <class From, class To>
  void operator()(const Path& path, From& source, To& destination) const {
    auto* const from = detail::data_of(source);
    auto* const to = detail::data_of(destination);
    using Element = std::remove_pointer_t<decltype(to)>;
    if constexpr (check_is_writable<Element>()) {
      constexpr auto& kind =
          VerbOps::template kind<format_of<std::remove_pointer_t<decltype(from)>>,
                                 format_of<Element>>;
      if constexpr (has_layout_v<std::remove_const_t<From>> ||
                    has_layout_v<std::remove_const_t<To>>) {
        add_strided(path, source, destination, kind);
      } else {
        const std::size_t size = detail::size_of(source), size_there = detail::size_of(destination);
        detail::check_walkable(path, source_name, source, from, size, false);
        detail::check_walkable(path, "the destination", destination, to, size_there, true);
        add_pair(path, from, to, size, size_there, kind);
      }
      detail::check_same_structure<std::remove_const_t<From>, std::remove_const_t<To>>(path, source,
                                                                                       destination);
    }
  }

  // Take any_tensors directly: one instantiation, not one for each pair of dtypes.
  void visit_dynamic(const Path& path, const any_tensor& tensor) const {
    const int dtype = dtype_index(tensor.dtype);
    if (dtype == -1) return;
    const std::size_t size = check_walkable(path, "", tensor, dtype, is_in_place(access));
    if (access == Access::in_place_wide && AnyKinds<VerbOps>::is_narrow[dtype]) throw_narrow(path);
    const PieceKind& kind = *AnyKinds<VerbOps>::same[dtype];
    if (!tensor.is_dense()) return add_strided(path, tensor, kind);
    plan.add(tensor.data, is_in_place(access) ? tensor.data : nullptr, size, kind);
  }
  void visit_dynamic(const Path& path, const any_tensor& source,
                     const any_tensor& destination) const {
    const int from = dtype_index(source.dtype), to = dtype_index(destination.dtype);
    if ((from == -1) != (to == -1))
      throw_structure_differs(path, {"a floating-point tensor faces something else"});
    if (from == -1) return;
    const std::size_t size = check_walkable(path, source_name, source, from, false);
    const std::size_t size_there = check_walkable(path, "the destination", destination, to, true);
    // NOLINTNEXTLINE: the analyzer loses the values
    const PieceKind* const kind = AnyKinds<VerbOps>::pair[from][to];
    if (kind == nullptr)
      throw_bad_leaf(path, "the destination", {"has a dtype that this verb does not write"});
    const bool are_flat = !source.has_shape() && !destination.has_shape();
    const bool are_dense = source.is_dense() && destination.is_dense();
    if (are_flat || (are_dense && source.same_shape(destination)))
      return add_pair(path, source.data, destination.data, size, size_there, *kind);
    add_strided(path, source, destination, *kind);
  }

 private:
  static constexpr const char* source_name = access == Access::into_new ? "" : "the source";

  [[gnu::always_inline]] void add_pair(const Path& path, const void* from, void* to,
                                       std::size_t size, std::size_t size_there,
                                       const PieceKind& kind) const {
    if (size != size_there) throw_sizes_differ(path, size, size_there);
    check_apart(path, from, to, size, kind, access == Access::into_new);
    plan.add(from, to, size, kind);
  }
  // Out of line, so that the stack frame of a walk over dense tensors is small.
  template <class Leaf>
  [[gnu::noinline]] void add_strided(const Path& path, Leaf& leaf, const PieceKind& kind) const {
    const LeafView view = detail::view_of(path, "", leaf, is_in_place(access));
    if (access != Access::read) check_distinct_elements(path, view);
    plan.add(view.data, is_in_place(access) ? view.data : nullptr, view.size,
             {view.layout, view.layout}, kind);
  }
  template <class From, class To>
  [[gnu::noinline]] void add_strided(const Path& path, From& source, To& destination,
                                     const PieceKind& kind) const {
    const LeafView from = detail::view_of(path, source_name, source, false),
                   to = detail::view_of(path, "the destination", destination, true);
    const LoopNest nest = common_nest(path, from, to);
    check_apart(path, from.data, to.data, to.size, kind, access == Access::into_new, &nest);
    plan.add(from.data, to.data, to.size, nest, kind);
  }
};

/// The path of a leaf by its index in the plan.
template <class Tree>
[[nodiscard]] std::string path_of(const Tree& tree, std::size_t leaf) {
  std::string text;
  const auto visit = [&](const Path& path, const auto&) {
    if (leaf-- == 0) text = path.text();
  };
  detail::walk(root, visit, tree);
  return text;
}

/// Throws if two leaves start at one address: their elements would be changed twice.
template <class Tree>
void check_listed_once(const Plan& plan, const Tree& tree) {
  if (plan.ascends()) return;
  Buffer<std::uintptr_t, 32> starts;
  for (const Piece& piece : plan.pieces)
    if (piece.size != 0) starts.push_back(reinterpret_cast<std::uintptr_t>(piece.destination));
  std::sort(starts.begin(), starts.end());
  const std::uintptr_t* const repeated = std::adjacent_find(starts.begin(), starts.end());
  if (repeated == starts.end()) return;
  std::string paths;
  for (const Piece& piece : plan.pieces) {
    if (reinterpret_cast<std::uintptr_t>(piece.destination) != *repeated || piece.size == 0)
      continue;
    paths += (paths.empty() ? "" : " and ") + detail::path_of(tree, plan.place_of(piece));
  }
  throw_invalid_argument({paths,
                          " share elements, which would be worked on twice: leave one of them out "
                          "of the tree, or use unscale or unscale_into"});
}

template <class VerbOps, Access access, class Pieces, class... Trees>
void walk_trees(Pieces& pieces, Trees&... trees) {
  const PlanLeaves<VerbOps, access, Pieces> visit{pieces};
  if constexpr ((check_has_floats<bare<Trees>>() && ...)) detail::walk(root, visit, trees...);
}
template <class VerbOps, Access access, class... Trees>
void make_plan(Plan& plan, Trees&... trees) {
  Plan::Writer writer(plan);
  detail::walk_trees<VerbOps, access>(writer, trees...);
  writer.close();
  if constexpr (is_in_place(access) && !(owns_elements_v<Trees> && ...))
    detail::check_listed_once(plan, trees...);
}
}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
