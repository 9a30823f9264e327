#pragma once

#include <headroom/adapters/torch.hpp>
#include <headroom/gpu/gradients.hpp>
#include <headroom/gpu/scaler.hpp>
#include <headroom/policy/constant.hpp>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

// For one file of a program, compiled by nvcc. Then headroom's kernels, instead of ATen's, unscale
// and measure the dense gradients of libtorch's optimizers on CUDA devices, in the whole program:
// one pass, and norms with the bits of headroom::measure. Gradients of two tensors that overlap
// throw std::invalid_argument: they would be unscaled twice. docs/gpu.md has more.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail::aten {
/// Calls `make` again without the memory that torch's allocator keeps, which cudaMalloc cannot get.
template <class F>
auto with_memory(const F& make) {
  try {
    return make();
  } catch (const std::runtime_error&) {
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
  return make();
}

/// What one thread at a time needs to work on the gradients of one device.
class DeviceKernels {
 public:
  GradientNorm run(const std::vector<at::Tensor>& tensors, const float* loss_scale) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
    const gpu::Gradients& list = list_of(tensors, stream);
    auto& scaler = loss_scale != nullptr ? divides_ : measures_;
    if (loss_scale == nullptr) {
      scaler.measure(list, stream);
    } else {
      if (*loss_scale != std::exchange(scale_, *loss_scale))  // `set` waits
        scaler.set({ConstantLossScale(*loss_scale)}, stream);
      // A GradScaler has refused fp16 gradients, unless they are allowed.
      scaler.unscale<allow_fp16_gradients>(list, stream);
    }
    scaler.update(stream);
    return scaler.read(stream).report;
  }

 private:
  struct List {
    std::vector<gpu::Gradient> all;
    gpu::Gradients gradients;
  };
  /// Backward may put gradients at other addresses in each step, or make others of them.
  const gpu::Gradients& list_of(const std::vector<at::Tensor>& tensors, cudaStream_t stream) {
    constexpr std::size_t most = 8;
    std::vector<gpu::Gradient> all;
    all.reserve(tensors.size());
    for (const at::Tensor& t : tensors)
      all.emplace_back(t.data_ptr(), static_cast<std::size_t>(t.numel()), code_of(t.scalar_type()));
    const auto are_equal = [&](const List& list, auto equal) {
      return std::equal(all.begin(), all.end(), list.all.begin(), list.all.end(), equal);
    };
    const auto last = std::find_if(lists_.begin(), lists_.end(), [&](const List& list) {
      return are_equal(list, [](const gpu::Gradient& a, const gpu::Gradient& b) {
        return a.size == b.size && a.dtype == b.dtype;
      });
    });
    if (last == lists_.end()) {
      if (lists_.size() == most) lists_.pop_back();
      gpu::Gradients made = with_memory([&] { return gpu::Gradients(all); });
      lists_.push_front({std::move(all), std::move(made)});
      return lists_.front().gradients;
    }
    lists_.splice(lists_.begin(), lists_, last);
    if (!are_equal(*last, [](const auto& a, const auto& b) { return a.data == b.data; })) {
      last->gradients.assign(all, stream);
      last->all = std::move(all);
    }
    return last->gradients;
  }

  gpu::Scaler<ConstantLossScale> measures_{ConstantLossScale(1.0F)},
      divides_{ConstantLossScale(1.0F)};
  float scale_ = 1.0F;
  std::list<List> lists_;  // the last used first
};

inline GradientNorm run_on_cuda(const std::vector<at::Tensor>& tensors, const float* loss_scale) {
  struct Idle {
    std::mutex mutex;
    std::map<c10::DeviceIndex, std::vector<std::unique_ptr<DeviceKernels>>> all;
  };
  static auto* const idle = new Idle;  // never deleted: CUDA may have ended before the program
  const c10::DeviceIndex device = tensors[0].device().index();
  const c10::cuda::CUDAGuard guard(device);
  std::unique_ptr<DeviceKernels> mine;
  {
    const std::lock_guard<std::mutex> lock(idle->mutex);
    auto& of_device = idle->all[device];
    if (!of_device.empty()) {
      mine = std::move(of_device.back());
      of_device.pop_back();
    }
  }
  if (mine == nullptr) mine = with_memory([] { return std::make_unique<DeviceKernels>(); });
  const GradientNorm found = mine->run(tensors, loss_scale);  // if it throws, `mine` is dropped
  const std::lock_guard<std::mutex> lock(idle->mutex);
  idle->all[device].push_back(std::move(mine));
  return found;
}
inline const bool uses_kernels_on_cuda = (kernels = {c10::DeviceType::CUDA, &run_on_cuda}, true);
}  // namespace detail::aten
HEADROOM_DETAIL_END_NAMESPACE
