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

/// DLPack's type code << 8 | bits. May hold any 32-bit value. Verbs leave integers and booleans (codes 0, 1 and 6) alone, and
/// reject other dtypes that are not listed here.
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

/// A view of a tensor whose dtype, shape and strides are known at run time: a tree on its own, or inside containers and
/// structs. Use the verbs that write into existing trees (_in_place, _into), because it cannot make a new tensor. for_each_leaf
/// passes a headroom::any_view<T>.
struct any_tensor {
  void* data = nullptr;                 ///< the first element; may be null if there are none
  std::size_t size = 0;                 ///< number of elements; if there are dimensions, 0 stands for the product of the shape
  dtype_code dtype = dtype_code::fp32;  ///< of the elements
  std::int32_t ndim = 0;                ///< 0: `size` contiguous elements
  const std::int64_t* shape = nullptr;  ///< `ndim` numbers, which live as long as the tensor
  const std::int64_t* strides = nullptr;  ///< `ndim` strides, in elements; null: row-major without gaps
  bool is_read_only = false;              ///< verbs that write throw

  any_tensor() = default;
  /// Contiguous elements.
  any_tensor(void* first, dtype_code code, std::size_t n) noexcept : data(first), size(n), dtype(code) {}
  /// `strides` has as many numbers as `shape`, or none. Both are views.
  any_tensor(void* first, dtype_code code, span<const std::int64_t> dimensions, span<const std::int64_t> steps = {}) noexcept
      : data(first),
        size(1),
        dtype(code),
        ndim(static_cast<std::int32_t>(dimensions.size())),
        shape(dimensions.data()),
        strides(steps.data()) {
    for (const std::int64_t n : dimensions) size *= static_cast<std::size_t>(n);
  }
};

namespace detail {

/// The dtypes that verbs work on.
using any_dtypes = types<float, half, bfloat16, double, float8_e4m3, float8_e5m2>;
/// The index of a dtype in this list; -1 for integers, -2 for dtypes that are not supported.
[[nodiscard]] constexpr int dtype_index(dtype_code dtype) noexcept {
  if (dtype == dtype_code::fp32) return 0;  // faster than a jump table
  if (dtype == dtype_code::fp16) return 1;
  if (dtype == dtype_code::bf16) return 2;
  if (dtype == dtype_code::fp64) return 3;
  if (dtype == dtype_code::fp8_e4m3) return 4;
  if (dtype == dtype_code::fp8_e5m2) return 5;
  const auto bits = static_cast<std::uint32_t>(dtype), code = bits >> 8U;
  return bits != 0 && (code <= 1 || code == 6) ? -1 : -2;  // 0 is a dtype that was not set
}

[[nodiscard]] inline std::size_t size_of(const any_tensor& tensor) noexcept {
  if (tensor.size != 0 || tensor.ndim <= 0 || tensor.shape == nullptr) return tensor.size;
  std::size_t product = 1;
  for (int i = 0; i < tensor.ndim && i < Layout::max_rank; ++i) product *= static_cast<std::size_t>(tensor.shape[i]);
  return product;
}
[[nodiscard]] inline Layout layout_of(const any_tensor& tensor) noexcept {
  Layout layout;
  auto stride = static_cast<std::ptrdiff_t>(size_of(tensor));
  if (tensor.ndim == 0) layout.push(stride, 1);
  for (int i = 0; i < tensor.ndim; ++i) {
    const auto n = static_cast<std::ptrdiff_t>(tensor.shape[i]);
    if (n != 0) stride /= n;
    layout.push(n, tensor.strides != nullptr ? static_cast<std::ptrdiff_t>(tensor.strides[i]) : stride);
  }
  return layout;
}
/// Row-major without gaps.
[[nodiscard]] inline bool is_dense(const any_tensor& tensor) noexcept {
  bool is_dense = true;
  std::uint64_t stride = 1;  // unsigned, because it may overflow if another dimension is empty
  for (int i = tensor.strides == nullptr ? 0 : tensor.ndim; i-- > 0; stride *= static_cast<std::uint64_t>(tensor.shape[i]))
    is_dense = is_dense && (static_cast<std::uint64_t>(tensor.strides[i]) == stride || tensor.shape[i] == 1);
  return is_dense;
}
[[nodiscard]] inline bool same_shape(const any_tensor& a, const any_tensor& b) noexcept {
  bool same = a.ndim == b.ndim;
  for (int i = 0; same && i < a.ndim; ++i) same = a.shape[i] == b.shape[i];
  return same;
}
/// Why verbs cannot walk it; null if they can.
[[nodiscard]] inline const char* obstacle_of(const any_tensor& tensor) noexcept {
  if (dtype_index(tensor.dtype) < -1) return "has a dtype that is not supported";
  if (tensor.ndim == 0) return nullptr;
  if (tensor.ndim < 0 || tensor.ndim > Layout::max_rank) return "has an ndim that is not in [0, 16]";
  if (tensor.shape == nullptr) return "has dimensions, but no shape";
  std::int64_t product = 1;
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) return "has a negative shape";
    if (__builtin_mul_overflow(product, tensor.shape[i], &product)) return "has a shape that is too large";
  }
  const bool fits = tensor.size == 0 || tensor.size == static_cast<std::size_t>(product);
  return fits ? nullptr : "has a size that is not the product of its shape";
}
[[nodiscard]] inline std::string description_of(const any_tensor& tensor) {
  const auto code = static_cast<std::uint32_t>(tensor.dtype);
  std::string text = concat({"dtype code ", std::to_string(code >> 8U), " of ", std::to_string(code & 0xFFU), " bits, size ",
                             std::to_string(tensor.size), ", ndim ", std::to_string(tensor.ndim)});
  for (int i = 0; tensor.shape != nullptr && tensor.ndim <= Layout::max_rank && i < tensor.ndim; ++i)
    text += (i == 0 ? ", shape " : "x") + std::to_string(tensor.shape[i]);
  return text;
}

}  // namespace detail

