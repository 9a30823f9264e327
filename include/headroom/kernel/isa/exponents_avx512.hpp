#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/isa/exponents.hpp>

#if HEADROOM_DETAIL_HAS_X86 && HEADROOM_DETAIL_HAS_VECTORS

// Vectors of 64 bytes: what avx2.hpp says about its target region holds here too.

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#endif

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail::avx512_exponents {

inline constexpr std::size_t vector_bytes = 64;

#include <headroom/kernel/exponents.inl>

}  // namespace detail::avx512_exponents
template <>
struct detail::IsaExponents<Isa::avx512> : detail::avx512_exponents::Exponents {};
}  // namespace HEADROOM_BUILD
}  // namespace headroom

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
