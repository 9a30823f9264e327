#pragma once

#include <headroom/training/gradient_passes.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/tree/tensor_traits.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <ATen/ATen.h>
#include <torch/optim/optimizer.h>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

// libtorch, 1.13 or 2: torch::Tensor in trees, and its optimizers in a GradScaler.
//
// A torch::Tensor is a leaf of the dtype it has at run time; an undefined one, or one of integers, is none. The verbs work on
// the elements of strided tensors on the CPU, and of coalesced sparse ones; others are refused by their path. Verbs in place do
// so behind autograd's back: they are for gradients, and for parameters under torch::NoGradGuard. `scale(loss)` is recorded:
// the result can be differentiated.

namespace headroom {

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
  const char* obstacle;  ///< why its elements cannot be reached; null where they can
};

template <class T>
struct tensor_traits<TorchView<T>> {
  using value_type = T;
  static constexpr bool is_view = true;

  static T* data(const TorchView<T>& view) { return view.obstacle ? nullptr : view.tensor.template data_ptr<T>(); }
  static std::size_t size(const TorchView<T>& view) {
    return view.obstacle ? 0 : static_cast<std::size_t>(view.tensor.numel());
  }
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
    const at::NoGradGuard no_grad;
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

namespace detail::aten {

/// Each once, however many parameter groups share it; those that are undefined not at all. Sparse ones are coalesced first, so
/// that what is checked are the sums.
[[nodiscard]] inline std::vector<at::Tensor> gradients_of(::torch::optim::Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined() || !seen.insert(gradient.unsafeGetTensorImpl()).second) continue;
      if (gradient.is_sparse() && !gradient.is_coalesced()) {
        gradient = gradient.coalesce();
        seen.insert(gradient.unsafeGetTensorImpl());
      }
      gradients.push_back(gradient);
    }
  }
  return gradients;
}

/// Gradients on one device that is not the CPU. Nothing here waits for the device but the functions that return something,
/// once.
class DeviceGradients {
 public:
  explicit DeviceGradients(const c10::Device& device) : device_(device) {}

  [[nodiscard]] const c10::Device& device() const noexcept { return device_; }
  void add(const at::Tensor& gradient) {
    const at::Tensor elements = gradient.is_sparse() ? gradient._values() : gradient;
    if (elements.numel() == 0) return;
    // ATen's fused operator takes 16-bit gradients in some versions and for some devices only.
    (is_16_bit(elements) ? narrow_ : wide_).push_back(elements);
  }

  [[nodiscard]] GradientReport unscale(float scale) {
    const double inverse = 1.0 / static_cast<double>(scale);
    const auto options = at::TensorOptions(device_).dtype(at::kFloat);
    at::Tensor found_inf = at::zeros({1}, options);
    const at::Tensor inv_scale = at::full({1}, inverse, options);
    if (!wide_.empty()) at::_amp_foreach_non_finite_check_and_unscale_(wide_, found_inf, inv_scale);
    for (at::Tensor& gradient : narrow_) gradient.mul_(inverse);
    const at::Tensor largest = norms(std::numeric_limits<double>::infinity()).max().reshape({1});
    const at::Tensor found = at::cat({found_inf.to(largest.scalar_type()), largest}).to(at::kCPU, at::kDouble);
    const double* values = found.data_ptr<double>();
    return report_of(values[0] == 0.0, values[1]);
  }
  [[nodiscard]] GradientNorm measure() const {
    const at::Tensor largest = norms(std::numeric_limits<double>::infinity()).max(), norm = norms(2.0).norm();
    const at::Tensor found = at::stack({largest, norm}).to(at::kCPU, at::kDouble);
    const double* values = found.data_ptr<double>();
    const GradientReport report = report_of(true, values[0]);
    return {report, report.finite ? values[1] : report.max_abs};
  }
  void multiply(double factor) {
    for (auto* gradients : {&wide_, &narrow_}) {
      for (at::Tensor& gradient : *gradients) gradient.mul_(factor);
    }
  }

