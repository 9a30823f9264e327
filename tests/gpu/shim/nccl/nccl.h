#pragma once

// What gpu/nccl.hpp uses, with the declarations of NVIDIA's header, for systems without it.
// tests/gpu/nccl.cpp defines the functions.

#include <cuda_runtime.h>

using ncclComm_t = struct ncclComm*;
enum ncclResult_t { ncclSuccess, ncclUnhandledCudaError, ncclSystemError };
enum ncclRedOp_t { ncclSum = 0, ncclMax = 2 };
enum ncclDataType_t { ncclUint64 = 5, ncclDouble = 8 };
extern "C" {
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t);
const char* ncclGetErrorString(ncclResult_t);
}
