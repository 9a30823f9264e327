#pragma once

#include <cstddef>
#include <headroom/config.hpp>
#include <headroom/dtype/convert.hpp>

// What the instruction sets and the table that chooses among them have in common.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace kernel {

/// Into how many sums measure_bits spreads the squares: as many as keep two fused multiply-adds a cycle from waiting for each
/// other in the registers of AVX2.
inline constexpr std::size_t sum_lanes = 32;

template <class Format>
struct MeasuredBits {
  typename Format::bits_type largest;  ///< as of max_abs_bits
  double sum_of_squares;               ///< of no meaning where `largest` is not finite
};

/// Pairwise, the far halves first, as the registers before. The asm keeps -ffast-math from another order.
[[gnu::noinline]] inline double sum_of_lanes(double* lanes, std::size_t count) noexcept {
  for (std::size_t half = count / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    __asm__ volatile("" : : "r"(lanes) : "memory");
  }
  return lanes[0];
}

/// The kernels from one format to another. All take source, destination, number of elements and a factor (which `convert` does
/// not read), and return the largest stored magnitude as bits (`convert` 0); see kernels.inl.
template <class In, class Out>
struct TransformKernels {
  using function = typename Out::bits_type (*)(const void*, void*, std::size_t, double);
  function multiply, divide, convert;
};

/// The kernels that only read.
template <class In>
struct ReadKernels {
  typename In::bits_type (*max_abs_bits)(const void*, std::size_t);
  MeasuredBits<In> (*measure_bits)(const void*, std::size_t);
};

}  // namespace kernel
}  // namespace HEADROOM_BUILD
}  // namespace headroom
