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
#include <atomic>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// One that is not compiled in runs as scalar: another unit of the program may have chosen it.
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

/// Another unit of the program may have chosen an instruction set that this version does not know.
[[nodiscard, gnu::cold, gnu::noinline]] inline std::size_t first_isa_index() {
  const auto index = static_cast<std::size_t>(active_isa());
  return index < static_cast<std::size_t>(isa_count) ? index : 0;
}
/// The place of the active instruction set in `kernels`.
[[nodiscard]] inline std::size_t isa_index() {
  const auto index = static_cast<std::size_t>(shared_v1::chosen_isa.load(std::memory_order_relaxed));  // large: none yet
  return index < static_cast<std::size_t>(isa_count) ? index : first_isa_index();
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
