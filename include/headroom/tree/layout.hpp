#pragma once

#include <headroom/detail/error.hpp>

#include <cstddef>
#include <cstdlib>
#include <string>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// Shape and strides of a tensor in elements, with the dimensions in their logical order. Dimensions of size 1 are left out,
/// because they do not change the positions of elements: a 5 x 1 matrix has the layout of a vector of 5.
class Layout {
 public:
  static constexpr int max_rank = 16;

  /// Appends a dimension. Dimensions beyond max_rank are only counted. Verbs then throw std::invalid_argument, naming the leaf.
  void push(std::ptrdiff_t size, std::ptrdiff_t stride) noexcept {
    if (size == 1) return;
    if (rank_ == max_rank) {
      ++excess_;
      return;
    }
    shape_[rank_] = size;
    strides_[rank_] = stride;
    ++rank_;
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// Number of dimensions beyond max_rank.
  [[nodiscard]] int excess() const noexcept { return excess_; }
  [[nodiscard]] std::ptrdiff_t shape(int i) const noexcept { return shape_[i]; }
  [[nodiscard]] std::ptrdiff_t stride(int i) const noexcept { return strides_[i]; }

  /// Number of elements; 1 for a scalar.
  [[nodiscard]] std::ptrdiff_t size() const noexcept {
    std::ptrdiff_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= shape_[i];
    return product;
  }

  [[nodiscard]] bool same_shape(const Layout& other) const noexcept {
    bool same = rank_ == other.rank_;
    for (int i = 0; same && i < rank_; ++i) same = shape_[i] == other.shape_[i];
    return same;
  }

  /// The shape as text, such as 2x3; "scalar" if there are no dimensions.
  [[nodiscard]] std::string shape_text() const {
    std::string text;
    for (int i = 0; i < rank_; ++i) text += detail::concat({i == 0 ? "" : "x", std::to_string(shape_[i])});
    return text.empty() ? "scalar" : text;
  }

 private:
  int rank_ = 0, excess_ = 0;
  std::ptrdiff_t shape_[max_rank];  // the first rank_ of each are set
  std::ptrdiff_t strides_[max_rank];
};

namespace detail {

/// A dimension of two tensors, with the strides of both in elements.
struct Dimension {
  std::ptrdiff_t size, source_stride, destination_stride;
};

/// The dimensions of two tensors of one shape as a loop nest, with the largest stride of the destination outermost. Two
/// dimensions are merged if neither tensor has a gap between them. For a single tensor, pass its layout twice.
struct LoopNest {
  int depth = 0;
  Dimension dimensions[Layout::max_rank];

  LoopNest(const Layout& source, const Layout& destination) {
    for (int i = 0; i < destination.rank(); ++i) {
      insert({destination.shape(i), source.stride(i), destination.stride(i)});
    }
    merge();
  }
  /// Whether the elements are contiguous in both tensors.
  [[nodiscard]] bool is_contiguous() const noexcept {
    const auto& inner = dimensions[0];
    return depth == 0 || (depth == 1 && inner.source_stride == 1 && inner.destination_stride == 1);
  }
  /// Whether two positions of the destination may be the same element, as in a broadcast tensor or in overlapping windows. Such
  /// a tensor cannot be written element by element. False only if each stride is longer than the span of all shorter ones. So a
  /// few layouts that repeat nothing count as repeating. The destination must have elements.
  [[nodiscard]] bool repeats_elements() const noexcept {
    std::ptrdiff_t span = 0;  // from the first to the last element along the dimensions so far
    for (int i = depth - 1; i >= 0; --i) {
      const std::ptrdiff_t stride = std::abs(dimensions[i].destination_stride);
      if (stride <= span) return true;
      span += (dimensions[i].size - 1) * stride;
    }
    return false;
  }

 private:
  void insert(const Dimension& dimension) noexcept {
    int at = depth++;
    for (; at > 0 && std::abs(dimensions[at - 1].destination_stride) < std::abs(dimension.destination_stride); --at) {
      dimensions[at] = dimensions[at - 1];
    }
    dimensions[at] = dimension;
  }
  void merge() noexcept {
    int kept = 0;
    for (int i = 1; i < depth; ++i) {
      Dimension& outer = dimensions[kept];
      const Dimension inner = dimensions[i];
      const bool is_mergeable = outer.source_stride == inner.size * inner.source_stride &&
                                outer.destination_stride == inner.size * inner.destination_stride;
      if (is_mergeable) {
        outer = {outer.size * inner.size, inner.source_stride, inner.destination_stride};
      } else {
        dimensions[++kept] = inner;
      }
    }
    if (depth > 0) depth = kept + 1;
  }
};

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
