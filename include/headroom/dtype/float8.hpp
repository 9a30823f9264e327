#pragma once

#include <headroom/dtype/storage_float.hpp>

HEADROOM_DETAIL_BEGIN_NAMESPACE

struct e4m3 : float_format<std::uint8_t, 4, 3, 7, 0x7E, false> {};  ///< 0x7F and 0xFF are its only NaNs
struct e5m2 : ieee_format<std::uint8_t, 5, 2> {};                   ///< the upper half of a binary16

/// OCP FP8 E4M3 ("e4m3fn" in ml_dtypes, torch and ONNX): 1 sign, 4 exponent, 3 fraction bits, no Inf. Largest finite 448,
/// smallest normal 2^-6, smallest subnormal 2^-9. Magnitudes above 464 round beyond 448 and become NaN, or 448 with
/// `saturate`. A cast in torch 2.15 saturates; torch 2.4 gave NaN.
using float8_e4m3 = storage_float<e4m3>;

/// OCP FP8 E5M2: 1 sign, 5 exponent, 2 fraction bits, Inf and NaN as in IEEE 754. Largest finite 57344, smallest normal 2^-14,
/// smallest subnormal 2^-16: the range of fp16 with less than one significant decimal digit; for gradients.
using float8_e5m2 = storage_float<e5m2>;

HEADROOM_DETAIL_END_NAMESPACE
