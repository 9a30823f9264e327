#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/overlap.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Of a source and a destination tree: no leaf is written where another one is read.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// The bytes of a leaf, from the first to the last.
struct LeafRange {
  std::intptr_t begin, end;
  std::size_t leaf;
  bool is_destination;
};

struct CountLeaves {
  std::size_t count = 0;
  template <class Source, class Destination>
  void operator()(const Path&, Source&, Destination&) noexcept {
    ++count;
  }
};

struct CollectRanges {
  LeafRange* next;
  std::size_t leaf = 0;
  template <class Source, class Destination>
  void operator()(const Path&, Source& source, Destination& destination) {
    add(detail::extent_of(source), false);
    add(detail::extent_of(destination), true);
    ++leaf;
  }
  void add(const Extent& extent, bool is_destination) {
    *next++ = {extent.begin(), extent.empty() ? extent.begin() : extent.end(), leaf, is_destination};
  }
};

/// Two leaves whose ranges meet: throws where they share elements.
struct CheckPair {
  std::size_t read, written;
  std::size_t leaf = 0;
  Extent from{}, to{};
  std::string from_path{}, to_path{};
  template <class Source, class Destination>
  void operator()(const Path& path, Source& source, Destination& destination) {
    if (leaf == read) {
      from = detail::extent_of(source);
      from_path = path.name();
    }
    if (leaf == written) {
      to = detail::extent_of(destination);
      to_path = path.name();
    }
    ++leaf;
  }
  void finish() const {
    if (share_elements(from, to)) {
      throw_invalid_argument("the destination's " + to_path + " overlaps the source's " + from_path +
                             ", which would be overwritten before it is read");
    }
  }
};

/// Throws std::invalid_argument, with both paths, where a leaf of the destination shares elements with another leaf of the
/// source. Sorts the leaves by their addresses; up to 32 of them without allocating.
template <class Source, class Destination>
void check_leaves_apart(const Source& source, Destination& destination) {
  CountLeaves counted;
  detail::walk(Path(), counted, source, destination);
  if (counted.count < 2) return;
  std::array<LeafRange, 64> few;
  std::vector<LeafRange> many(2 * counted.count <= few.size() ? 0 : 2 * counted.count);
  LeafRange* const begin = many.empty() ? few.data() : many.data();
  CollectRanges collect{begin};
  detail::walk(Path(), collect, source, destination);
  LeafRange* const end = collect.next;
  std::sort(begin, end, [](const LeafRange& a, const LeafRange& b) { return a.begin < b.begin; });
  for (const LeafRange* a = begin; a != end; ++a) {
    for (const LeafRange* b = a + 1; b != end && b->begin < a->end; ++b) {
      if (a->is_destination == b->is_destination || a->leaf == b->leaf) continue;
      CheckPair pair{a->is_destination ? b->leaf : a->leaf, a->is_destination ? a->leaf : b->leaf};
      detail::walk(Path(), pair, source, destination);
      pair.finish();
    }
  }
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
