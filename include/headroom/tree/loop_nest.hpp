#pragma once

#include <headroom/tree/tensor_traits.hpp>

#include <cstdlib>
#include <cstring>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
/// A dimension of two tensors, with the strides of both in elements.
struct Dimension {
  std::ptrdiff_t size, source_stride, destination_stride;
};

/// The dimensions of two tensors of one shape as a loop nest, with the largest stride of the
/// destination outermost. Two dimensions are merged if neither tensor has a gap between them. For a
/// single tensor, pass its layout twice.
struct LoopNest {
  int depth = 0;
  Dimension dimensions[Layout::max_rank];
  LoopNest(const Layout& source, const Layout& destination) {
    if (destination.size() == 0) return;  // strides may be anything
    for (int i = 0; i < destination.rank(); ++i)
      insert({destination.shape(i), source.stride(i), destination.stride(i)});
    merge();
  }
  [[nodiscard]] bool is_contiguous() const noexcept {
    const auto& inner = dimensions[0];
    return depth == 0 || (depth == 1 && inner.source_stride == 1 && inner.destination_stride == 1);
  }
  /// Whether a stride of the destination is not longer than the span of all shorter ones, as in a
  /// broadcast tensor or in overlapping windows. Then two positions may be one element. No view of
  /// a dense tensor has such strides.
  [[nodiscard]] bool may_repeat_elements() const noexcept {
    std::ptrdiff_t span = 0;  // from the first to the last element along the dimensions so far
    for (int i = depth - 1; i >= 0; --i) {
      const std::ptrdiff_t stride = std::abs(dimensions[i].destination_stride);
      if (stride <= span) return true;
      span += (dimensions[i].size - 1) * stride;
    }
    return false;
  }
  [[nodiscard]] bool has_equal_strides() const noexcept {
    bool equal = true;
    for (int i = 0; i < depth; ++i)
      equal = equal && dimensions[i].source_stride == dimensions[i].destination_stride;
    return equal;
  }

 private:
  void insert(const Dimension& dimension) noexcept {
    int at = depth++;
    for (; at > 0 &&
           std::abs(dimensions[at - 1].destination_stride) < std::abs(dimension.destination_stride);
         --at)
      dimensions[at] = dimensions[at - 1];
    dimensions[at] = dimension;
  }
  void merge() noexcept {
    int kept = 0;
    for (int i = 1; i < depth; ++i) {
      Dimension& outer = dimensions[kept];
      const Dimension inner = dimensions[i];
      const bool is_mergeable = outer.source_stride == inner.size * inner.source_stride &&
                                outer.destination_stride == inner.size * inner.destination_stride;
      if (is_mergeable)
        outer = {outer.size * inner.size, inner.source_stride, inner.destination_stride};
      if (!is_mergeable) dimensions[++kept] = inner;
    }
    if (depth > 0) depth = kept + 1;
  }
};

/// Iterates over the sources or the destinations of a strided leaf, in the order of its loop nest.
class StridedElements {
 public:
  /// `stride` selects sources or destinations. `first` is the address of element 0. Copies from
  /// element `begin` on.
  [[gnu::noinline]] StridedElements(const Dimension* dimensions, int depth,
                                    std::ptrdiff_t Dimension::*stride, std::size_t bytes,
                                    const void* first, std::size_t begin = 0) noexcept
      : dimensions_(dimensions),
        inner_(depth - 1),
        stride_(stride),
        bytes_(static_cast<std::ptrdiff_t>(bytes)),
        at_(static_cast<unsigned char*>(const_cast<void*>(first))) {
    auto rest = static_cast<std::ptrdiff_t>(begin);
    for (int i = inner_; i >= 0; rest /= dimensions_[i--].size) move(i, rest % dimensions_[i].size);
  }
  /// Copies the next `n` elements into a contiguous buffer, or out of it if `gathers` is false.
  void copy(unsigned char* buffer, std::size_t n, bool gathers) noexcept {
    const std::ptrdiff_t stride = dimensions_[inner_].*stride_ * bytes_;
    for (auto left = static_cast<std::ptrdiff_t>(n); left > 0;) {
      const std::ptrdiff_t inner_left = dimensions_[inner_].size - index_[inner_],
                           count = left < inner_left ? left : inner_left;
      if (gathers) copy_strided(buffer, bytes_, at_, stride, count);
      if (!gathers) copy_strided(at_, stride, buffer, bytes_, count);
      buffer += count * bytes_;
      left -= count;
      int i = inner_;
      move(i, count);
      while (i > 0 && index_[i] == dimensions_[i].size) {  // carry into the next dimension
        move(i, -index_[i]);
        move(--i, 1);
      }
    }
  }

 private:
  void move(int i, std::ptrdiff_t n) noexcept {
    index_[i] += n;
    at_ += n * dimensions_[i].*stride_ * bytes_;
  }
  /// Elements of 1, 2, 4 or 8 bytes.
  void copy_strided(unsigned char* to, std::ptrdiff_t to_step, const unsigned char* from,
                    std::ptrdiff_t from_step, std::ptrdiff_t count) const noexcept {
    if (to_step == from_step)
      return (void)std::memcpy(to, from, static_cast<std::size_t>(count * bytes_));
    const auto copy_each = [&](auto bytes) {
      for (; count > 0; --count, to += to_step, from += from_step)
        std::memcpy(to, from, sizeof bytes);
    };
    if (bytes_ == 1) return copy_each(std::uint8_t{});
    if (bytes_ == 2) return copy_each(std::uint16_t{});
    if (bytes_ == 4) return copy_each(std::uint32_t{});
    copy_each(std::uint64_t{});
  }

  const Dimension* dimensions_;
  int inner_;
  std::ptrdiff_t Dimension::*stride_;
  std::ptrdiff_t bytes_;
  unsigned char* at_;
  std::ptrdiff_t index_[Layout::max_rank] = {};
};
}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
