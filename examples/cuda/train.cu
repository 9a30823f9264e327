// Learns a vector with fp16 gradients in the memory of a GPU. The host only launches: the device itself skips a step that
// overflows. clang compiles it with the headers and the ptxas of PyPI; clang 19 knows CUDA up to 12.3:
//   pip install --target python nvidia-{cuda-nvcc-cu12==12.3.107,cuda-runtime-cu12==12.3.101,curand-cu12==10.3.4.107}
//   mkdir cuda && cp -r python/nvidia/{cuda_nvcc,cuda_runtime,curand}/. cuda
//   clang++-19 -O2 --cuda-path=cuda --cuda-gpu-arch=sm_70 --cuda-device-only -Iinclude -c examples/cuda/train.cu
#include "unscale.cuh"

#include <cmath>
#include <cstdio>

inline constexpr int n = 1000, steps = 400, corrupt_step = 200;

/// The scaled gradients of the mean over `outputs` of (weight - 1)^2 / 2: too small for fp16 without a scale.
__global__ void backward_kernel(const float* weights, float scale, float outputs, bool is_corrupt, __half* grads) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i >= n) return;
  const float gradient = (weights[i] - 1.0F) / outputs;
  grads[i] = __float2half(is_corrupt && i == 13 ? 1e30F : scale * gradient);
}
__global__ void step_kernel(float* weights, const float* grads, float rate, const unsigned* largest) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < n && is_finite(largest)) weights[i] -= rate * grads[i];
}

int main() {
  const float outputs = 4e8F;
  const cudaStream_t stream = 0;
  float *weights = nullptr, *grads = nullptr;
  __half* grads16 = nullptr;
  check(cudaMalloc(&weights, n * sizeof *weights));
  check(cudaMalloc(&grads, n * sizeof *grads));
  check(cudaMalloc(&grads16, n * sizeof *grads16));
  check(cudaMemsetAsync(weights, 0, n * sizeof *weights, stream));
  {
    const GradientList list({{grads16, grads, n, Dtype::fp16, 0}});
    LateLossScale scaler(headroom::DynamicLossScale({65536.0F, 20}));
    constexpr unsigned blocks = (n + threads_per_block - 1) / threads_per_block;
    for (int step = 0; step < steps; ++step) {
      const float scale = scaler.loss_scale();
      LAUNCH(backward_kernel, blocks, stream, weights, scale, outputs, step == corrupt_step, grads16);
      list.unscale(scale, scaler.largest(), stream);
      LAUNCH(step_kernel, blocks, stream, weights, grads, 0.1F * outputs, scaler.largest());
      check(cudaGetLastError());
      scaler.update(stream);
    }
    std::printf("last scale %g\n", static_cast<double>(scaler.loss_scale()));
  }
  std::vector<float> result(n);
  check(cudaMemcpy(result.data(), weights, n * sizeof(float), cudaMemcpyDeviceToHost));
  cudaFree(weights);
  cudaFree(grads);
  cudaFree(grads16);
  float error = 0.0F;
  for (const float weight : result) error = std::fmax(error, std::fabs(weight - 1.0F));
  std::printf("largest error of a weight %g\n", static_cast<double>(error));
  return error < 0.01F ? 0 : 1;
}
