#include "docs/gpu.hpp"

static constexpr unsigned n = 4;
static float* weights;
static void backward(int, const float* loss_scale, __half* grads, cudaStream_t stream) {
  backward(loss_scale, weights, grads, n, stream);
}
__global__ static void step_kernel(const headroom::gpu::Step* step, const float* grads) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  if (i < n && step->taken) weights[i] -= 0.3F * static_cast<float>(step->clip) * grads[i];
}
static void optimizer(const headroom::gpu::Step* step, const float* grads, cudaStream_t stream) {
  launch(step_kernel, (n + 255) / 256, 256, 0, stream, step, grads);
}

int main() {
  weights = zeros<float>(n);
  auto* const grads16 = zeros<__half>(n);
  auto* const sums = zeros<float>(n);
  const cudaStream_t stream{};
  const std::vector<int> micro_batches(4);
  headroom::gpu::Scaler<> scaler;
  const int steps = 50;
#include BLOCK
  return is_learnt(weights, n) && scaler.read(stream).report.norm < 0.1 ? 0 : 1;
}
