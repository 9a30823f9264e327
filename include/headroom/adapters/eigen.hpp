#pragma once

#include <headroom/detail/detect.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/tree/tensor_traits.hpp>

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

// Eigen's dense and sparse types as leaves, Eigen::half and Eigen::bfloat16 as dtypes. Dense types are Matrix, Array, Map, Ref,
// Block, Tensor, TensorMap and all others with elements in memory, with any strides; an expression (a + b) has none: call
// .eval(). Of sparse types the stored values are walked. New tensors are Matrix, Array, Tensor, SparseMatrix or
// SparseVector of the same storage order.

HEADROOM_DETAIL_BEGIN_NAMESPACE

template <>
struct dtype_traits<Eigen::half> : detail::has_format<binary16> {};
template <>
struct dtype_traits<Eigen::bfloat16> : detail::has_format<brain16> {};

namespace detail::eigen {

// Detected by their members. A VectorBlock derives from the DenseBase of another type, its Block; and the Tensor module, which
// is large and which few use, need not be included.
template <class T>
using dense_t = std::void_t<typename T::PlainObject, decltype(std::declval<const T&>().colwise())>;
template <class T>
using strided_t = std::enable_if_t<(static_cast<unsigned>(T::Flags) & unsigned{Eigen::DirectAccessBit}) != 0,
                                   decltype(std::declval<const T&>().data())>;
template <class T>
using tensor_t = decltype(std::declval<const T&>().data(), std::declval<const T&>().dimensions(), T::NumDimensions + T::Layout);

/// The type of T, or of what the map T looks at, with elements of To.
template <class T, class To>
struct with_scalar;
template <template <class, int, int, int, int, int> class Dense, class S, int R, int C, int O, int MR, int MC, class To>
struct with_scalar<Dense<S, R, C, O, MR, MC>, To> {
  using type = Dense<To, R, C, O, MR, MC>;
};
template <template <class, int, int, class> class Tensor, class S, int Rank, int O, class Index, class To>
struct with_scalar<Tensor<S, Rank, O, Index>, To> {
  using type = Tensor<To, Rank, O, Index>;
};
template <template <class, class, int, class> class FixedTensor, class S, class Sizes, int O, class Index, class To>
struct with_scalar<FixedTensor<S, Sizes, O, Index>, To> {
  using type = FixedTensor<To, Sizes, O, Index>;
};
template <template <class, int, template <class> class> class Map, class T, int O, template <class> class Pointer, class To>
struct with_scalar<Map<T, O, Pointer>, To> : with_scalar<std::remove_const_t<T>, To> {};

template <class T, class Plain>
struct elements {
  using value_type = std::remove_const_t<typename T::Scalar>;
  static constexpr bool is_view = !std::is_base_of_v<Plain, T>;
  template <class To>
  using rebind = typename with_scalar<Plain, To>::type;

  template <class Self>
  static auto* data(Self& self) {
    // A view is as const as what it looks at, not as its own variable.
    return const_cast<std::conditional_t<is_view, T, Self>&>(self).data();
  }
  static std::size_t size(const T& self) { return static_cast<std::size_t>(self.size()); }
  template <class To>
  static rebind<To> like(const T& self) {
    rebind<To> result;
    if constexpr (is_detected_v<dense_t, T>) {
      result.resizeLike(self);
    } else if constexpr (std::is_constructible_v<rebind<To>, decltype(self.dimensions())>) {  // its sizes are no constants
      result.resize(self.dimensions());
    }
    return result;
  }
};

}  // namespace detail::eigen

template <class T>
struct tensor_traits<T, std::enable_if_t<detail::is_detected_v<detail::eigen::dense_t, T>>>
    : detail::eigen::elements<T, typename T::PlainObject> {
  static_assert(
      detail::is_detected_v<detail::eigen::strided_t, T>,
      "headroom: an Eigen expression has no elements in memory to work on, or not at regular distances: call .eval() on it");
  static Layout layout(const T& dense) {
    Layout layout;
    layout.push(dense.rows(), T::IsRowMajor ? dense.outerStride() : dense.innerStride());
    layout.push(dense.cols(), T::IsRowMajor ? dense.innerStride() : dense.outerStride());
    return layout;
  }
};

/// Tensor, TensorFixedSize and TensorMap.
template <class T>
struct tensor_traits<T, std::enable_if_t<detail::is_detected_v<detail::eigen::tensor_t, T>>>
    : detail::eigen::elements<T, typename detail::eigen::with_scalar<T, std::remove_const_t<typename T::Scalar>>::type> {
  static Layout layout(const T& tensor) {
    constexpr auto rank = static_cast<unsigned>(T::NumDimensions);
    constexpr bool row_major = static_cast<int>(T::Layout) == static_cast<int>(Eigen::RowMajor);
    const auto sizes = tensor.dimensions();
    Layout layout;
    for (unsigned i = 0; i < rank; ++i) {
      std::ptrdiff_t stride = 1;
      for (unsigned j = row_major ? i + 1 : 0; j < (row_major ? rank : i); ++j) stride *= sizes[j];
      layout.push(sizes[i], stride);
    }
    return layout;
  }
};

/// The stored values of a compressed sparse matrix, or of a sparse vector, which is always compressed and has no outer indices.
/// An uncompressed matrix has gaps between them that hold no values: std::invalid_argument; call makeCompressed().
template <template <class, int, class> class Sparse, class S, int Options, class Index>
struct tensor_traits<Sparse<S, Options, Index>,
                     std::enable_if_t<std::is_same_v<Sparse<S, Options, Index>, Eigen::SparseMatrix<S, Options, Index>> ||
                                      std::is_same_v<Sparse<S, Options, Index>, Eigen::SparseVector<S, Options, Index>>>> {
  using value_type = S;
  using sparse = Sparse<S, Options, Index>;
  static constexpr bool is_view = false;

  template <class T>
  static auto* data(T& tensor) {
    return tensor.valuePtr();
  }
  static std::size_t size(const sparse& tensor) { return static_cast<std::size_t>(tensor.nonZeros()); }
  static const char* obstacle(const sparse& tensor) {
    return tensor.isCompressed() ? nullptr : "is a sparse matrix that is not compressed: call makeCompressed() on it";
  }
  template <class To>
  using rebind = Sparse<To, Options, Index>;
  template <class To>
  static rebind<To> like(const sparse& tensor) {
    rebind<To> result(tensor.rows(), tensor.cols());
    result.resizeNonZeros(tensor.nonZeros());
    if (const Index* outer = tensor.outerIndexPtr()) std::copy_n(outer, tensor.outerSize() + 1, result.outerIndexPtr());
    std::copy_n(tensor.innerIndexPtr(), tensor.nonZeros(), result.innerIndexPtr());
    return result;
  }
  /// The same rows and columns, with the values in the same places in memory.
  template <class S2>
  static bool same_structure(const sparse& a, const Sparse<S2, Options, Index>& b) {
    const Index* outer = a.outerIndexPtr();
    return a.rows() == b.rows() && a.cols() == b.cols() && a.nonZeros() == b.nonZeros() &&
           (outer == nullptr || std::equal(outer, outer + a.outerSize() + 1, b.outerIndexPtr())) &&
           std::equal(a.innerIndexPtr(), a.innerIndexPtr() + a.nonZeros(), b.innerIndexPtr());
  }
  template <class Other>
  static bool same_structure(const sparse&, const Other&) {
    return false;
  }
};

HEADROOM_DETAIL_END_NAMESPACE
