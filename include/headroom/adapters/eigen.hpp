#pragma once

#include <headroom/config.hpp>
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
using dense_base_t = std::remove_pointer_t<decltype(dense_base(static_cast<std::remove_reference_t<T>*>(nullptr)))>;
template <class T>
inline constexpr bool is_dense = !std::is_void_v<dense_base_t<T>>;
template <class T>
inline constexpr bool is_plain = std::is_base_of_v<Eigen::PlainObjectBase<dense_base_t<T>>, dense_base_t<T>>;
template <class T>
inline constexpr unsigned flags = static_cast<unsigned>(Eigen::internal::traits<dense_base_t<T>>::Flags);

/// An IndexedView has the bit and no data().
template <class T, class = void>
struct has_elements : std::false_type {};
template <class T>
struct has_elements<T, std::void_t<decltype(std::declval<const T&>().data())>>
    : std::bool_constant<(flags<T> & static_cast<unsigned>(Eigen::DirectAccessBit)) != 0> {};

template <class Plain, class To>
struct with_scalar;
template <class S, int R, int C, int O, int MR, int MC, class To>
struct with_scalar<Eigen::Matrix<S, R, C, O, MR, MC>, To> {
  using type = Eigen::Matrix<To, R, C, O, MR, MC>;
};
template <class S, int R, int C, int O, int MR, int MC, class To>
struct with_scalar<Eigen::Array<S, R, C, O, MR, MC>, To> {
  using type = Eigen::Array<To, R, C, O, MR, MC>;
};

/// Both orders of a tensor of rank N with dimensions `dimension(i)`.
template <class T>
Layout tensor_layout(const T& tensor, bool row_major) {
  Layout layout;
  const auto dimensions = tensor.dimensions();
  constexpr auto rank = static_cast<unsigned>(T::NumDimensions);
  for (unsigned i = 0; i < rank; ++i) {
    std::ptrdiff_t stride = 1;
    for (unsigned j = row_major ? i + 1 : 0; j < (row_major ? rank : i); ++j)
      stride *= static_cast<std::ptrdiff_t>(dimensions[j]);
    layout.push(static_cast<std::ptrdiff_t>(dimensions[i]), stride);
  }
  return layout;
}

template <class Plain>
struct tensor_base {
  using value_type = std::remove_const_t<typename Plain::Scalar>;
  template <class T>
  static auto* data(T& tensor) {
    return tensor.data();
  }
  template <class T>
  static std::size_t size(const T& tensor) {
    return static_cast<std::size_t>(tensor.size());
  }
  template <class T>
  static Layout layout(const T& tensor) {
    return tensor_layout(tensor, static_cast<int>(Plain::Layout) == static_cast<int>(Eigen::RowMajor));
  }
};

}  // namespace detail::eigen

/// Dense matrices and arrays, and views of them.
template <class T>
struct tensor_traits<T, std::enable_if_t<detail::eigen::is_dense<T>>> {
  static constexpr bool has_elements = detail::eigen::has_elements<T>::value;
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
    } else if constexpr (!is_writable) {
      return static_cast<const value_type*>(dense.data());
    } else if constexpr (is_view) {
      // A view is as const as what it looks at, not as its own variable.
      return const_cast<value_type*>(dense.data());
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
  static constexpr bool is_writable = (detail::eigen::flags<T> & static_cast<unsigned>(Eigen::LvalueBit)) != 0;
};

/// The stored values of a compressed sparse matrix. An uncompressed one has unused gaps between them and is a
/// std::invalid_argument: call makeCompressed().
template <class S, int Options, class Index>
struct tensor_traits<Eigen::SparseMatrix<S, Options, Index>> {
  using value_type = S;
  using matrix = Eigen::SparseMatrix<S, Options, Index>;

