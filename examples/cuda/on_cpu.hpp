#pragma once

// The part of CUDA that unscale.cuh and train.cu use, on the CPU, for tests without a GPU. Threads run one after another, so
// races do not show.

#include <headroom/dtype/half.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __global__
#define __device__

struct Dimensions {
  unsigned x;
};
inline Dimensions blockIdx{0}, threadIdx{0};
#define LAUNCH(kernel, blocks, stream, ...)                                                      \
  do {                                                                                           \
    (void)(stream);                                                                              \
    for (blockIdx.x = 0; blockIdx.x < (blocks); ++blockIdx.x)                                    \
      for (threadIdx.x = 0; threadIdx.x < threads_per_block; ++threadIdx.x) kernel(__VA_ARGS__); \
  } while (false)

using __half = headroom::half;
using __nv_bfloat16 = headroom::bfloat16;
inline float __half2float(__half value) { return static_cast<float>(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return static_cast<float>(value); }
inline __half __float2half(float value) { return __half(value); }
inline std::uint32_t __float_as_uint(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline void atomicMax(unsigned* place, unsigned value) { *place = *place < value ? value : *place; }

using cudaStream_t = int;
using cudaEvent_t = int;
enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
inline constexpr unsigned cudaEventDisableTiming = 2;
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "out of memory"; }
template <class T>
cudaError_t cudaMalloc(T** place, std::size_t bytes) {
  *place = static_cast<T*>(std::calloc(bytes + 1, 1));
  return *place != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
template <class T>
cudaError_t cudaMallocHost(T** place, std::size_t bytes) {
  return cudaMalloc(place, bytes);
}
inline void cudaFree(void* memory) { std::free(memory); }
inline void cudaFreeHost(void* memory) { std::free(memory); }
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned) { return cudaSuccess; }
inline void cudaEventDestroy(cudaEvent_t) {}
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
