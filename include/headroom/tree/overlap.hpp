#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

// Whether two leaves share memory.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// The bytes of a leaf, from the lowest to behind the highest one; begin == end if it is empty.
struct ByteRange {
  std::intptr_t begin, end;
  ByteRange(std::intptr_t first, std::intptr_t behind) noexcept : begin(first), end(behind) {}
  ByteRange(const void* data, std::size_t bytes) noexcept
      : begin(reinterpret_cast<std::intptr_t>(data)), end(begin + static_cast<std::ptrdiff_t>(bytes)) {}
  [[nodiscard]] bool meets(const ByteRange& other) const noexcept { return begin < other.end && other.begin < end; }
};

/// Where the elements of a leaf lie.
struct Extent {
  std::intptr_t first;     ///< address of the first element
  std::ptrdiff_t element;  ///< bytes of each
  Layout layout;

  [[nodiscard]] bool empty() const noexcept { return layout.size() == 0; }
  /// In bytes, in either direction.
  [[nodiscard]] std::ptrdiff_t stride(int i) const noexcept { return magnitude(layout.stride(i) * element); }
  [[nodiscard]] ByteRange range() const noexcept {
    const std::intptr_t begin = first + reach(-1);
    return {begin, empty() ? begin : first + reach(1) + element};
  }

 private:
  [[nodiscard]] std::ptrdiff_t reach(int sign) const noexcept {
    std::ptrdiff_t sum = 0;
    for (int i = 0; i < layout.rank(); ++i) {
      if (layout.stride(i) * sign > 0) sum += (layout.shape(i) - 1) * layout.stride(i) * element;
    }
    return sum;
  }
};

[[nodiscard]] inline Extent extent_at(const void* data, std::size_t element, const Layout& layout) {
  return {reinterpret_cast<std::intptr_t>(data), static_cast<std::ptrdiff_t>(element), layout};
}

/// By hand, for <numeric> is worth half a percent of the time to compile all headers.
[[nodiscard]] constexpr std::ptrdiff_t common_divisor(std::ptrdiff_t a, std::ptrdiff_t b) noexcept {
  while (b != 0) {
    const std::ptrdiff_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// Looks for an element of one leaf that has a byte in common with one of the other. With all strides positive, elements
/// counted in bytes from another: is there an index x with `low <= start + x[0] * stride[0] + x[1] * stride[1] + ... <= high`?
/// From the longest stride to the shortest, only those x are tried from which the rest can still reach that range: one to three
/// in tensors that are parts of a larger one. The two ranges meet, so no x makes it start beyond `high`.
class CommonByte {
 public:
  CommonByte(const Extent& a, const Extent& b) noexcept
      : low_(1 - b.element), high_(a.element - 1), start_(b.range().begin - a.range().end + a.element) {
    // b's element at `j` minus a's at `i`, in bytes, with i counted down from the end of a.
    add(a);
    add(b);
    merge();
  }
  [[nodiscard]] bool exists() noexcept { return search(0, start_); }

 private:
  struct Dimension {
    std::ptrdiff_t stride, last;  // x goes from 0 to last
    std::ptrdiff_t rest;          // how far those after this one reach
    std::ptrdiff_t divisor;       // common to this stride and those after it
  };

  /// Behind those with longer strides.
  void add(const Extent& extent) noexcept {
    for (int i = 0; i < extent.layout.rank(); ++i) {
      if (extent.stride(i) == 0) continue;
      int place = rank_++;
      for (; place > 0 && dimensions_[place - 1].stride < extent.stride(i); --place)
        dimensions_[place] = dimensions_[place - 1];
      dimensions_[place] = {extent.stride(i), extent.layout.shape(i) - 1, 0, 0};
    }
  }
  void merge() noexcept {
    int kept = 0;
    for (int i = 1; i < rank_; ++i) {
      if (dimensions_[i].stride == dimensions_[kept].stride) {
        dimensions_[kept].last += dimensions_[i].last;
      } else {
        dimensions_[++kept] = dimensions_[i];
      }
    }
    if (rank_ > 0) rank_ = kept + 1;
    Dimension none = {0, 0, 0, 0}, *inner = &none;
    for (int i = rank_ - 1; i >= 0; --i) {
      dimensions_[i].rest = inner->rest + inner->stride * inner->last;
      dimensions_[i].divisor = common_divisor(dimensions_[i].stride, inner->divisor);
      inner = &dimensions_[i];
    }
  }
  bool search(int i, std::ptrdiff_t at) noexcept {
    if (i == rank_) return low_ <= at && at <= high_;
    const Dimension& dimension = dimensions_[i];
    const std::ptrdiff_t past = (high_ - at) % dimension.divisor;  // all that can be reached is a multiple away from `at`
    if ((past < 0 ? past + dimension.divisor : past) > high_ - low_) return false;
    const std::ptrdiff_t short_by = low_ - dimension.rest - at;
    const std::ptrdiff_t from = short_by <= 0 ? 0 : (short_by + dimension.stride - 1) / dimension.stride;
    const std::ptrdiff_t to = std::min(dimension.last, (high_ - at) / dimension.stride);
    for (std::ptrdiff_t x = from; x <= to; ++x) {
      if (--tries_ < 0 || search(i + 1, at + x * dimension.stride)) return true;
    }
    return false;
  }

  std::ptrdiff_t low_, high_, start_;
  Dimension dimensions_[2 * Layout::max_rank];
  int rank_ = 0;
  int tries_ = 10000;  // where that is not enough, as of a million elements each with unlike strides, they count as sharing
};

[[nodiscard]] inline bool share_elements(const Extent& a, const Extent& b) noexcept {
  return !a.empty() && !b.empty() && a.range().meets(b.range()) && CommonByte(a, b).exists();
}

/// Whether each element would be written where it is read, for two leaves of which one can be copied into the other.
[[nodiscard]] inline bool same_places(const Extent& a, const Extent& b) noexcept {
  bool same = a.first == b.first && a.element == b.element;
  if (a.layout.same_shape(b.layout)) {
    for (int i = 0; same && i < a.layout.rank(); ++i) same = a.layout.stride(i) == b.layout.stride(i);
  }
  return same;  // else one is flat and both have no gaps
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