/// What for_each_leaf passes for an any_tensor of floating-point elements.
template <class T>
struct any_view : any_tensor {
  explicit any_view(const any_tensor& tensor) noexcept : any_tensor(tensor) {}  ///< for elements of T
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(any_tensor::data); }
  [[nodiscard]] std::size_t size() const noexcept { return detail::size_of(static_cast<const any_tensor&>(*this)); }
};
template <class T>
struct tensor_traits<any_view<T>> {
  using value_type = T;
  static constexpr bool is_view = true;
  static T* data(const any_view<T>& view) noexcept { return view.data(); }
  static std::size_t size(const any_view<T>& view) noexcept { return view.size(); }
  static Layout layout(const any_view<T>& view) noexcept { return detail::layout_of(static_cast<const any_tensor&>(view)); }
};

template <>
struct tree_traits<any_tensor> {
  static constexpr branch_kind kind = branch_kind::dynamic;

  template <class F>
  static void with_view(const any_tensor& tensor, F&& f) {
    const int index = detail::dtype_index(tensor.dtype);
    if (index == -1) return f(nullptr);
    with_view_of(tensor, index < 0 ? 0 : index, f, detail::any_dtypes());  // `obstacle` rejects unsupported dtypes
  }
  template <class To>
  static any_tensor like(const any_tensor& tensor) {
    static_assert(!std::is_same_v<To, To>,
                  "headroom: an any_tensor is a view, so no new one can be made for this verb's result: use its _into or "
                  "_in_place form");
    return tensor;
  }

 private:
  template <class F, class... Ts>
  static void with_view_of(const any_tensor& tensor, int index, F& f, detail::types<Ts...>) {
    (void)((index-- == 0 && (f(any_view<Ts>(tensor)), true)) || ...);
  }
};

HEADROOM_DETAIL_END_NAMESPACE
