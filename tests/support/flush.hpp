#pragma once

#include <cstdint>
#include <cstring>

namespace support {

/// Whether this program runs with flush-to-zero. Linking with -ffast-math switches it on at
/// start-up, for the whole program. Arithmetic then reads subnormal floats and doubles as zero, and
/// returns zero instead of them. Casts, comparisons of 16-bit values and finite checks use
/// integers, so they give the same results.
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
