#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/tree/tensor_traits.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <cstddef>
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

/// What a walk makes of a torch::Tensor: a leaf of static dtype.
template <class T>
struct TorchView {
  const at::Tensor& tensor;
  const char* obstacle;  ///< why its elements cannot be reached; null if they can
};

template <class T>
struct tensor_traits<TorchView<T>> {
  using value_type = T;
  static constexpr bool is_view = true;

  static T* data(const TorchView<T>& view) { return view.obstacle ? nullptr : view.tensor.template data_ptr<T>(); }
  static std::size_t size(const TorchView<T>& view) { return static_cast<std::size_t>(view.tensor.numel()); }
  static Layout layout(const TorchView<T>& view) {
    Layout layout;
    const auto sizes = view.tensor.sizes(), strides = view.tensor.strides();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      layout.push(static_cast<std::ptrdiff_t>(sizes[i]), static_cast<std::ptrdiff_t>(strides[i]));
    }
    return layout;
  }
  static const char* obstacle(const TorchView<T>& view) { return view.obstacle; }
};

namespace detail::aten {

template <class T>
constexpr at::ScalarType scalar_type_of() {
  using Format = format_of<T>;
  if (std::is_same_v<Format, binary16>) return at::kHalf;
  if (std::is_same_v<Format, brain16>) return at::kBFloat16;
  return std::is_same_v<Format, binary32> ? at::kFloat : at::kDouble;
}
[[nodiscard]] inline bool is_16_bit(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

template <class F>
void with_view(const at::Tensor& tensor, const char* obstacle, F&& f) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return f(TorchView<float>{tensor, obstacle});
    case at::kDouble:
      return f(TorchView<double>{tensor, obstacle});
    case at::kHalf:
      return f(TorchView<c10::Half>{tensor, obstacle});
    case at::kBFloat16:
      return f(TorchView<c10::BFloat16>{tensor, obstacle});
    default:
      break;
  }
  if (at::isIntegralType(tensor.scalar_type(), true)) return f(nullptr);
  f(TorchView<float>{tensor, "has a dtype that is not supported: neither float, double, Half nor BFloat16"});
}

}  // namespace detail::aten

template <>
struct tree_traits<at::Tensor> {
  static constexpr branch_kind kind = branch_kind::dynamic;

  template <class F>
  static void with_view(const at::Tensor& tensor, F&& f) {
    if (!tensor.defined()) return f(nullptr);
    if (tensor.is_sparse() && tensor.is_coalesced() && tensor.device().is_cpu()) {
      const at::Tensor values = tensor._values();
      return detail::aten::with_view(values, nullptr, f);
    }
    const char* obstacle = nullptr;
    if (!tensor.device().is_cpu()) {
      obstacle = "is not on the CPU: only a GradScaler works on gradients elsewhere";
    } else if (tensor.is_sparse()) {
      obstacle = "is sparse and not coalesced: call coalesce() first";
    } else if (tensor.layout() != at::kStrided) {
      obstacle = "is neither strided nor sparse COO";
    } else if (tensor.is_neg()) {
      obstacle = "has its negation still to be done: call resolve_neg() first";
    }
    detail::aten::with_view(tensor, obstacle, f);
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
    const bool widens = tensor.dim() == 0 && detail::aten::is_16_bit(tensor);
    return (widens ? tensor.to(at::kFloat) : tensor).mul(static_cast<double>(factor));
  }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
