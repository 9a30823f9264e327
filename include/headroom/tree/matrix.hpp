#pragma once

#include <headroom/tree/tensor_traits.hpp>

#include <cstddef>
#include <type_traits>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// `rows` x `columns` elements at `data`, row-major without gaps, not owned: a leaf.
template <class T>
class matrix {
 public:
  constexpr matrix(T* data, std::size_t rows, std::size_t columns) noexcept : data_(data), rows_(rows), columns_(columns) {}

  [[nodiscard]] constexpr T* data() const noexcept { return data_; }
  [[nodiscard]] constexpr std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] constexpr std::size_t columns() const noexcept { return columns_; }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return rows_ * columns_; }

 private:
  T* data_;
  std::size_t rows_, columns_;
};

template <class T>
struct tensor_traits<matrix<T>, std::enable_if_t<is_dtype_v<T>>> : detail::contiguous_tensor<T> {
  static constexpr bool is_view = true;
  static Layout layout(const matrix<T>& matrix) noexcept {
    Layout layout;
    layout.push(static_cast<std::ptrdiff_t>(matrix.rows()), static_cast<std::ptrdiff_t>(matrix.columns()));
    layout.push(static_cast<std::ptrdiff_t>(matrix.columns()), 1);
    return layout;
  }
};

HEADROOM_DETAIL_END_NAMESPACE
