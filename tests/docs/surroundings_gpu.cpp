// CUDA on the CPU for the code blocks of docs/gpu.md and its notes, as in surroundings.cpp.
// check.py makes `launch(kernel, …, arguments)` of `kernel<<<…>>>(arguments)`.
#include <headroom/gpu.hpp>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <headroom/observe/history.hpp>
#include <headroom/state/text.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

template <class... Parameters>
void launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, std::size_t bytes,
            cudaStream_t stream, std::common_type_t<Parameters>... arguments) {
  void* addresses[] = {&arguments...};
  cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), addresses, bytes, stream);
}
/// Memory of the "device" with zeros.
template <class T>
T* zeros(std::size_t n) {
  void* memory = nullptr;
  cudaMalloc(&memory, n * sizeof(T));
  cudaMemsetAsync(memory, 0, n * sizeof(T), nullptr);
  return static_cast<T*>(memory);
}
__global__ static void backward_kernel(const float* loss_scale, const float* weights, __half* grads,
                                       unsigned n) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  // Overflows with the first scale
  if (i < n) grads[i] = __float2half((weights[i] - 3.0F) * *loss_scale);
}
/// The gradient of half the squared distance of all weights to 3.
inline void backward(const float* loss_scale, const float* weights, __half* grads, unsigned n,
                     cudaStream_t stream) {
  launch(backward_kernel, (n + 255) / 256, 256, 0, stream, loss_scale, weights, grads, n);
}
inline bool is_learnt(const float* weights, unsigned n) {
  for (unsigned i = 0; i < n; ++i)
    if (!(weights[i] > 2.99F && weights[i] < 3.01F)) return false;  // NaN is not
  return true;
}

//// gpu_loop
#include "adamw.cuh"

struct Layer {
  unsigned size;
  __half *grads, *weights16;
  float *weights, *first_moment, *second_moment;

  explicit Layer(unsigned n)
      : size(n),
        grads(zeros<__half>(n)),
        weights16(zeros<__half>(n)),
        weights(zeros<float>(n)),
        first_moment(zeros<float>(n)),
        second_moment(zeros<float>(n)) {}
};
static void backward(const std::vector<Layer>& layers, const float* loss_scale,
                     cudaStream_t stream) {
  for (const Layer& l : layers) backward(loss_scale, l.weights, l.grads, l.size, stream);
}

#include BLOCK

int main() {
  const std::vector<Layer> layers{Layer(8), Layer(3)};
  auto* const rate = zeros<float>(1);
  *rate = 0.1F;
  train(layers, rate, nullptr);
  for (const Layer& l : layers)
    if (!is_learnt(l.weights, l.size) || __half2float(l.weights16[0]) < 2.98F) return 1;
  return 0;
}

//// gpu_kernel
#include BLOCK

int main() {
  auto* const grads = zeros<__half>(3);
  auto* const weights = zeros<float>(3);
  const headroom::gpu::Gradients list({{grads, 3}});
  headroom::gpu::Scaler<> scaler;
  for (int step = 0; step < 100; ++step) {
    backward(scaler.loss_scale(), weights, grads, 3, nullptr);
    scaler.measure(list, nullptr);
    scaler.update(nullptr, 1.0);
    launch(sgd, 1, 256, 0, nullptr, scaler.step(), grads, weights, 3);
  }
  return is_learnt(weights, 3) ? 0 : 1;
}

//// gpu_conditional
// The shim has no conditional nodes: nvcc compiles the block in gpu/conditional.cu.
#if 0
#include BLOCK
#endif
int main() {}

//// gpu_micro_batches
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

//// gpu_history

int main() {
  const cudaStream_t stream{};
  std::vector<float> a(3), b(700);
  const std::vector<std::string> names = {"embedding", "head"};
  const headroom::gpu::Gradients grads({{a.data(), a.size()}, {b.data(), b.size()}});
  headroom::gpu::Scaler<> scaler;
  headroom::History history;
  for (int step = 0; step < 3; ++step) {
    b[600] = step == 1 ? 1e38F * 10.0F : 1.0F;
    scaler.measure(grads, stream);
    scaler.update(stream);
#include BLOCK
  }
  const bool is_second = history.size() == 2 && history[1].nonfinite.path == "head";
  return is_second && history[0].nonfinite.path.empty() ? 0 : 1;
}

//// gpu_assign
using Network = std::vector<float>;
static std::vector<headroom::gpu::Gradient> gradients_of(Network& network) {
  return {{network.data(), network.size()}};
}

int main() {
  const cudaStream_t stream{};
  Network before(5), network(5, 1.0F);
  headroom::gpu::Gradients grads(gradients_of(before));
#include BLOCK
  headroom::gpu::Scaler<> scaler;
  scaler.unscale(grads, stream);
  return network[4] == 1.0F / *scaler.loss_scale() ? 0 : 1;
}

//// gpu_policy
#include BLOCK

int main() {
  const cudaStream_t stream{};
  auto* const gradient = zeros<float>(1);
  *gradient = 1e38F * 10.0F;
  const headroom::gpu::Gradients grads({{gradient, 1}});
  headroom::gpu::Scaler<Halving> scaler;
  scaler.measure(grads, stream);
  scaler.update(stream);
  return *scaler.loss_scale() == 32768.0F && scaler.read(stream).skipped ? 0 : 1;
}

//// gpu_saved

int main() {
  const cudaStream_t stream{};
  auto* const loss = zeros<__half>(1);
  const headroom::gpu::Gradients grads({{loss, 1}});
  headroom::gpu::Scaler<> scaler;
  for (int step = 0; step < 10; ++step) {
    *loss = __float2half(step == 3 ? 1e30F : 1.0F);
    scaler.measure(grads, stream);
    scaler.update(stream);
  }
#include BLOCK
  const auto resumed_as = resumed.read(stream);
  scaler.measure(grads, stream);
  scaler.update(stream);
  resumed.measure(grads, stream);
  resumed.update(stream);
  return resumed_as.steps == 10 && resumed_as.skips == 1 && resumed_as.policy == before.policy &&
                 resumed.read(stream).policy == scaler.read(stream).policy &&
                 resumed.step()->count == 10
             ? 0
             : 1;
}
