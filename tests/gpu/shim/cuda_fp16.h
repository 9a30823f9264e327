#pragma once

#include <headroom/dtype/half.hpp>

#include <cstdint>

// See cuda_runtime.h.

struct __half {
  headroom::half value;
};
struct __nv_bfloat16 {
  headroom::bfloat16 value;
};
inline __half __ushort_as_half(std::uint16_t bits) { return {headroom::half::from_bits(bits)}; }
inline std::uint16_t __half_as_ushort(__half h) { return h.value.bits(); }
inline float __half2float(__half h) { return static_cast<float>(h.value); }
inline __half __float2half_rn(float x) { return {headroom::half(x)}; }
inline __half __float2half(float x) { return __float2half_rn(x); }
