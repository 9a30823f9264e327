#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/visit.hpp>

#include <cstddef>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class Leaf>
[[nodiscard]] Layout layout_of(const Leaf& leaf) {
  if constexpr (is_dtype_v<Leaf>) {
    return {};
  } else if constexpr (has_layout<Leaf>::value) {
    return tensor_traits<Leaf>::layout(leaf);
  } else {
    Layout layout;
    layout.push(static_cast<std::ptrdiff_t>(tensor_traits<Leaf>::size(leaf)), 1);
    return layout;
  }
}

/// A dimension common to two tensors; strides are in elements of each.
struct Dimension {
  std::ptrdiff_t size, source_stride, destination_stride;
};

/// The dimensions of two tensors of one shape as a loop nest: the largest stride of the destination outermost, dimensions
/// merged where both go on without a gap. A single tensor is given as both.
struct LoopNest {
  int depth = 0;
  Dimension dimensions[Layout::max_rank];

  LoopNest(const Layout& source, const Layout& destination) {
    for (int i = 0; i < destination.rank(); ++i) {
      insert({destination.shape(i), source.stride(i), destination.stride(i)});
    }
    merge();
  }
  /// One element, or elements that lie side by side in both.
  [[nodiscard]] bool is_contiguous() const noexcept {
    const auto& inner = dimensions[0];
    return depth == 0 || (depth == 1 && (inner.size == 1 || (inner.source_stride == 1 && inner.destination_stride == 1)));
  }

 private:
  static std::ptrdiff_t magnitude(std::ptrdiff_t stride) noexcept { return stride < 0 ? -stride : stride; }

  void insert(const Dimension& dimension) noexcept {
    int at = depth++;
    for (; at > 0 && magnitude(dimensions[at - 1].destination_stride) < magnitude(dimension.destination_stride); --at) {
      dimensions[at] = dimensions[at - 1];
    }
    dimensions[at] = dimension;
  }
  void merge() noexcept {
    int kept = 0;
    for (int i = 1; i < depth; ++i) {
      Dimension& outer = dimensions[kept];
      const Dimension inner = dimensions[i];
      const bool goes_on = outer.source_stride == inner.size * inner.source_stride &&
                           outer.destination_stride == inner.size * inner.destination_stride;
      if (goes_on) {
        outer = {outer.size * inner.size, inner.source_stride, inner.destination_stride};
      } else {
        dimensions[++kept] = inner;
      }
    }
    if (depth > 0) depth = kept + 1;
  }
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
