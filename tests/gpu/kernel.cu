// Device code of what needs no header of CUDA or HIP. With UNANNOTATED it must not compile.
#include "device.hpp"

__global__ void hash_kernel(const Cases* cases, std::uint64_t* hash) {
  *hash = hash_of(*cases);
#ifdef UNANNOTATED
  *hash += static_cast<std::uint64_t>(cases->dynamic.inv_scale());
#endif
}
extern "C" __device__ void hash_on_device(const Cases* cases, std::uint64_t* hash) {
  *hash = hash_of(*cases);
}
