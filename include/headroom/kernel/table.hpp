#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/kernel/isa.hpp>
#include <headroom/kernel/isa/avx2.hpp>
#include <headroom/kernel/isa/avx512.hpp>
#include <headroom/kernel/isa/neon.hpp>
#include <headroom/kernel/isa/rows.hpp>
#include <headroom/kernel/isa/scalar.hpp>
#include <headroom/kernel/stores.hpp>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace kernel {

/// Whether the SIMD instruction sets have registers for the format. double runs on the scalar kernels.
template <class Format>
inline constexpr bool has_registers =
    std::is_same_v<Format, binary16> || std::is_same_v<Format, brain16> || std::is_same_v<Format, binary32>;

// An instruction set that is chosen but not compiled into this translation unit (another one may have chosen it) runs as
// scalar.

template <class In, class Out>
inline const TransformKernels<In, Out>& transform_kernels(Stores stores = Stores::ordinary) {
  if constexpr (has_registers<In> && has_registers<Out>) {
#if HEADROOM_HAS_AVX2
    if (active_isa() == Isa::avx2)
      return stores == Stores::streaming ? avx2::streaming_row<In, Out> : avx2::transform_row<In, Out>;
#endif
#if HEADROOM_HAS_AVX512
    if (active_isa() == Isa::avx512)
      return stores == Stores::streaming ? avx512::streaming_row<In, Out> : avx512::transform_row<In, Out>;
#endif
#if HEADROOM_HAS_NEON
    if (active_isa() == Isa::neon) return neon::transform_row<In, Out>;
#endif
  }
  (void)stores;
  return scalar::transform_row<In, Out>;
}

template <class In>
inline const ReadKernels<In>& read_kernels() {
  if constexpr (has_registers<In>) {
#if HEADROOM_HAS_AVX2
    if (active_isa() == Isa::avx2) return avx2::read_row<In>;
#endif
#if HEADROOM_HAS_AVX512
    if (active_isa() == Isa::avx512) return avx512::read_row<In>;
#endif
#if HEADROOM_HAS_NEON
    if (active_isa() == Isa::neon) return neon::read_row<In>;
#endif
  }
  return scalar::read_row<In>;
}

}  // namespace kernel
}  // namespace HEADROOM_BUILD
}  // namespace headroom
