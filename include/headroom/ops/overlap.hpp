#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/plan.hpp>
#include <headroom/tree/overlap.hpp>
#include <headroom/tree/visit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

// Checks that no leaf of a destination tree is written where another leaf of the source tree is read.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// The source or the destination of a leaf of a plan.
struct LeafRange : ByteRange {
  const Plan::Run* run;
  const Piece* leaf;
  bool is_destination;
};

inline void sort_by_begin(LeafRange* first, LeafRange* last) {
  const auto is_before = [](const LeafRange& a, const LeafRange& b) { return a.begin < b.begin; };
  if (!std::is_sorted(first, last, is_before))
    std::sort(first, last, is_before);  // often they are, one allocated after another
}

/// The end of the first cluster of sorted ranges, between which there is no gap. A range meets none outside its cluster.
inline LeafRange* end_of_cluster(LeafRange* first, const LeafRange* last) noexcept {
  std::intptr_t end = first->end;
  while (++first != last && first->begin < end) end = std::max(end, first->end);
  return first;
}

/// Whether no destination is among the sources of other leaves.
inline bool is_harmless(const LeafRange* first, const LeafRange* last) noexcept {
  bool one_side = true, one_leaf = true;
  for (const LeafRange* range = first + 1; range < last; ++range) {
    one_side = one_side && range->is_destination == first->is_destination;
    one_leaf = one_leaf && range->leaf == first->leaf;
  }
  return one_side || one_leaf;
}

/// Looks at the leaves of a source and a destination tree as they are walked, and sees in passing whether it is certain that no
/// destination meets the source of another leaf: each leaf lies behind the one before it, or all sources lie apart from all
/// destinations.
class Apartness {
 public:
  /// Throws if the leaf would be overwritten before it is read.
  void add(const Path& path, const ByteRange& source, const ByteRange& destination) {
    const bool same = source.begin == destination.begin && source.end == destination.end;
    if (!same && source.meets(destination)) throw_overlap(path);
    look_at(source, destination);
  }
  void add(const Path& path, const Extent& source, const Extent& destination) {
    if (source.range().meets(destination.range()) && !same_places(source, destination) && share_elements(source, destination)) {
      throw_overlap(path);
    }
    look_at(source.range(), destination.range());
  }
  [[nodiscard]] bool is_certain() const noexcept { return in_order_ || !sources_.meets(destinations_); }

 private:
  [[noreturn, gnu::cold, gnu::noinline]] static void throw_overlap(const Path& path) {
    throw_invalid_argument({path.name(),
                            ": source and destination overlap, and are not the same elements in the same places, so that some "
                            "would be overwritten before they are read"});
  }
  void look_at(const ByteRange& source, const ByteRange& destination) noexcept {
    in_order_ = in_order_ && std::min(source.begin, destination.begin) >= std::max(sources_.end, destinations_.end);
    sources_ = {std::min(sources_.begin, source.begin), std::max(sources_.end, source.end)};
    destinations_ = {std::min(destinations_.begin, destination.begin), std::max(destinations_.end, destination.end)};
  }

  static constexpr std::intptr_t least = std::numeric_limits<std::intptr_t>::min();
  static constexpr std::intptr_t most = std::numeric_limits<std::intptr_t>::max();
  ByteRange sources_{most, least}, destinations_{most, least};  // from the lowest to the highest of all so far
  bool in_order_ = true;
};

/// Of the source or the destination of a leaf.
[[nodiscard]] inline Extent extent_of(const Plan& plan, const Plan::Run& run, const Piece& piece, bool is_destination) {
  const Dimension flat{static_cast<std::ptrdiff_t>(piece.size), 1, 1};
  const Dimension* const dimensions = run.depth == 0 ? &flat : plan.dimensions(run);
  Layout layout;
  for (int k = 0; k < std::max(run.depth, 1); ++k) {
    layout.push(dimensions[k].size, is_destination ? dimensions[k].destination_stride : dimensions[k].source_stride);
  }
  return is_destination ? extent_at(piece.destination, run.kind->destination_bytes, layout)
                        : extent_at(piece.source, run.kind->source_bytes, layout);
}
using LeafRanges = Buffer<LeafRange, 64>;
/// Those of the sources or of the destinations of a plan, without empty leaves.
inline void add_ranges(LeafRanges& ranges, const Plan& plan, bool is_destination) {
  for (const Plan::Run& run : plan.runs()) {
    const std::size_t bytes = is_destination ? run.kind->destination_bytes : run.kind->source_bytes;
    for (const Piece* piece = plan.begin(run); piece != plan.end(run); ++piece) {
      if (piece->size == 0) continue;
      const void* const data = is_destination ? piece->destination : piece->source;
      const ByteRange range =
          run.depth == 0 ? ByteRange(data, piece->size * bytes) : extent_of(plan, run, *piece, is_destination).range();
      ranges.push_back({range, &run, piece, is_destination});
    }
  }
}

/// Looks for a destination that shares elements with the source of another leaf. Leaves whose ranges meet, as columns of one
/// matrix do, are sorted by where they lie in a row: by their addresses modulo the longest stride, and those that meet there,
/// too, modulo the next longest one. Only what meets in each is compared, one with another.
class OverlapSearch {
 public:
  const Piece *read = nullptr, *written = nullptr;  ///< the leaves that were found

