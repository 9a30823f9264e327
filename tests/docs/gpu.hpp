// CUDA on the CPU for the blocks of docs/gpu.md. check.sh makes `launch(kernel, …, arguments)` of
// `kernel<<<…>>>(arguments)`.
#include <headroom/gpu.hpp>

#include <cstddef>
#include <cstdio>
#include <fstream>
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
