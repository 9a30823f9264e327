#pragma once

#include <c10/core/Device.h>

// The part of libtorch for CUDA that headroom/adapters/torch_cuda.hpp uses, see cuda_runtime.h.

namespace c10::cuda {
struct CUDAGuard {
  explicit CUDAGuard(DeviceIndex) {}
};
}  // namespace c10::cuda
