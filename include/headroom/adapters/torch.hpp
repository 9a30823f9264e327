#pragma once

#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/ops/find_nonfinite.hpp>
#include <headroom/ops/unscale.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>
#include <headroom/tree/tensor_traits.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/optim/optimizer.h>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <unordered_set>
#include <vector>

// libtorch, 1.13 or 2: torch::Tensor in trees, and its optimizers in a GradScaler.
//
// A torch::Tensor is a leaf of the dtype that it has at run time. It is no leaf if it is undefined or has integers. The verbs
// work on strided and on coalesced sparse tensors on the CPU; others are errors that name the path. autograd does not record
// verbs in place: use them on gradients, or on parameters under torch::NoGradGuard. It does record `scale(loss)`, so that you
// can call backward on the result.

HEADROOM_DETAIL_BEGIN_NAMESPACE

template <>
struct dtype_traits<c10::Half> : detail::has_format<binary16> {};
template <>
struct dtype_traits<c10::BFloat16> : detail::has_format<brain16> {};

namespace detail::aten {

/// A torch::Tensor as a leaf of static dtype.
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

  /// Also for other devices, because a GradScaler compares addresses.
  static T* data(const view& leaf) { return static_cast<T*>(leaf.tensor.has_storage() ? leaf.tensor.data_ptr() : nullptr); }
  static std::size_t size(const view& leaf) { return static_cast<std::size_t>(leaf.tensor.numel()); }
  static Layout layout(const view& leaf) {
    Layout layout;
    for (std::int64_t i = 0; i < leaf.tensor.dim(); ++i) layout.push(leaf.tensor.size(i), leaf.tensor.stride(i));
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

// ---- optimizers ----

namespace detail::aten {

/// The defined gradients, each once, even if several parameters share it. Coalesces sparse ones first, so that the sums are
/// checked.
[[nodiscard]] inline std::vector<at::Tensor> gradients_of(::torch::optim::Optimizer& optimizer) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined()) continue;
      if (gradient.is_sparse() && !gradient.is_coalesced()) gradient = gradient.coalesce();
      if (seen.insert(gradient.unsafeGetTensorImpl()).second) gradients.push_back(gradient);
    }
  }
  return gradients;
}

[[nodiscard]] inline bool is_on_cpu(const at::Tensor& tensor) { return tensor.device().is_cpu(); }
[[nodiscard]] inline at::Tensor elements_of(const at::Tensor& tensor) { return tensor.is_sparse() ? tensor._values() : tensor; }

/// Measures gradients on other devices than the CPU, and waits for them once. Computes in double, except on MPS, which has
/// none.
[[nodiscard]] inline GradientNorm measure_elsewhere(const std::vector<at::Tensor>& gradients) {
  if (gradients.empty()) return {};
  const c10::Device device = gradients[0].device();
  const at::ScalarType type = device.type() == c10::DeviceType::MPS ? at::kFloat : at::kDouble;
  std::vector<at::Tensor> largest, norms;
  for (const at::Tensor& gradient : gradients) {
    largest.push_back(at::linalg_vector_norm(gradient, infinity, {}, false, type).to(device));
    norms.push_back(at::linalg_vector_norm(gradient, 2.0, {}, false, type).to(device));
  }
  const at::Tensor found = at::stack({at::stack(largest).max(), at::stack(norms).norm()}).to(at::kCPU, at::kDouble);
  const double* const values = found.data_ptr<double>();
  const bool finite = bit_cast<std::uint64_t>(values[0]) < binary64::infinity_bits;
  return finite ? GradientNorm{{true, values[0]}, values[1]} : overflow();
}
[[nodiscard]] inline GradientReport scale_elsewhere(const std::vector<at::Tensor>& gradients, double factor) {
  if (!gradients.empty()) at::_foreach_mul_(gradients, factor);
  return measure_elsewhere(gradients);
}

/// headroom's kernels work on gradients for which `is_here` is true, ATen on the others. Tests replace `is_here`.
template <bool (*is_here)(const at::Tensor&) = is_on_cpu>
struct GradientVerbs {
  using Tensors = std::vector<at::Tensor>;
  struct Places {
    c10::NoGradGuard no_grad;
    Tensors here, elsewhere;

    explicit Places(const Tensors& gradients) {
      for (const at::Tensor& gradient : gradients) {
        if (is_here(gradient)) {
          here.push_back(gradient);
        } else if (elements_of(gradient).numel() != 0) {
          elsewhere.push_back(elements_of(gradient));
        }
      }
    }
  };

  static GradientReport unscale(const ParallelExecutor& executor, const Tensors& gradients, float loss_scale) {
    const Places all(gradients);
    const GradientReport report = headroom::unscale_in_place(executor, all.here, loss_scale);
    return combined(report, scale_elsewhere(all.elsewhere, 1.0 / static_cast<double>(loss_scale)));
  }
  static GradientReport scale(const ParallelExecutor& executor, const Tensors& gradients, double factor) {
    const Places all(gradients);
    detail::GradientVerbs<void, const Tensors, true> here(executor, all.here, std::true_type());
    return combined(here.scale(factor), scale_elsewhere(all.elsewhere, factor));
  }
  static GradientNorm measure(const ParallelExecutor& executor, const Tensors& gradients) {
    const Places places(gradients);
    const GradientNorm a = headroom::measure(executor, places.here), b = measure_elsewhere(places.elsewhere);
    const GradientNorm all{combined(a, b), std::hypot(a.norm, b.norm)};
    return all.finite ? all : overflow();
  }
  /// The path is the index in gradients_of(optimizer). A gradient on another device is copied only if it has an Inf or NaN.
  static std::optional<NonFinite> find_nonfinite(const ParallelExecutor& executor, Tensors gradients) {
    const c10::NoGradGuard no_grad;
    for (at::Tensor& gradient : gradients) {
      if (is_here(gradient)) continue;
      const bool finite = gradient.numel() == 0 || measure_elsewhere({elements_of(gradient)}).finite;
      gradient = finite ? at::empty({0}) : gradient.cpu();
    }
    return headroom::find_nonfinite(executor, gradients);
  }
};

}  // namespace detail::aten

/// All optimizers of libtorch except LBFGS. headroom's kernels unscale and check gradients on the CPU. On other devices ATen
/// does it by one multiplication, and a maximum and a norm of each gradient; a step waits for the devices once. A gradient
/// without elements counts as a gradient, an undefined one does not.
template <class Optimizer>
struct optimizer_traits<Optimizer, std::enable_if_t<std::is_base_of_v<::torch::optim::Optimizer, Optimizer>>>
    : detail::aten::GradientVerbs<> {
  static std::vector<at::Tensor> gradients(::torch::optim::Optimizer& optimizer) {
    return detail::aten::gradients_of(optimizer);
  }
  /// Takes no closure, because gradients that it computes would stay scaled.
  template <class O, class... Factor, std::enable_if_t<(std::is_same_v<Factor, GradientFactor> && ...), int> = 0>
  static auto step(O& optimizer, Factor... factor) -> decltype(optimizer.step(factor...)) {
    return optimizer.step(factor...);
  }
};

HEADROOM_DETAIL_END_NAMESPACE
