#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/convert.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/kernel/isa.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if HEADROOM_HAS_AVX2
#include <immintrin.h>
#endif

namespace headroom::kernel {
inline namespace HEADROOM_BUILD {

/// Into how many sums measure_bits spreads the squares: the floats of the widest register there is.
inline constexpr std::size_t sum_lanes = 16;

template <class Format>
struct MeasuredBits {
  typename Format::bits_type largest;  ///< as of max_abs_bits
  double sum_of_squares;               ///< of no meaning where `largest` is not finite
};

/// Pairwise, in a fixed order; one function for all instruction sets, so that even -ffast-math orders it alike for all.
[[gnu::noinline]] inline double sum_of_lanes(double* lanes) noexcept {
  for (std::size_t count = sum_lanes / 2; count > 0; count /= 2) {
    for (std::size_t i = 0; i < count; ++i) lanes[i] += lanes[i + count];
  }
  return lanes[0];
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

#include <headroom/kernel/isa/scalar.hpp>

#if HEADROOM_HAS_AVX2
#include <headroom/kernel/isa/avx2.hpp>
#endif

namespace headroom::kernel {
inline namespace HEADROOM_BUILD {

/// Whether the SIMD instruction sets have registers for the format. double runs on the scalar kernels.
template <class Format>
inline constexpr bool has_registers =
    std::is_same_v<Format, binary16> || std::is_same_v<Format, brain16> || std::is_same_v<Format, binary32>;

// An instruction set that is chosen but not compiled into this translation unit (another one may have chosen it) runs as
// scalar.

template <class In, class Out>
inline const TransformKernels<In, Out>& transform_kernels() {
  if constexpr (has_registers<In> && has_registers<Out>) {
#if HEADROOM_HAS_AVX2
    if (active_isa() == Isa::avx2) return avx2::transform_row<In, Out>;
#endif
  }
  return scalar::transform_row<In, Out>;
}

template <class In>
inline const ReadKernels<In>& read_kernels() {
  if constexpr (has_registers<In>) {
#if HEADROOM_HAS_AVX2
    if (active_isa() == Isa::avx2) return avx2::read_row<In>;
#endif
  }
  return scalar::read_row<In>;
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom::kernel
