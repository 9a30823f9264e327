#pragma once

#include <cstddef>
#include <headroom/config.hpp>

// What the instruction sets and the table that chooses among them have in common.

namespace headroom::kernel {
inline namespace HEADROOM_BUILD {

/// Into how many sums measure_bits spreads the squares: the floats of the widest register there is.
inline constexpr std::size_t sum_lanes = 16;

template <class Format>
struct MeasuredBits {
  typename Format::bits_type largest;  ///< as of max_abs_bits
  double sum_of_squares;               ///< of no meaning where `largest` is not finite
};

/// Pairwise, the far halves first; one function for all instruction sets, so that even -ffast-math orders it alike for all.
[[gnu::noinline]] inline double sum_of_lanes(const double* lanes) noexcept {
  static_assert(sum_lanes == 16);
  const double a0 = lanes[0] + lanes[8], a1 = lanes[1] + lanes[9], a2 = lanes[2] + lanes[10], a3 = lanes[3] + lanes[11];
  const double a4 = lanes[4] + lanes[12], a5 = lanes[5] + lanes[13], a6 = lanes[6] + lanes[14], a7 = lanes[7] + lanes[15];
  const double b0 = a0 + a4, b1 = a1 + a5, b2 = a2 + a6, b3 = a3 + a7;
  return (b0 + b2) + (b1 + b3);
}

/// The kernels from one format to another. All take source, destination, number of elements and a factor (which `convert` does
/// not read), and return the largest stored magnitude as bits; see kernels.inl.
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

}  // namespace HEADROOM_BUILD
}  // namespace headroom::kernel
