#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/tree/tensor_traits.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

// torch::Tensor in trees; see adapters/torch.hpp.

namespace headroom {
inline namespace HEADROOM_BUILD {

template <>
struct dtype_traits<c10::Half> {
  using format = binary16;
};
template <>
struct dtype_traits<c10::BFloat16> {
  using format = brain16;
};

namespace detail::aten {

/// What a walk makes of a torch::Tensor: a leaf of static dtype.
template <class T>
struct View {
  const at::Tensor& tensor;
  const char* obstacle;  // why its elements cannot be reached; null if they can
};

template <class To>
constexpr at::ScalarType scalar_type_of() {
  using Format = format_of<To>;
  constexpr bool is_half = std::is_same_v<Format, binary16>, is_bfloat16 = std::is_same_v<Format, brain16>;
  constexpr bool is_float = std::is_same_v<Format, binary32>;
  static_assert(is_half || is_bfloat16 || is_float || std::is_same_v<Format, binary64>,
                "headroom: a torch::Tensor is made of float, double, half or bfloat16");
  return is_half ? at::kHalf : is_bfloat16 ? at::kBFloat16 : is_float ? at::kFloat : at::kDouble;
}

[[nodiscard]] inline const char* obstacle_of(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) return "is not on the CPU: only a GradScaler works on gradients elsewhere";
  if (tensor.is_sparse()) return "is sparse and not coalesced: call coalesce() first";
  if (tensor.layout() != at::kStrided) return "is neither strided nor sparse COO";
  return tensor.is_neg() ? "has its negation still to be done: call resolve_neg() first" : nullptr;
}

}  // namespace detail::aten

template <class T>
struct tensor_traits<detail::aten::View<T>> {
  using view = detail::aten::View<T>;
  using value_type = T;
  static constexpr bool is_view = true;

  static T* data(const view& leaf) { return leaf.obstacle ? nullptr : leaf.tensor.template data_ptr<T>(); }
  static std::size_t size(const view& leaf) { return static_cast<std::size_t>(leaf.tensor.numel()); }
  static Layout layout(const view& leaf) {
    Layout layout;
    for (std::int64_t i = 0; i < leaf.tensor.dim(); ++i) {
      layout.push(static_cast<std::ptrdiff_t>(leaf.tensor.size(i)), static_cast<std::ptrdiff_t>(leaf.tensor.stride(i)));
    }
    return layout;
  }
  static const char* obstacle(const view& leaf) { return leaf.obstacle; }
};

template <>
struct tree_traits<at::Tensor> {
  static constexpr branch_kind kind = branch_kind::dynamic;

  template <class F>
  static void with_view(const at::Tensor& tensor, F&& f) {
    using namespace detail::aten;
    if (!tensor.defined() || at::isIntegralType(tensor.scalar_type(), true)) return f(nullptr);
    if (tensor.is_sparse() && tensor.is_coalesced() && tensor.device().is_cpu()) return with_view(tensor._values(), f);
    const char* obstacle = obstacle_of(tensor);
    switch (tensor.scalar_type()) {
      case at::kFloat:
        return f(View<float>{tensor, obstacle});
      case at::kDouble:
        return f(View<double>{tensor, obstacle});
      case at::kHalf:
        return f(View<c10::Half>{tensor, obstacle});
      case at::kBFloat16:
        return f(View<c10::BFloat16>{tensor, obstacle});
      default:
        f(View<float>{tensor, "has a dtype that is not supported: neither float, double, Half nor BFloat16"});
    }
  }

  /// A new tensor of the same shape and device, with elements of To (or same_dtype).
  template <class To>
  static at::Tensor like(const at::Tensor& tensor) {
    const c10::NoGradGuard no_grad;
    if (!tensor.defined() || !tensor.is_floating_point()) return tensor.defined() ? tensor.clone() : tensor;
    at::TensorOptions options = tensor.options().requires_grad(false);
    if constexpr (is_dtype_v<To>) options = options.dtype(detail::aten::scalar_type_of<To>());
    if (!tensor.is_sparse()) return at::empty_like(tensor, options);
    const at::Tensor values = at::empty_like(tensor._values(), options.layout(at::kStrided));
    return at::_sparse_coo_tensor_unsafe(tensor._indices().clone(), values, tensor.sizes())._coalesced_(tensor.is_coalesced());
  }

  /// Recorded by autograd. A single 16-bit number becomes float, as in torch.amp.
  static at::Tensor scaled(const at::Tensor& tensor, float factor) {
    if (!tensor.defined() || at::isIntegralType(tensor.scalar_type(), true)) return tensor;
    const bool widens = tensor.dim() == 0 && (tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16);
    return (widens ? tensor.to(at::kFloat) : tensor).mul(static_cast<double>(factor));
  }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
