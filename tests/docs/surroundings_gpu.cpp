// CUDA on the CPU for the code blocks of docs/gpu.md, as in surroundings.cpp. check.py makes
// `launch(kernel, …, arguments)` of `kernel<<<…>>>(arguments)`.
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
struct Layer {
  unsigned size;
  __half* grads;
  float* weights;
};
static void backward(const Layer& body, const Layer& head, const float* loss_scale,
                     cudaStream_t stream) {
  for (const Layer* layer : {&body, &head})
    backward(loss_scale, layer->weights, layer->grads, layer->size, stream);
}

#include BLOCK

int main() {
  Layer body{8, zeros<__half>(8), zeros<float>(8)}, head{3, zeros<__half>(3), zeros<float>(3)};
  train(body, head, nullptr);
  return is_learnt(body.weights, body.size) && is_learnt(head.weights, head.size) ? 0 : 1;
}

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
