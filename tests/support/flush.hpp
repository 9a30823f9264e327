#pragma once

#include <cstdint>
#include <cstring>

namespace support {

/// Whether this program computes with flush-to-zero: linking with -ffast-math switches it on at start-up, for the whole
/// program. A float or double that is subnormal then counts as zero wherever arithmetic reads it or would make it. Casts,
/// comparisons of 16-bit values and finite checks are done in integers and do not change.
inline bool flushes_subnormals() {
  static const bool flushes = [] {
    volatile float smallest_normal = 0x1p-126F, one_half = 0.5F;
    const volatile float product = smallest_normal * one_half;
    std::uint32_t bits = 0;
    const float copy = product;
    std::memcpy(&bits, &copy, sizeof bits);
    return bits == 0;
  }();
  return flushes;
}

}  // namespace support
