#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/isa/exponents.hpp>

#if HEADROOM_DETAIL_HAS_X86 && HEADROOM_DETAIL_HAS_VECTORS

// Vectors of 32 bytes: what avx2.hpp says about its target region holds here too.

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c,fma")
#endif

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail::avx2_exponents {

inline constexpr std::size_t vector_bytes = 32;

#include <headroom/kernel/exponents.inl>

}  // namespace detail::avx2_exponents
template <>
struct detail::IsaExponents<Isa::avx2> : detail::avx2_exponents::Exponents {};
}  // namespace HEADROOM_BUILD
}  // namespace headroom

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
