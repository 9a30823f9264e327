#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_VECTORS

#include <headroom/dtype/format.hpp>
#include <headroom/kernel/isa/cpu.hpp>
#include <headroom/kernel/isa/isa_list.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// How exponents are found: up to sixteen vectors of elements at a time, see kernel/exponents.inl.
struct ExponentFinder {
  void (*find)(const unsigned char* source, std::size_t vectors, unsigned char* pairs, unsigned char* special) noexcept;
  std::size_t vector_bytes;
};

namespace portable_exponents {

inline constexpr std::size_t vector_bytes = 16;

#include <headroom/kernel/exponents.inl>

}  // namespace portable_exponents
/// By instruction set.
template <Isa isa>
struct IsaExponents : portable_exponents::Exponents {};

#if HEADROOM_DETAIL_HAS_X86
// What avx2.hpp says about its target region holds here too.
HEADROOM_DETAIL_BEGIN_TARGET(HEADROOM_DETAIL_TARGET_AVX2)
namespace avx2_exponents {

inline constexpr std::size_t vector_bytes = 32;

#include <headroom/kernel/exponents.inl>

}  // namespace avx2_exponents
HEADROOM_DETAIL_END_TARGET
template <>
struct IsaExponents<Isa::avx2> : avx2_exponents::Exponents {};

HEADROOM_DETAIL_BEGIN_TARGET(HEADROOM_DETAIL_TARGET_AVX512)
namespace avx512_exponents {

inline constexpr std::size_t vector_bytes = 64;

#include <headroom/kernel/exponents.inl>

}  // namespace avx512_exponents
HEADROOM_DETAIL_END_TARGET
template <>
struct IsaExponents<Isa::avx512> : avx512_exponents::Exponents {};
#endif

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom

#endif