  explicit OverlapSearch(const Plan& plan) : plan_(plan) {
    add_ranges(ranges_, plan, false);  // either side by itself is sorted in most trees, or nearly, and quickly sorted then
    add_ranges(ranges_, plan, true);
  }
  [[nodiscard]] bool finds() {
    return finds(ranges_.begin(), ranges_.end(), std::numeric_limits<std::ptrdiff_t>::max(), Layout::max_rank);
  }

 private:
  /// Below `modulus`, what the ranges are taken modulo. Overwrites them.
  [[nodiscard]] bool finds(LeafRange* first, LeafRange* last, std::ptrdiff_t modulus, int levels) {
    sort_by_begin(first, last);
    for (LeafRange* next; first != last; first = next) {
      next = end_of_cluster(first, last);
      if (is_harmless(first, next)) continue;
      const std::ptrdiff_t stride = levels == 0 ? 0 : longest_stride(first, next, modulus);
      if (stride == 0) {
        if (finds_pair(first, next)) return true;
      } else {
        project(first, next, stride);
        if (finds(first, next, stride, levels - 1)) return true;
      }
    }
    return false;
  }
  [[nodiscard]] Extent extent(const LeafRange& range) const {
    return extent_of(plan_, *range.run, *range.leaf, range.is_destination);
  }
  /// In bytes, of those below `limit`; 0 where there is none.
  [[nodiscard]] std::ptrdiff_t longest_stride(const LeafRange* first, const LeafRange* last, std::ptrdiff_t limit) const {
    std::ptrdiff_t longest = 0;
    for (; first != last; ++first) {
      const Extent all = extent(*first);
      for (int i = 0; i < all.layout.rank(); ++i) {
        const std::ptrdiff_t stride = all.stride(i);
        if (stride < limit) longest = std::max(longest, stride);
      }
    }
    return longest;
  }
  /// Counted from the first byte of all: the one leaf there is what may lie across the edge.
  void project(LeafRange* first, LeafRange* last, std::ptrdiff_t modulus) const {
    std::intptr_t origin = std::numeric_limits<std::intptr_t>::max();
    for (const LeafRange* range = first; range != last; ++range) origin = std::min(origin, extent(*range).range().begin);
    for (; first != last; ++first) {
      const Extent all = extent(*first);
      first->begin = (all.range().begin - origin) % modulus;
      first->end = first->begin + all.element;
      for (int i = 0; i < all.layout.rank(); ++i) {
        if (all.stride(i) % modulus != 0) first->end += (all.layout.shape(i) - 1) * all.stride(i);
      }
      if (first->end > modulus) first->begin = 0;
    }
  }
  [[nodiscard]] bool finds_pair(const LeafRange* first, const LeafRange* last) {
    for (const LeafRange* from = first; from != last; ++from) {
      const Extent source = extent(*from);
      for (const LeafRange* to = first; to != last; ++to) {
        if (from->is_destination || !to->is_destination || from->leaf == to->leaf) continue;
        if (!share_elements(source, extent(*to))) continue;
        read = from->leaf;
        written = to->leaf;
        return true;
      }
    }
    return false;
  }

  const Plan& plan_;
  LeafRanges ranges_;
};

struct FindPath {
  std::size_t leaf;
  std::string text{};
  template <class Leaf>
  void operator()(const Path& path, Leaf&) {
    if (leaf-- == 0) text = path.text();
  }
};
/// The path of a leaf by its place in the plan.
template <class Tree>
[[nodiscard]] std::string path_of(const Tree& tree, std::size_t leaf) {
  FindPath visit{leaf};
  detail::walk(root, visit, tree);
  return visit.text;
}

/// Throws std::invalid_argument with both paths if a leaf that is written shares elements with another one that is read. In
/// place, where all of `tree` is both, such elements would be worked on twice.
template <class Tree>
void check_leaves_apart(const Plan& plan, const Tree& tree, bool in_place) {
  OverlapSearch search(plan);
  if (!search.finds()) return;
  const std::string written = detail::path_of(tree, plan.place_of(*search.written)),
                    read = detail::path_of(tree, plan.place_of(*search.read));
  if (in_place) {
    throw_invalid_argument(
        {written, " and ", read, " share elements, which would be worked on twice: leave one of them out of the tree"});
  }
  throw_invalid_argument(
      {"the destination's ", written, " overlaps the source's ", read, ", which would be overwritten before it is read"});
}
/// Whether two leaves of the destination have bytes in common, or may.
[[nodiscard]] inline bool destinations_meet(const Plan& plan) {
  LeafRanges ranges;
  add_ranges(ranges, plan, true);
  sort_by_begin(ranges.begin(), ranges.end());
  for (LeafRange* first = ranges.begin(); first != ranges.end(); ++first) {
    if (end_of_cluster(first, ranges.end()) != first + 1) return true;
  }
  return false;
}
/// Whether each leaf lies behind the one before it. Then no two share elements, and there is nothing to look for.
[[nodiscard]] inline bool leaves_are_in_order(const Plan& plan) noexcept {
  std::uintptr_t end = 0;
  for (const Plan::Run& run : plan.runs()) {
    if (run.depth != 0) return false;
    for (const Piece* piece = plan.begin(run); piece != plan.end(run); ++piece) {
      const auto begin = reinterpret_cast<std::uintptr_t>(piece->source);
      if (piece->size == 0) continue;
      if (begin < end) return false;
      end = begin + piece->size * run.kind->source_bytes;
    }
  }
  return true;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
