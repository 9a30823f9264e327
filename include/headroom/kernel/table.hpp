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

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

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

template <Isa isa>
struct IsaKernels : IsaKernels<Isa::scalar> {};

template <class In, class Out>
constexpr Isa isa_for(int chosen) noexcept {
  return has_registers<In> && has_registers<Out> ? static_cast<Isa>(chosen) : Isa::scalar;
}
template <Op op, class In, class Out, class Isas = std::make_integer_sequence<int, isa_count>>
struct KernelsByIsa;
template <Op op, class In, class Out, int... isas>
struct KernelsByIsa<op, In, Out, std::integer_sequence<int, isas...>> {
  static constexpr Kernel list[] = {IsaKernels<isa_for<In, Out>(isas)>::template kernel<op, In, Out>...};
};

template <Op op, class In, class Out>
constexpr const Kernel* find_kernels() noexcept {
#if HEADROOM_COMPILED
  if constexpr (is_compiled<op, In, Out>) {
    return CompiledKernels::compiled.kernels[static_cast<int>(op)][compiled_place<In>][compiled_place<Out>];
  } else
#endif
  {
    return KernelsByIsa<op, In, Out>::list;
  }
}

/// The kernels of an op from one format to another, by instruction set.
template <Op op, class In, class Out = In>
inline constexpr const Kernel* kernels = find_kernels<op, In, Out>();

/// One that is the same for all of them.
[[nodiscard]] constexpr std::array<Kernel, isa_count> on_every_isa(Kernel kernel) noexcept {
  std::array<Kernel, isa_count> all{};
  for (Kernel& each : all) each = kernel;
  return all;
}

/// The place of the active instruction set in `kernels`. Another unit of the program may have chosen one that this version does
/// not know.
[[nodiscard]] inline std::size_t isa_index() {
  const auto index = static_cast<std::size_t>(active_isa());
  return index < static_cast<std::size_t>(isa_count) ? index : 0;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
