#pragma once

namespace c10::cuda::CUDACachingAllocator {
inline int emptied = 0;  // for tests
inline void emptyCache() { ++emptied; }
}  // namespace c10::cuda::CUDACachingAllocator
