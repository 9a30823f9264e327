#pragma once

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

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// An instruction set that is not compiled in uses the scalar kernels.
template <Isa isa>
struct IsaKernels : IsaKernels<Isa::scalar> {};

template <Isa isa, Op op, class In, class Out>
inline constexpr Kernel kernel_on = IsaKernels<has_simd<op, In, Out>() ? isa : Isa::scalar>::template kernel<op, In, Out>;
/// In the order of Isa.
template <Op op, class In, class Out>
inline constexpr Kernel kernels_by_isa[isa_count] = {kernel_on<Isa::scalar, op, In, Out>, kernel_on<Isa::avx2, op, In, Out>,
                                                     kernel_on<Isa::avx512, op, In, Out>, kernel_on<Isa::neon, op, In, Out>};

template <Op op, class In, class Out>
constexpr const Kernel* find_kernels() noexcept {
  static_assert(is_fp8<Out> || !quantizes(op), "headroom: quantizing writes float8_e4m3 or float8_e5m2");
#if HEADROOM_COMPILED
  if constexpr (is_compiled<In, Out>) {
    return CompiledKernels::compiled.kernels[static_cast<int>(op)][compiled_place<In>][compiled_place<Out>];
  } else
#endif
  {
    return kernels_by_isa<op, In, Out>;
  }
}

/// The kernels of an op from one format to another, by instruction set. An op that only reads ignores the other.
template <Op op, class In, class Out = In>
inline constexpr const Kernel* kernels = find_kernels<op, In, std::conditional_t<only_reads(op), In, Out>>();

/// The index of the active instruction set in `kernels`.
[[nodiscard]] inline std::size_t isa_index() { return static_cast<std::size_t>(active_isa()); }

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
