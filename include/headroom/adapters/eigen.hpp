#pragma once

#include <headroom/config.hpp>
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
// Block and whatever else has storage, with any strides; an expression (a + b) has none and is refused at compile time: call
// .eval(). Of sparse types the stored values are walked. Tensor, TensorMap and TensorFixedSize are leaves if
// unsupported/Eigen/CXX11/Tensor is included as well. New tensors are Matrix, Array, SparseMatrix, SparseVector or Tensor of
// the same storage order.

// Declared, not included: the Tensor module is large, and few use it.
namespace Eigen {
template <typename Scalar, int NumIndices, int Options, typename IndexType>
class Tensor;
template <typename Scalar, typename Dimensions, int Options, typename IndexType>
class TensorFixedSize;
template <typename PlainObjectType, int Options, template <class> class MakePointer>
class TensorMap;
}  // namespace Eigen

namespace headroom {
inline namespace HEADROOM_BUILD {

template <>
struct dtype_traits<Eigen::half> {
  using format = binary16;
};
template <>
struct dtype_traits<Eigen::bfloat16> {
  using format = brain16;
};

namespace detail::eigen {

// Detected by conversion to the base, because a VectorBlock derives from the DenseBase of another type, its Block, and because
// users derive classes from Matrix.
template <class Derived>
Derived* dense_base(const Eigen::DenseBase<Derived>*);
void dense_base(...);
template <class T>
using dense_base_t = std::remove_pointer_t<decltype(eigen::dense_base(static_cast<std::remove_reference_t<T>*>(nullptr)))>;
template <class T>
inline constexpr bool is_dense = !std::is_void_v<dense_base_t<T>>;
template <class T>
inline constexpr bool is_plain = std::is_base_of_v<Eigen::PlainObjectBase<dense_base_t<T>>, dense_base_t<T>>;
template <class T>
inline constexpr unsigned flags = static_cast<unsigned>(Eigen::internal::traits<dense_base_t<T>>::Flags);

template <class T>
using data_t = decltype(std::declval<const T&>().data());
/// An IndexedView has the bit and no data().
template <class T>
inline constexpr bool has_elements = is_detected_v<data_t, T> && (flags<T> & unsigned{Eigen::DirectAccessBit}) != 0;

template <class Plain, class To>
struct with_scalar;
template <template <class, int, int, int, int, int> class Dense, class S, int R, int C, int O, int MR, int MC, class To>
struct with_scalar<Dense<S, R, C, O, MR, MC>, To> {
  using type = Dense<To, R, C, O, MR, MC>;
};
template <class S, int Rank, int O, class Index, class To>
struct with_scalar<Eigen::Tensor<S, Rank, O, Index>, To> {
  using type = Eigen::Tensor<To, Rank, O, Index>;
};
template <class S, class Dimensions, int O, class Index, class To>
struct with_scalar<Eigen::TensorFixedSize<S, Dimensions, O, Index>, To> {
  using type = Eigen::TensorFixedSize<To, Dimensions, O, Index>;
};

template <class Result, class T>
using resize_t = decltype(std::declval<Result&>().resize(std::declval<const T&>().dimensions()));

/// Tensors and views of them, of which new ones are like Plain.
template <class Plain>
struct tensor_of : contiguous_tensor<typename Plain::Scalar> {
  template <class T>
  static headroom::Layout layout(const T& tensor) {
    constexpr bool row_major = static_cast<int>(Plain::Layout) == static_cast<int>(Eigen::RowMajor);
    constexpr auto rank = static_cast<unsigned>(Plain::NumDimensions);
    const auto dimensions = tensor.dimensions();
    headroom::Layout layout;
    for (unsigned i = 0; i < rank; ++i) {
      std::ptrdiff_t stride = 1;
      for (unsigned j = row_major ? i + 1 : 0; j < (row_major ? rank : i); ++j)
        stride *= static_cast<std::ptrdiff_t>(dimensions[j]);
      layout.push(static_cast<std::ptrdiff_t>(dimensions[i]), stride);
    }
    return layout;
  }
  template <class To>
  using rebind = typename with_scalar<Plain, To>::type;
  template <class To, class T>
  static rebind<To> like(const T& tensor) {
    rebind<To> result;
    if constexpr (is_detected_v<resize_t, rebind<To>, T>) result.resize(tensor.dimensions());
    return result;
  }
};

/// A sparse vector is always compressed and has no outer indices.
template <template <class, int, class> class Sparse, class S, int Options, class Index>
struct sparse_tensor {
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
  template <class S2, int Options2, class Index2>
  static bool same_structure(const sparse& a, const Sparse<S2, Options2, Index2>& b) {
    constexpr bool same_order = bool{sparse::IsRowMajor} == bool{Sparse<S2, Options2, Index2>::IsRowMajor};
    const Index* outer = a.outerIndexPtr();
    return same_order && a.rows() == b.rows() && a.cols() == b.cols() && a.nonZeros() == b.nonZeros() &&
           (outer == nullptr || std::equal(outer, outer + a.outerSize() + 1, b.outerIndexPtr())) &&
           std::equal(a.innerIndexPtr(), a.innerIndexPtr() + a.nonZeros(), b.innerIndexPtr());
  }
  template <class Other>
  static bool same_structure(const sparse&, const Other&) {
    return false;
  }
};

}  // namespace detail::eigen

/// Dense matrices and arrays, and views of them.
template <class T>
struct tensor_traits<T, std::enable_if_t<detail::eigen::is_dense<T>>> {
  static constexpr bool has_elements = detail::eigen::has_elements<T>;
  static_assert(
      has_elements,
      "headroom: an Eigen expression has no elements in memory to work on, or not at regular distances: call .eval() on it");
  static_assert(
      sizeof(T) == sizeof(detail::eigen::dense_base_t<T>) || std::is_same_v<T, detail::eigen::dense_base_t<T>>,
      "headroom: this class is derived from one of Eigen and has members of its own, which would be left out: make the "
      "matrix a member, too, and write HEADROOM_TREE(Type, matrix, member, ...)");
  using value_type = std::remove_const_t<typename T::Scalar>;
  using plain = typename T::PlainObject;
  static constexpr bool is_view = !detail::eigen::is_plain<T>;

  template <class Dense>
  static auto* data(Dense& dense) {
    if constexpr (!has_elements) {
      return static_cast<value_type*>(nullptr);
    } else if constexpr (is_view) {
      // A view is as const as what it looks at, not as its own variable.
      return static_cast<element*>(const_cast<value_type*>(dense.data()));
    } else {
      return dense.data();
    }
  }
  static std::size_t size(const T& dense) { return static_cast<std::size_t>(dense.size()); }
  static Layout layout(const T& dense) {
    constexpr bool row_major = static_cast<bool>(T::IsRowMajor);
    const auto inner = static_cast<std::ptrdiff_t>(dense.innerStride());
    const auto outer = static_cast<std::ptrdiff_t>(dense.outerStride());
    Layout layout;
    layout.push(static_cast<std::ptrdiff_t>(dense.rows()), row_major ? outer : inner);
    layout.push(static_cast<std::ptrdiff_t>(dense.cols()), row_major ? inner : outer);
    return layout;
  }

  template <class To>
  using rebind = typename detail::eigen::with_scalar<plain, To>::type;
  template <class To>
  static rebind<To> like(const T& dense) {
    rebind<To> result;
    result.resize(dense.rows(), dense.cols());
    return result;
  }

 private:
  static constexpr bool is_writable = (detail::eigen::flags<T> & unsigned{Eigen::LvalueBit}) != 0;
  using element = std::conditional_t<is_writable, value_type, const value_type>;
};

/// The stored values of a compressed sparse matrix. An uncompressed one has gaps between them that hold no values:
/// std::invalid_argument; call makeCompressed().
template <class S, int Options, class Index>
struct tensor_traits<Eigen::SparseMatrix<S, Options, Index>>
    : detail::eigen::sparse_tensor<Eigen::SparseMatrix, S, Options, Index> {};
template <class S, int Options, class Index>
struct tensor_traits<Eigen::SparseVector<S, Options, Index>>
    : detail::eigen::sparse_tensor<Eigen::SparseVector, S, Options, Index> {};

template <class S, int Rank, int Options, class Index>
struct tensor_traits<Eigen::Tensor<S, Rank, Options, Index>>
    : detail::eigen::tensor_of<Eigen::Tensor<S, Rank, Options, Index>> {};
template <class S, class Dimensions, int Options, class Index>
struct tensor_traits<Eigen::TensorFixedSize<S, Dimensions, Options, Index>>
    : detail::eigen::tensor_of<Eigen::TensorFixedSize<S, Dimensions, Options, Index>> {};
/// A view; new tensors are Tensors.
template <class Plain, int Options, template <class> class MakePointer>
struct tensor_traits<Eigen::TensorMap<Plain, Options, MakePointer>>
    : detail::eigen::tensor_of<
          Eigen::Tensor<std::remove_const_t<typename Plain::Scalar>, static_cast<int>(Plain::NumDimensions),
                        static_cast<int>(Plain::Layout), typename Plain::Index>> {
  static constexpr bool is_view = true;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
