#pragma once

#include <headroom/policy/dynamic.hpp>
#include <headroom/report.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#ifndef RUN_ON_CPU  // as the tests do
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define LAUNCH(kernel, blocks, stream, ...) kernel<<<(blocks), threads_per_block, 0, (stream)>>>(__VA_ARGS__)
#else
#include "on_cpu.hpp"
#endif

// Unscales gradients in the memory of a GPU: a list of tensors in one launch, fp16, bf16 or float into floats, with the bits of
// headroom::unscale_into. The largest magnitude stays on the device, where the step looks at it. The host reads it one step
// late, so the device has the next step queued while the host waits.

/// Ends the program if a call of CUDA fails. A kernel that is not launched would leave "finite".
inline void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::abort();
}

inline constexpr int threads_per_block = 256, elements_per_thread = 16;
inline constexpr std::size_t elements_per_block = std::size_t{threads_per_block} * elements_per_thread;

enum class Dtype : int { fp16, bf16, fp32 };

struct Gradient {
  const void* scaled;
  float* unscaled;  // may be `scaled` if that is float
  std::size_t size;
  Dtype dtype;
  std::size_t first_block;  // set by GradientList
};

__device__ inline float load(const Gradient& gradient, std::size_t i) {
  switch (gradient.dtype) {
    case Dtype::fp16:
      return __half2float(static_cast<const __half*>(gradient.scaled)[i]);
    case Dtype::bf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(gradient.scaled)[i]);
    case Dtype::fp32:
      break;
  }
  return static_cast<const float*>(gradient.scaled)[i];
}

/// `factor` is the inverse of the scale if that is exact, otherwise 0: then the kernel divides. `largest` becomes the largest
/// magnitude, as the bits of a float, which order as the magnitudes do. Inf and NaN are above all others. Do not compile with
/// -use_fast_math, which changes quotients and flushes subnormal numbers.
static __global__ void unscale_kernel(const Gradient* gradients, int n, float scale, float factor, unsigned* largest) {
  int low = 0;  // the last gradient that begins at or before this block
  for (int high = n; high - low > 1;) {
    const int middle = low + (high - low) / 2;
    (gradients[middle].first_block <= blockIdx.x ? low : high) = middle;
  }
  const Gradient gradient = gradients[low];
  const std::size_t begin = (blockIdx.x - gradient.first_block) * elements_per_block + threadIdx.x;
  unsigned found = 0;
  for (int k = 0; k < elements_per_thread; ++k) {
    const std::size_t i = begin + static_cast<std::size_t>(k) * threads_per_block;
    if (i >= gradient.size) break;
    const float scaled = load(gradient, i);
    const float value = factor != 0.0F ? scaled * factor : scaled / scale;
    gradient.unscaled[i] = value;
    const unsigned magnitude = __float_as_uint(value) & 0x7FFFFFFFU;
    if (magnitude > found) found = magnitude;
  }
  if (found > *largest) atomicMax(largest, found);  // the comparison saves most of the atomics
}

__device__ inline bool is_finite(const unsigned* largest) { return *largest < 0x7F800000U; }

/// Gradients whose addresses and sizes stay the same from step to step.
class GradientList {
 public:
  explicit GradientList(std::vector<Gradient> gradients) : n_(static_cast<int>(gradients.size())) {
    for (Gradient& gradient : gradients) {
      gradient.first_block = blocks_;
      blocks_ += (gradient.size + elements_per_block - 1) / elements_per_block;
    }
    check(cudaMalloc(&gradients_, gradients.size() * sizeof(Gradient)));
    check(cudaMemcpy(gradients_, gradients.data(), gradients.size() * sizeof(Gradient), cudaMemcpyHostToDevice));
  }
  GradientList(const GradientList&) = delete;
  GradientList& operator=(const GradientList&) = delete;
  ~GradientList() { cudaFree(gradients_); }

  void unscale(float loss_scale, unsigned* largest, cudaStream_t stream) const {
    check(cudaMemsetAsync(largest, 0, sizeof *largest, stream));
    std::uint32_t bits;
    std::memcpy(&bits, &loss_scale, sizeof bits);
    const float factor = (bits & 0x7FFFFFU) == 0 ? 1.0F / loss_scale : 0.0F;  // a power of two
    if (blocks_ != 0)
      LAUNCH(unscale_kernel, static_cast<unsigned>(blocks_), stream, gradients_, n_, loss_scale, factor, largest);
    check(cudaGetLastError());
  }

 private:
  Gradient* gradients_ = nullptr;  // on the device
  int n_;
  std::size_t blocks_ = 0;
};

/// A policy whose reports arrive one step late.
class LateLossScale {
 public:
  explicit LateLossScale(const headroom::DynamicLossScale& policy) : policy_(policy) {
    check(cudaMalloc(&on_device_, sizeof(unsigned[2])));
    check(cudaMallocHost(&on_host_, sizeof(unsigned[2])));
    for (cudaEvent_t& event : copied_) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  LateLossScale(const LateLossScale&) = delete;
  LateLossScale& operator=(const LateLossScale&) = delete;
  ~LateLossScale() {
    for (cudaEvent_t& event : copied_) cudaEventDestroy(event);
    cudaFreeHost(on_host_);
    cudaFree(on_device_);
  }

  /// The scale of this step's loss.
  [[nodiscard]] float loss_scale() const { return policy_.loss_scale(); }
  [[nodiscard]] const headroom::DynamicLossScale& policy() const { return policy_; }
  /// Where unscale_kernel leaves its result in this step.
  [[nodiscard]] unsigned* largest() const { return on_device_ + step_ % 2; }

  /// Call it once a step, after the step has been launched. Waits only for the step before.
  void update(cudaStream_t stream) {
    const int now = step_ % 2, earlier = 1 - now;
    check(cudaMemcpyAsync(on_host_ + now, on_device_ + now, sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
    check(cudaEventRecord(copied_[now], stream));
    used_[now] = policy_.loss_scale();
    if (step_++ > 0) {
      check(cudaEventSynchronize(copied_[earlier]));
      adjust(on_host_[earlier], used_[earlier]);
    }
  }

 private:
  /// The step after an overflow still had the old scale, and usually overflows, too. That does not lower the scale again.
  void adjust(unsigned bits, float used) {
    const bool finite = bits < 0x7F800000U;
    if (!finite && used > policy_.loss_scale()) return;
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    const double max_abs = finite ? static_cast<double>(magnitude) : std::numeric_limits<double>::infinity();
    policy_ = policy_.adjust(headroom::GradientReport{finite, max_abs});
  }

  headroom::DynamicLossScale policy_;
  unsigned *on_device_ = nullptr, *on_host_ = nullptr;  // one for each of two steps
  cudaEvent_t copied_[2];
  float used_[2] = {1.0F, 1.0F};
  int step_ = 0;
};
