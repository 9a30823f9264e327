#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/tree/layout.hpp>
#include <headroom/tree/tensor_traits.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// DLPack's type code << 8 | bits. All 32-bit numbers are values of this type. Verbs leave integers and booleans (codes 0, 1
/// and 6) alone, and reject dtypes that are not listed here.
enum class dtype_code : std::uint32_t {
  fp16 = 0x210,
  fp32 = 0x220,
  fp64 = 0x240,
  bf16 = 0x410,
  fp8_e4m3 = 0xA08,  ///< DLPack's kDLFloat8_e4m3fn
  fp8_e5m2 = 0xC08,
  int32 = 0x020,
  int64 = 0x040
};

/// A view of a tensor whose dtype, shape and strides are known at run time: a tree by itself, and in any container or struct.
/// Use the verbs that write into existing trees (_in_place, _into), because it cannot make a new tensor. for_each_leaf passes a
/// headroom::any_view<T>.
struct any_tensor {
  void* data = nullptr;  ///< the first element; may be null if there are none
  std::size_t size = 0;  ///< number of elements; if there are dimensions, 0 stands for the product of the shape
  dtype_code dtype = dtype_code::fp32;
  std::int32_t ndim = 0;                  ///< 0: `size` contiguous elements
  const std::int64_t* shape = nullptr;    ///< `ndim` numbers, which live as long as the tensor
  const std::int64_t* strides = nullptr;  ///< the same, in elements; null: row-major without gaps
  bool is_read_only = false;              ///< verbs that write throw

  any_tensor() = default;
  /// Contiguous elements.
  any_tensor(void* first, dtype_code code, std::size_t n) noexcept : data(first), size(n), dtype(code) {}
  /// `strides` has as many numbers as `shape`, or none. Both are views.
  any_tensor(void* first, dtype_code code, span<const std::int64_t> dimensions, span<const std::int64_t> steps = {}) noexcept
      : data(first),
        size(dimensions.empty() ? 1 : 0),
        dtype(code),
        ndim(static_cast<std::int32_t>(dimensions.size())),
        shape(dimensions.data()),
        strides(steps.data()) {}
};

namespace detail {

/// The dtypes of an any_tensor that verbs work on, and their positions in this list.
using any_dtypes = types<float, half, bfloat16, double, float8_e4m3, float8_e5m2>;
inline constexpr int place_of_integers = -1, place_of_unsupported = -2;

[[nodiscard]] constexpr int place_of(dtype_code dtype) noexcept {
  switch (dtype) {
    case dtype_code::fp32:
      return 0;
    case dtype_code::fp16:
      return 1;
    case dtype_code::bf16:
      return 2;
    case dtype_code::fp64:
      return 3;
    case dtype_code::fp8_e4m3:
      return 4;
    case dtype_code::fp8_e5m2:
      return 5;
    default:
      break;
  }
  const auto code = static_cast<std::uint32_t>(dtype) >> 8U;
  return code <= 1 || code == 6 ? place_of_integers : place_of_unsupported;
}

/// Whether the product of the shape is a size.
[[nodiscard]] inline bool has_valid_shape(const any_tensor& tensor) noexcept {
  std::int64_t product = 1;
  bool is_valid = true;
  for (int i = 0; i < tensor.ndim; ++i)
    is_valid = is_valid && tensor.shape[i] >= 0 && !__builtin_mul_overflow(product, tensor.shape[i], &product);
  return is_valid;
}

}  // namespace detail

template <>
struct tensor_traits<any_tensor> {
  using value_type = void;  // known at run time
  static constexpr bool is_view = true;

  static void* data(const any_tensor& tensor) noexcept { return tensor.data; }
  static std::size_t size(const any_tensor& tensor) noexcept {
    std::size_t product = tensor.ndim == 0 ? tensor.size : 1;
    for (int i = 0; i < tensor.ndim; ++i) product *= static_cast<std::size_t>(tensor.shape[i]);
    return product;
  }
  static Layout layout(const any_tensor& tensor) noexcept {
    Layout layout;
    auto stride = static_cast<std::ptrdiff_t>(size(tensor));
    if (tensor.ndim == 0) layout.push(stride, 1);
    for (int i = 0; i < tensor.ndim; ++i) {
      const auto n = static_cast<std::ptrdiff_t>(tensor.shape[i]);
      if (n != 0) stride /= n;
      layout.push(n, tensor.strides != nullptr ? static_cast<std::ptrdiff_t>(tensor.strides[i]) : stride);
    }
    return layout;
  }
  static const char* obstacle(const any_tensor& tensor) {
    if (detail::place_of(tensor.dtype) == detail::place_of_unsupported) return "has a dtype that is not supported";
    if (tensor.ndim == 0) return nullptr;
    if (tensor.ndim < 0 || tensor.ndim > 64) return "has an ndim that is not in [0, 64]";
    if (tensor.shape == nullptr) return "has dimensions, but no shape";
    if (!detail::has_valid_shape(tensor)) return "has a shape that is negative or too large";
    return tensor.size == 0 || tensor.size == size(tensor) ? nullptr : "has a size that is not the product of its shape";
  }
};

/// What for_each_leaf passes for an any_tensor of floating-point elements.
template <class T>
struct any_view {
  const any_tensor& tensor;

  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(tensor.data); }
  [[nodiscard]] std::size_t size() const noexcept { return tensor_traits<any_tensor>::size(tensor); }
};

template <class T>
struct tensor_traits<any_view<T>> : tensor_traits<any_tensor> {
  using value_type = T;
  static T* data(const any_view<T>& view) noexcept { return view.data(); }
  static std::size_t size(const any_view<T>& view) noexcept { return view.size(); }
  static Layout layout(const any_view<T>& view) noexcept { return tensor_traits<any_tensor>::layout(view.tensor); }
  static const char* obstacle(const any_view<T>& view) { return tensor_traits<any_tensor>::obstacle(view.tensor); }
};

template <>
struct tree_traits<any_tensor> {
  static constexpr branch_kind kind = branch_kind::dynamic;

  template <class F>
  static void with_view(const any_tensor& tensor, F&& f) {
    with_view_at(detail::place_of(tensor.dtype), tensor, f, detail::any_dtypes());
  }

 private:
  template <class F, class... Ts>
  static void with_view_at(int place, const any_tensor& tensor, F& f, detail::types<Ts...>) {
    if (place == detail::place_of_integers) return f(nullptr);
    if (place == detail::place_of_unsupported) return f(any_view<float>{tensor});  // whose obstacle says so
    (void)((place-- == 0 && (f(any_view<Ts>{tensor}), true)) || ...);
  }
};

HEADROOM_DETAIL_END_NAMESPACE
