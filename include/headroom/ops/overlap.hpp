#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/check.hpp>
#include <headroom/tree/overlap.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

// Of a source and a destination tree: no leaf is written where another one is read.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

struct LeafRange : ByteRange {
  std::size_t leaf;
  bool is_destination;
};

inline void sort_by_begin(LeafRange* first, LeafRange* last) {
  const auto is_before = [](const LeafRange& a, const LeafRange& b) { return a.begin < b.begin; };
  if (!std::is_sorted(first, last, is_before))
    std::sort(first, last, is_before);  // often they are, one allocated after another
}

/// Of sorted ranges: the end of the first ones between which there is no gap. A range meets none outside of its cluster.
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

/// Whether a destination meets the source of another leaf, or may. Sorts them.
inline bool some_meet(LeafRange* first, LeafRange* last) {
  sort_by_begin(first, last);
  for (LeafRange* next; first != last; first = next) {
    next = end_of_cluster(first, last);
    if (!is_harmless(first, next)) return true;
  }
  return false;
}

/// CheckInto, and whether it can be seen in passing that no destination meets the source of another leaf: each leaf lies behind
/// the one before it, or all sources lie apart from all destinations.
struct CheckIntoOthers {
  std::size_t leaves = 0;

  template <class Source, class Destination>
  void operator()(const Path& path, Source& source, Destination& destination) {
    CheckInto()(path, source, destination);
    ++leaves;
    if (detail::size_of(source) == 0) return;
    const ByteRange from = detail::range_of(source), to = detail::range_of(destination);
    in_order_ = in_order_ && std::min(from.begin, to.begin) >= std::max(sources_.end, destinations_.end);
    sources_.widen(from);
    destinations_.widen(to);
  }
  [[nodiscard]] bool are_apart() const noexcept { return in_order_ || !sources_.meets(destinations_); }

 private:
  struct Hull : ByteRange {
    Hull() noexcept : ByteRange{std::numeric_limits<std::intptr_t>::max(), std::numeric_limits<std::intptr_t>::min()} {}
    void widen(const ByteRange& range) noexcept {
      begin = std::min(begin, range.begin);
      end = std::max(end, range.end);
    }
  };
  Hull sources_, destinations_;  // all so far
  bool in_order_ = true;
};

struct CollectRanges {
  LeafRange* end;
  std::size_t leaf = 0;
  template <class Source, class Destination>
  void operator()(const Path&, Source& source, Destination& destination) {
    if (detail::size_of(source) != 0) {
      *end++ = {detail::range_of(source), leaf, false};
      *end++ = {detail::range_of(destination), leaf, true};
    }
    ++leaf;
  }
};

/// Looks for a destination that shares elements with the source of another leaf. Leaves whose ranges meet, as columns of one
/// matrix do, are sorted by where they lie in a row: by their addresses modulo the longest stride, and those that meet there,
/// too, modulo the next longest one. Only what meets in each is compared, one with another.
class OverlapSearch {
 public:
  std::size_t read = 0, written = 0;  ///< the leaves that were found

  template <class Source, class Destination>
  void operator()(const Path&, Source& source, Destination& destination) {
    extents_.push_back(detail::extent_of(source));
    extents_.push_back(detail::extent_of(destination));
  }

  /// Below `modulus`, what the ranges are taken modulo. Overwrites them.
  [[nodiscard]] bool finds(LeafRange* first, LeafRange* last, std::ptrdiff_t modulus, int levels = Layout::max_rank) {
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

 private:
  [[nodiscard]] const Extent& extent(const LeafRange& range) const noexcept {
    return extents_[2 * range.leaf + (range.is_destination ? 1 : 0)];
  }
  /// In bytes, of those below `limit`; 0 where there is none.
  [[nodiscard]] std::ptrdiff_t longest_stride(const LeafRange* first, const LeafRange* last, std::ptrdiff_t limit) const {
    std::ptrdiff_t longest = 0;
    for (; first != last; ++first) {
      for (int i = 0; i < extent(*first).layout.rank(); ++i) {
        const std::ptrdiff_t stride = extent(*first).stride(i);
        if (stride < limit) longest = std::max(longest, stride);
      }
    }
    return longest;
  }
  /// Counted from the first byte of all: the one leaf there is what may lie across the edge.
  void project(LeafRange* first, LeafRange* last, std::ptrdiff_t modulus) const {
    std::intptr_t origin = std::numeric_limits<std::intptr_t>::max();
    for (const LeafRange* range = first; range != last; ++range) origin = std::min(origin, extent(*range).begin());
    for (; first != last; ++first) {
      const Extent& all = extent(*first);
      first->begin = (all.begin() - origin) % modulus;
      first->end = first->begin + all.element;
      for (int i = 0; i < all.layout.rank(); ++i) {
        if (all.stride(i) % modulus != 0) first->end += (all.layout.shape(i) - 1) * all.stride(i);
      }
      if (first->end > modulus) first->begin = 0;
    }
  }
  [[nodiscard]] bool finds_pair(const LeafRange* first, const LeafRange* last) {
    for (const LeafRange* from = first; from != last; ++from) {
      for (const LeafRange* to = first; to != last; ++to) {
        if (from->is_destination || !to->is_destination || from->leaf == to->leaf) continue;
        if (!share_elements(extent(*from), extent(*to))) continue;
        read = from->leaf;
        written = to->leaf;
        return true;
      }
    }
    return false;
  }

  std::vector<Extent> extents_;  // of each leaf its source and its destination
};

struct FindPaths {
  std::size_t read, written;
  std::size_t leaf = 0;
  std::string from{}, to{};
  template <class Source, class Destination>
  void operator()(const Path& path, Source&, Destination&) {
    if (leaf == read) from = path.name();
    if (leaf == written) to = path.name();
    ++leaf;
  }
};

/// Throws std::invalid_argument, with both paths, where a leaf of the destination shares elements with another leaf of the
/// source. Up to 32 leaves are sorted without allocating.
template <class Source, class Destination>
void check_leaves_apart(std::size_t leaves, const Source& source, Destination& destination) {
  std::array<LeafRange, 64> few;
  std::vector<LeafRange> many(2 * leaves <= few.size() ? 0 : 2 * leaves);
  LeafRange* const begin = many.empty() ? few.data() : many.data();
  CollectRanges collect{begin};
  detail::walk(Path(), collect, source, destination);
  if (!some_meet(begin, collect.end)) return;
  OverlapSearch search;
  detail::walk(Path(), search, source, destination);
  if (!search.finds(begin, collect.end, std::numeric_limits<std::ptrdiff_t>::max())) return;
  FindPaths paths{search.read, search.written};
  detail::walk(Path(), paths, source, destination);
  throw_invalid_argument("the destination's " + paths.to + " overlaps the source's " + paths.from +
                         ", which would be overwritten before it is read");
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
