#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/kernel/isa.hpp>
#include <headroom/kernel/isa/scalar.hpp>
#if HEADROOM_COMPILED
#include <headroom/kernel/compiled.hpp>
#else
#include <headroom/kernel/isa/avx2.hpp>
#include <headroom/kernel/isa/avx512.hpp>
#include <headroom/kernel/isa/neon.hpp>
#endif

#include <cstddef>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Whether the SIMD instruction sets compute with the format: those they have instructions for, and all formats of up to 16
/// bits whose numbers, subnormal ones included, are normal floats (isa/lanes.inl). Other formats run on the scalar kernels. So
/// does everything if the chosen instruction set is not compiled into this translation unit (another one may have chosen it).
template <class Format>
inline constexpr bool has_registers = is_sixteen_bits<Format> || std::is_same_v<Format, binary32> ||
                                      (sizeof(typename Format::bits_type) <= 2 &&
                                       Format::bias + Format::mantissa_bits < binary32::bias &&
                                       holds_normals<Format, binary32>());

#if HEADROOM_COMPILED

template <Op op, class In, class Out>
inline constexpr Kernel scalar_kernels[isa_count] = {scalar::kernel_for<op, In, Out>(), scalar::kernel_for<op, In, Out>(),
                                                     scalar::kernel_for<op, In, Out>(), scalar::kernel_for<op, In, Out>()};

template <Op op, class In, class Out>
constexpr const Kernel (&compiled_kernels() noexcept)[isa_count] {
  if constexpr (is_compiled<op, In, Out>) {
    return boundary_v1::compiled.kernels[static_cast<int>(op)][compiled_place<In>][compiled_place<Out>];
  } else {
    return scalar_kernels<op, In, Out>;
  }
}

/// The kernels of an op from one format to another, by instruction set.
template <Op op, class In, class Out = In>
inline constexpr const Kernel (&kernels)[isa_count] = compiled_kernels<op, In, Out>();

#else

template <Op op, class In, class Out>
constexpr Kernel kernel_of(Isa isa) noexcept {
  (void)isa;
  if constexpr (has_registers<In> && has_registers<Out>) {
#if HEADROOM_DETAIL_HAS_AVX2
    if (isa == Isa::avx2) return avx2::kernel_for<op, In, Out>();
#endif
#if HEADROOM_DETAIL_HAS_AVX512
    if (isa == Isa::avx512) return avx512::kernel_for<op, In, Out>();
#endif
#if HEADROOM_DETAIL_HAS_NEON
    if (isa == Isa::neon) return neon::kernel_for<op, In, Out>();
#endif
  }
  return scalar::kernel_for<op, In, Out>();
}

/// The kernels of an op from one format to another, by instruction set.
template <Op op, class In, class Out = In>
inline constexpr Kernel kernels[isa_count] = {kernel_of<op, In, Out>(Isa::scalar), kernel_of<op, In, Out>(Isa::avx2),
                                              kernel_of<op, In, Out>(Isa::avx512), kernel_of<op, In, Out>(Isa::neon)};

#endif

/// The place of the active instruction set in `kernels`. Another unit of the program may have chosen one that this version does
/// not know.
[[nodiscard]] inline std::size_t isa_index() {
  const auto index = static_cast<std::size_t>(active_isa());
  return index < isa_count ? index : 0;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
