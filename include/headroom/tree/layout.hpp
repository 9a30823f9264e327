#pragma once

#include <headroom/detail/error.hpp>

#include <cstddef>
#include <string>

namespace headroom {

/// Shape and strides of a tensor, in elements, dimensions in their logical order. Dimensions of one element are left out: they
/// say nothing about where elements lie, and a 5 x 1 matrix is as good a place for a vector of 5 as any.
class Layout {
 public:
  static constexpr int max_rank = 16;

  /// Appends a dimension. Throws std::invalid_argument above max_rank.
  void push(std::ptrdiff_t size, std::ptrdiff_t stride) {
    if (size == 1) return;
    if (rank_ == max_rank) {
      detail::throw_invalid_argument("a tensor has more than " + std::to_string(max_rank) + " dimensions");
    }
    shape_[rank_] = size;
    strides_[rank_] = stride;
    ++rank_;
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
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

  /// Whether two positions may be one element: what broadcasting makes. Such a tensor cannot be written element by element.
  [[nodiscard]] bool repeats_elements() const noexcept {
    bool any = false;
    for (int i = 0; i < rank_; ++i) any = any || strides_[i] == 0;  // there are no dimensions of one element here
    return any && size() > 0;
  }

  /// As people write it: 2x3; "scalar" without dimensions.
  [[nodiscard]] std::string shape_text() const {
    std::string text;
    for (int i = 0; i < rank_; ++i) text += (i == 0 ? "" : "x") + std::to_string(shape_[i]);
    return text.empty() ? "scalar" : text;
  }

 private:
  int rank_ = 0;
  std::ptrdiff_t shape_[max_rank];  // the first rank_ of each are set
  std::ptrdiff_t strides_[max_rank];
};

}  // namespace headroom