  template <class Matrix>
  static auto* data(Matrix& sparse) {
    return sparse.valuePtr();
  }
  static std::size_t size(const matrix& sparse) { return static_cast<std::size_t>(sparse.nonZeros()); }
  static const char* obstacle(const matrix& sparse) {
    return sparse.isCompressed() ? nullptr : "is a sparse matrix that is not compressed: call makeCompressed() on it";
  }
  template <class To>
  using rebind = Eigen::SparseMatrix<To, Options, Index>;
  template <class To>
  static rebind<To> like(const matrix& sparse) {
    rebind<To> result(sparse.rows(), sparse.cols());
    result.resizeNonZeros(sparse.nonZeros());
    std::copy_n(sparse.outerIndexPtr(), sparse.outerSize() + 1, result.outerIndexPtr());
    std::copy_n(sparse.innerIndexPtr(), sparse.nonZeros(), result.innerIndexPtr());
    return result;
  }
  /// Whether rows and columns are the same, and values are stored in the same places.
  template <class S2, int Options2, class Index2>
  static bool same_structure(const matrix& a, const Eigen::SparseMatrix<S2, Options2, Index2>& b) {
    constexpr bool same_order = bool{matrix::IsRowMajor} == bool{Eigen::SparseMatrix<S2, Options2, Index2>::IsRowMajor};
    return same_order && a.rows() == b.rows() && a.cols() == b.cols() && a.nonZeros() == b.nonZeros() &&
           std::equal(a.outerIndexPtr(), a.outerIndexPtr() + a.outerSize() + 1, b.outerIndexPtr()) &&
           std::equal(a.innerIndexPtr(), a.innerIndexPtr() + a.nonZeros(), b.innerIndexPtr());
  }
  template <class Other>
  static bool same_structure(const matrix&, const Other&) {
    return false;
  }
};

/// The stored values of a sparse vector.
template <class S, int Options, class Index>
struct tensor_traits<Eigen::SparseVector<S, Options, Index>> {
  using value_type = S;
  using vector = Eigen::SparseVector<S, Options, Index>;

  template <class Vector>
  static auto* data(Vector& sparse) {
    return sparse.valuePtr();
  }
  static std::size_t size(const vector& sparse) { return static_cast<std::size_t>(sparse.nonZeros()); }
  template <class To>
  using rebind = Eigen::SparseVector<To, Options, Index>;
  template <class To>
  static rebind<To> like(const vector& sparse) {
    rebind<To> result(sparse.size());
    result.resizeNonZeros(sparse.nonZeros());
    std::copy_n(sparse.innerIndexPtr(), sparse.nonZeros(), result.innerIndexPtr());
    return result;
  }
  template <class S2, int Options2, class Index2>
  static bool same_structure(const vector& a, const Eigen::SparseVector<S2, Options2, Index2>& b) {
    return a.size() == b.size() && a.nonZeros() == b.nonZeros() &&
           std::equal(a.innerIndexPtr(), a.innerIndexPtr() + a.nonZeros(), b.innerIndexPtr());
  }
  template <class Other>
  static bool same_structure(const vector&, const Other&) {
    return false;
  }
};

template <class S, int Rank, int Options, class Index>
struct tensor_traits<Eigen::Tensor<S, Rank, Options, Index>>
    : detail::eigen::tensor_base<Eigen::Tensor<S, Rank, Options, Index>> {
  template <class To>
  using rebind = Eigen::Tensor<To, Rank, Options, Index>;
  template <class To>
  static rebind<To> like(const Eigen::Tensor<S, Rank, Options, Index>& tensor) {
    return rebind<To>(tensor.dimensions());
  }
};
template <class S, class Dimensions, int Options, class Index>
struct tensor_traits<Eigen::TensorFixedSize<S, Dimensions, Options, Index>>
    : detail::eigen::tensor_base<Eigen::TensorFixedSize<S, Dimensions, Options, Index>> {
  template <class To>
  using rebind = Eigen::TensorFixedSize<To, Dimensions, Options, Index>;
  template <class To>
  static rebind<To> like(const Eigen::TensorFixedSize<S, Dimensions, Options, Index>&) {
    return rebind<To>();
  }
};
/// A view; new tensors are Tensors.
template <class Plain, int Options, template <class> class MakePointer>
struct tensor_traits<Eigen::TensorMap<Plain, Options, MakePointer>>
    : detail::eigen::tensor_base<Eigen::TensorMap<Plain, Options, MakePointer>> {
  using map = Eigen::TensorMap<Plain, Options, MakePointer>;
  static constexpr bool is_view = true;
  template <class To>
  using rebind =
      Eigen::Tensor<To, static_cast<int>(Plain::NumDimensions), static_cast<int>(Plain::Layout), typename Plain::Index>;
  template <class To>
  static rebind<To> like(const map& tensor) {
    return rebind<To>(tensor.dimensions());
  }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
