#pragma once

#include <headroom/adapters/torch/tensor.hpp>
#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/ops/find_nonfinite.hpp>
#include <headroom/training/gradient_passes.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/optim/optimizer.h>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

// libtorch, 1.13 or 2: torch::Tensor in trees, and its optimizers in a GradScaler.
//
// A torch::Tensor is a leaf of the dtype it has at run time; an undefined one, or one of integers, is no leaf. The verbs work
// on the elements of strided tensors on the CPU and of coalesced sparse ones; others are refused with their path. Verbs in
// place work behind autograd's back: use them on gradients, and on parameters under torch::NoGradGuard. `scale(loss)` is
// recorded, so the result can be differentiated.

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail::aten {

/// Each gradient once, however many parameter groups share it, and undefined ones not at all. Sparse ones are coalesced first,
/// so that the sums are what is checked.
[[nodiscard]] inline std::vector<at::Tensor> gradients_of(::torch::optim::Optimizer& optimizer) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients, originals;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> seen;  // and what it has become
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined()) continue;
      const auto before = seen.find(gradient.unsafeGetTensorImpl());
      if (before != seen.end()) {
        gradient = before->second;
        continue;
      }
      const at::Tensor original = gradient;
      if (gradient.is_sparse() && !gradient.is_coalesced()) gradient = gradient.coalesce();
      seen.emplace(original.unsafeGetTensorImpl(), gradient);
      seen.emplace(gradient.unsafeGetTensorImpl(), gradient);
      originals.push_back(original);  // so that no other tensor gets its address
      gradients.push_back(gradient);
    }
  }
  return gradients;
}

/// Gradients on one device that is not the CPU. Each function waits for the device once, for what it returns.
class DeviceGradients {
 public:
  explicit DeviceGradients(const c10::Device& device) : device_(device) {}

  [[nodiscard]] const c10::Device& device() const noexcept { return device_; }
  void add(const at::Tensor& gradient) {
    const at::Tensor elements = gradient.is_sparse() ? gradient._values() : gradient;
    if (elements.numel() != 0) gradients_.push_back(elements);
  }

  [[nodiscard]] GradientNorm measure() const {
    const at::Tensor largest = norms(std::numeric_limits<double>::infinity()).max(), norm = norms(2.0).norm();
    const at::Tensor found = at::stack({largest, norm}).to(at::kCPU, at::kDouble);
    const double* values = found.data_ptr<double>();
    const bool finite = bit_cast<std::uint64_t>(values[0]) < binary64::infinity_bits;
    return finite ? GradientNorm{{true, values[0]}, values[1]} : overflow();
  }
  [[nodiscard]] GradientReport scale(double factor) {
    if (!gradients_.empty()) at::_foreach_mul_(gradients_, factor);
    return measure();
  }

 private:
  /// Computed for each tensor, in double if the device has it.
  [[nodiscard]] at::Tensor norms(double order) const {
    const at::ScalarType type = device_.type() == c10::DeviceType::MPS ? at::kFloat : at::kDouble;
    std::vector<at::Tensor> norms = {at::zeros({}, at::TensorOptions(device_).dtype(type))};
    for (const at::Tensor& gradient : gradients_) norms.push_back(at::linalg_vector_norm(gradient, order, {}, false, type));
    return at::stack(norms);
  }

  c10::Device device_;
  std::vector<at::Tensor> gradients_;
};

[[nodiscard]] inline bool is_on_cpu(const at::Tensor& tensor) { return tensor.device().is_cpu(); }

/// Gradients sorted by place: those on the CPU are for headroom's kernels, the others for ATen. The others come first, because
/// what a device cannot do shows only when it is tried.
class Gradients {
 public:
  /// `is_here` is for tests on machines without another device.
  explicit Gradients(const std::vector<at::Tensor>& gradients, bool (*is_here)(const at::Tensor&) = is_on_cpu) {
    for (const at::Tensor& gradient : gradients) {
      is_here(gradient) ? on_cpu_.push_back(gradient) : of_device(gradient.device()).add(gradient);
    }
  }