 private:
  static GradientReport report_of(bool finite, const double& max_abs) {
    const bool is_finite = finite && bit_cast<std::uint64_t>(max_abs) < binary64::infinity_bits;
    return {is_finite, is_finite ? max_abs : bit_cast<double>(binary64::infinity_bits)};
  }
  /// Of each tensor, in double where the device has that.
  [[nodiscard]] at::Tensor norms(double order) const {
    const at::ScalarType type = device_.type() == c10::DeviceType::MPS ? at::kFloat : at::kDouble;
    std::vector<at::Tensor> norms = {at::zeros({}, at::TensorOptions(device_).dtype(type))};
    for (const auto* gradients : {&wide_, &narrow_}) {
      for (const at::Tensor& gradient : *gradients) {
        norms.push_back(at::linalg_vector_norm(gradient, order, c10::nullopt, false, type));
      }
    }
    return at::stack(norms);
  }

  c10::Device device_;
  std::vector<at::Tensor> wide_, narrow_;
};

/// Gradients by where they are: on the CPU for headroom's kernels, elsewhere for ATen.
class Gradients {
 public:
  explicit Gradients(const std::vector<at::Tensor>& gradients) {
    for (const at::Tensor& gradient : gradients) {
      const bool is_here = gradient.device().is_cpu();
      is_here ? on_cpu_.push_back(gradient) : of_device(gradient.device()).add(gradient);
    }
  }

  [[nodiscard]] GradientReport unscale(const ParallelExecutor& executor, float scale) {
    GradientReport report = ConstantLossScale(scale).unscale_in_place(executor, on_cpu_);
    written();
    for (DeviceGradients& gradients : elsewhere_) report = combined(report, gradients.unscale(scale));
    return report;
  }
  [[nodiscard]] GradientNorm measure(const ParallelExecutor& executor) const {
    GradientNorm all = headroom::measure(executor, on_cpu_);
    for (const DeviceGradients& gradients : elsewhere_) {
      const GradientNorm other = gradients.measure();
      static_cast<GradientReport&>(all) = combined(all, other);
      all.norm = all.finite ? std::hypot(all.norm, other.norm) : all.max_abs;
    }
    return all;
  }
  void multiply(const ParallelExecutor& executor, double factor) {
    (void)multiply_in_place(executor, factor, check_trees(CheckInPlace{}, on_cpu_), on_cpu_);
    written();
    for (DeviceGradients& gradients : elsewhere_) gradients.multiply(factor);
  }

 private:
  [[nodiscard]] DeviceGradients& of_device(const c10::Device& device) {
    for (DeviceGradients& gradients : elsewhere_) {
      if (gradients.device() == device) return gradients;
    }
    return elsewhere_.emplace_back(device);
  }
  /// Tells autograd, which refuses a backward pass through what has changed since.
  void written() const {
    for (const at::Tensor& gradient : on_cpu_) gradient.unsafeGetTensorImpl()->bump_version();
  }

  at::NoGradGuard no_grad_;
  std::vector<at::Tensor> on_cpu_;
  std::vector<DeviceGradients> elsewhere_;
};

}  // namespace detail::aten

/// Every optimizer of libtorch. Gradients on the CPU are unscaled and checked by headroom's kernels; those on other devices by
/// ATen's fused operator, where they are float or double, and 16-bit ones there by a multiplication and a maximum for each; a
/// step waits once for each device. 16-bit gradients are rounded to their own dtype again when they are unscaled, and what is
/// too small for it is lost: keep the parameters of an optimizer in float.
template <class Optimizer>
struct optimizer_traits<Optimizer, std::enable_if_t<std::is_base_of_v<::torch::optim::Optimizer, Optimizer>>> {
  static std::vector<at::Tensor> gradients(::torch::optim::Optimizer& optimizer) {
    return detail::aten::gradients_of(optimizer);
  }
  static auto step(Optimizer& optimizer) { return optimizer.step(); }
  template <class Closure, std::enable_if_t<!std::is_same_v<Closure, GradientFactor>, int> = 0>
  static void step(Optimizer&, Closure&&) {
    static_assert(detail::never<Closure>,
                  "headroom: an optimizer that calls a closure computes gradients that nobody unscales; as in torch.amp, step "
                  "takes none");
  }

  static GradientReport unscale(const ParallelExecutor& executor, const std::vector<at::Tensor>& gradients, float scale) {
    return detail::aten::Gradients(gradients).unscale(executor, scale);
  }
  static GradientNorm measure(const ParallelExecutor& executor, const std::vector<at::Tensor>& gradients) {
    return detail::aten::Gradients(gradients).measure(executor);
  }
  static void multiply(const ParallelExecutor& executor, const std::vector<at::Tensor>& gradients, double factor) {
    detail::aten::Gradients(gradients).multiply(executor, factor);
  }
};

}  // namespace headroom
