#pragma once

// CUDA's runtime. For AMD it is HIP's, by the names of CUDA's that this folder uses: in a
// namespace, so that your code keeps HIP's names.

#include <headroom/config.hpp>

#if defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)
#include <hip/hip_runtime.h>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu {
using cudaError_t = ::hipError_t;
using cudaEvent_t = ::hipEvent_t;
using cudaFuncAttributes = ::hipFuncAttributes;
using cudaPointerAttributes = ::hipPointerAttribute_t;
using cudaStream_t = ::hipStream_t;

inline constexpr auto cudaSuccess = ::hipSuccess;
inline constexpr auto cudaErrorNotReady = ::hipErrorNotReady;
inline constexpr auto cudaMemcpyHostToDevice = ::hipMemcpyHostToDevice;
inline constexpr auto cudaMemcpyDeviceToHost = ::hipMemcpyDeviceToHost;
inline constexpr auto cudaMemoryTypeUnregistered = ::hipMemoryTypeUnregistered;
inline constexpr auto cudaMemoryTypeDevice = ::hipMemoryTypeDevice;
inline constexpr auto cudaDevAttrPageableMemoryAccess = ::hipDeviceAttributePageableMemoryAccess;
inline constexpr unsigned cudaEventDisableTiming = hipEventDisableTiming;  // a macro

inline constexpr auto& cudaDeviceCanAccessPeer = ::hipDeviceCanAccessPeer;
inline constexpr auto& cudaDeviceGetAttribute = ::hipDeviceGetAttribute;
inline constexpr auto& cudaEventCreateWithFlags = ::hipEventCreateWithFlags;
inline constexpr auto& cudaEventDestroy = ::hipEventDestroy;
inline constexpr auto& cudaEventQuery = ::hipEventQuery;
inline constexpr auto& cudaEventRecord = ::hipEventRecord;
inline constexpr auto& cudaEventSynchronize = ::hipEventSynchronize;
inline constexpr auto& cudaFree = ::hipFree;
inline constexpr auto& cudaGetDevice = ::hipGetDevice;
inline constexpr auto& cudaGetErrorString = ::hipGetErrorString;
inline constexpr auto& cudaGetLastError = ::hipGetLastError;
inline constexpr auto& cudaMemcpy = ::hipMemcpy;
inline constexpr auto& cudaMemcpyAsync = ::hipMemcpyAsync;
inline constexpr auto& cudaMemsetAsync = ::hipMemsetAsync;
inline constexpr auto& cudaPeekAtLastError = ::hipPeekAtLastError;
inline constexpr auto& cudaPointerGetAttributes = ::hipPointerGetAttributes;
inline constexpr auto& cudaStreamSynchronize = ::hipStreamSynchronize;

// Overloaded, of other parameters, or deprecated in some versions
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
inline cudaError_t cudaMalloc(void** place, std::size_t bytes) { return ::hipMalloc(place, bytes); }
inline cudaError_t cudaMallocHost(void** place, std::size_t bytes) {
  return ::hipHostMalloc(place, bytes, 0);
}
inline cudaError_t cudaFreeHost(void* memory) { return ::hipHostFree(memory); }
#pragma GCC diagnostic pop
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel* kernel) {
  return ::hipFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <class Kernel>
cudaError_t cudaLaunchKernel(Kernel* kernel, dim3 blocks, dim3 threads, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return ::hipLaunchKernel(reinterpret_cast<const void*>(kernel), blocks, threads, arguments,
                           shared_bytes, stream);
}
}  // namespace gpu
HEADROOM_DETAIL_END_NAMESPACE
#else
#include <cuda_runtime.h>
#endif