  [[nodiscard]] GradientReport unscale(const ParallelExecutor& executor, float loss_scale) {
    return multiply(1.0 / static_cast<double>(loss_scale),
                    [&] { return headroom::unscale_in_place(executor, on_cpu_, loss_scale); });
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
  [[nodiscard]] GradientReport scale(const ParallelExecutor& executor, double factor) {
    return multiply(factor, [&] { return scale_and_report(executor, on_cpu_, factor); });
  }

 private:
  [[nodiscard]] DeviceGradients& of_device(const c10::Device& device) {
    for (DeviceGradients& gradients : elsewhere_) {
      if (gradients.device() == device) return gradients;
    }
    return elsewhere_.emplace_back(device);
  }
  template <class OnCpu>
  [[nodiscard]] GradientReport multiply(double factor, const OnCpu& on_cpu) {
    check_can_be_scaled(on_cpu_);
    GradientReport report{true, 0.0};
    for (DeviceGradients& gradients : elsewhere_) report = combined(report, gradients.scale(factor));
    report = combined(report, on_cpu());
    for (const at::Tensor& gradient : on_cpu_) {  // tells autograd, which then refuses a backward pass through what has changed
      if (!gradient.is_inference()) gradient.unsafeGetTensorImpl()->bump_version();  // those have no version
    }
    return report;
  }

  c10::NoGradGuard no_grad_;
  std::vector<at::Tensor> on_cpu_;
  std::vector<DeviceGradients> elsewhere_;
};

/// How many elements are NaN and how many are Inf, on the device where they are; ATen does not depend on this unit's flags.
[[nodiscard]] inline at::Tensor count_nonfinite(const at::Tensor& gradient) {
  const at::Tensor elements = gradient.is_sparse() ? gradient._values() : gradient;
  return at::stack({elements.ne(elements).sum(), elements.abs().eq(std::numeric_limits<double>::infinity()).sum()});
}

/// What lies on a device is counted there, and only the first tensor that has an Inf or NaN is copied here.
[[nodiscard]] inline std::optional<NonFinite> find_nonfinite(const ParallelExecutor& executor,
                                                             const std::vector<at::Tensor>& gradients,
                                                             bool (*is_here)(const at::Tensor&) = is_on_cpu) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> counts(gradients.size());  // begun for all before the first is waited for
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!is_here(gradients[i])) counts[i] = count_nonfinite(gradients[i]);
  }
  std::optional<NonFinite> all;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    std::optional<NonFinite> found;
    if (!counts[i].defined()) {
      found = headroom::find_nonfinite(executor, gradients[i]);
    } else {
      const at::Tensor count = counts[i].to(at::kCPU, at::kLong);
      const auto* const values = count.data_ptr<std::int64_t>();
      if (values[0] + values[1] == 0) continue;
      if (!all) found = headroom::find_nonfinite(executor, gradients[i].cpu());
      if (!found) found = NonFinite();
      found->nan_count = static_cast<std::size_t>(values[0]);
      found->inf_count = static_cast<std::size_t>(values[1]);
    }
    if (!found) continue;
    if (!all) all = NonFinite{"[" + std::to_string(i) + "]", found->index, found->kind, 0, 0};
    all->nan_count += found->nan_count;
    all->inf_count += found->inf_count;
  }
  return all;
}

template <class Optimizer>
using step_t = decltype(std::declval<Optimizer&>().step());
template <class Optimizer>
using factor_step_t = decltype(std::declval<Optimizer&>().step(GradientFactor()));

}  // namespace detail::aten

/// Every optimizer of libtorch. Gradients on the CPU are unscaled and checked by headroom's kernels, those on other devices by
/// ATen, in one multiplication and a maximum of each; a step waits once per device. 16-bit gradients are rounded to their own
/// dtype again when they are unscaled, which loses what is too small for it: keep an optimizer's parameters in float. A
/// gradient without elements is a gradient; an undefined one is not.
template <class Optimizer>
struct optimizer_traits<Optimizer, std::enable_if_t<std::is_base_of_v<::torch::optim::Optimizer, Optimizer>>> {
  static std::vector<at::Tensor> gradients(::torch::optim::Optimizer& optimizer) {
    return detail::aten::gradients_of(optimizer);
  }
  static auto step(Optimizer& optimizer) {
    static_assert(detail::is_detected_v<detail::aten::step_t, Optimizer>,
                  "headroom: an optimizer that calls a closure, as LBFGS, computes gradients that nobody unscales");
    return optimizer.step();
  }
  static constexpr bool takes_gradient_factor = detail::is_detected_v<detail::aten::factor_step_t, Optimizer>;
  /// For an optimizer of your own, in deferred mode.
  template <class O>
  static auto step(O& optimizer, GradientFactor factor) -> detail::aten::factor_step_t<O> {
    return optimizer.step(factor);
  }
  template <class Closure, std::enable_if_t<!std::is_same_v<std::decay_t<Closure>, GradientFactor>, int> = 0>
  static void step(Optimizer&, Closure&&) {
    static_assert(detail::never<Closure>,
                  "headroom: an optimizer that calls a closure computes gradients that nobody unscales; as in torch.amp, step "
                  "takes none");
  }

  static GradientReport unscale(const ParallelExecutor& executor, const std::vector<at::Tensor>& gradients, float loss_scale) {
    return detail::aten::Gradients(gradients).unscale(executor, loss_scale);
  }
  static GradientNorm measure(const ParallelExecutor& executor, const std::vector<at::Tensor>& gradients) {
    return detail::aten::Gradients(gradients).measure(executor);
  }
  static GradientReport scale(const ParallelExecutor& executor, const std::vector<at::Tensor>& gradients, double factor) {
    return detail::aten::Gradients(gradients).scale(executor, factor);
  }
  /// The path is the number among the defined gradients, each counted once.
  static std::optional<NonFinite> find_nonfinite(const ParallelExecutor& executor, const std::vector<at::Tensor>& gradients) {
    return detail::aten::find_nonfinite(executor, gradients);
  }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
