#pragma once
// The part of HIP that headroom/gpu.hpp uses, for tests without ROCm. Only to be compiled.

#include <cstddef>
#include <cstdint>

#define __shared__ __attribute__((shared))
#define STAND_IN_BOUNDS(threads, waves, ...) \
  __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
#define __launch_bounds__(...) \
  STAND_IN_BOUNDS(__VA_ARGS__, 1, )  // as HIP's: waves in place of blocks

struct dim3 {
  unsigned x, y, z;
  __host__ __device__ dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
#define STAND_IN_INDEX(type, value)                        \
  struct type {                                            \
    __device__ operator unsigned() const { return value; } \
  }
STAND_IN_INDEX(ThreadX, __builtin_amdgcn_workitem_id_x());
STAND_IN_INDEX(BlockX, __builtin_amdgcn_workgroup_id_x());
STAND_IN_INDEX(BlockY, __builtin_amdgcn_workgroup_id_y());
STAND_IN_INDEX(SizeX, __builtin_amdgcn_workgroup_size_x());
STAND_IN_INDEX(GridY, __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y());
constexpr struct { ThreadX x; } threadIdx{};
constexpr struct {
  BlockX x;
  BlockY y;
} blockIdx{};
constexpr struct { SizeX x; } blockDim{};
constexpr struct { GridY y; } gridDim{};

inline __device__ void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
inline __device__ int stand_in_lane() {
  return __builtin_amdgcn_mbcnt_hi(~0U, __builtin_amdgcn_mbcnt_lo(~0U, 0U));
}
template <class T>
__device__ T __shfl(T value, int lane, int width) {
  int words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof value);
  const int from = (stand_in_lane() & -width) + lane % width;
  for (int& word : words) word = __builtin_amdgcn_ds_bpermute(from * 4, word);
  __builtin_memcpy(&value, words, sizeof value);
  return value;
}
template <class T>
__device__ T __shfl_xor(T value, int mask, int width) {
  return __shfl(value, stand_in_lane() ^ mask, width);
}
template <class T>
__device__ T atomicMax(T* place, T value) {
  return __hip_atomic_fetch_max(place, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
inline __device__ float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline __device__ unsigned __float_as_uint(float value) {
  return __builtin_bit_cast(unsigned, value);
}

using hipEvent_t = struct ihipEvent_t*;
using hipStream_t = struct ihipStream_t*;
enum hipError_t { hipSuccess, hipErrorNotReady };
enum hipMemcpyKind { hipMemcpyHostToDevice, hipMemcpyDeviceToHost };
enum hipMemoryType { hipMemoryTypeUnregistered, hipMemoryTypeDevice };
enum hipDeviceAttribute_t { hipDeviceAttributePageableMemoryAccess };
struct hipPointerAttribute_t {
  hipMemoryType type;
  int device;
};
struct hipFuncAttributes {};
#define hipEventDisableTiming 2

extern "C" {
const char* hipGetErrorString(hipError_t);
hipError_t hipGetLastError(), hipPeekAtLastError(), hipGetDevice(int*),
    hipMalloc(void**, std::size_t), hipFree(void*), hipHostMalloc(void**, std::size_t, unsigned),
    hipHostFree(void*), hipStreamSynchronize(hipStream_t),
    hipEventCreateWithFlags(hipEvent_t*, unsigned), hipEventDestroy(hipEvent_t),
    hipEventQuery(hipEvent_t), hipEventSynchronize(hipEvent_t),
    hipEventRecord(hipEvent_t, hipStream_t),
    hipMemcpy(void*, const void*, std::size_t, hipMemcpyKind),
    hipMemcpyAsync(void*, const void*, std::size_t, hipMemcpyKind, hipStream_t),
    hipMemsetAsync(void*, int, std::size_t, hipStream_t),
    hipPointerGetAttributes(hipPointerAttribute_t*, const void*),
    hipDeviceCanAccessPeer(int*, int, int), hipDeviceGetAttribute(int*, hipDeviceAttribute_t, int),
    hipFuncGetAttributes(hipFuncAttributes*, const void*),
    hipLaunchKernel(const void*, dim3, dim3, void**, std::size_t, hipStream_t);
}
