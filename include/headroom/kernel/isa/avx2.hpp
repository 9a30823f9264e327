#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/kernel/isa/common.hpp>
#include <type_traits>

// AVX2 with F16C and FMA: Intel since Haswell (2013), AMD since Excavator (2015). Eight floats a register; sixteen-bit formats
// are loaded eight at a time as half a register and widened, by VCVTPH2PS for fp16 and by a byte shuffle for bf16.
//
// Everything up to the end of the file is compiled for this CPU, so nothing here may be a lambda or a friend (g++ leaves those
// out of the region), and __AVX2__ says nothing.

HEADROOM_DETAIL_BEGIN_TARGET(HEADROOM_DETAIL_TARGET_AVX2)

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail::avx2 {

inline constexpr std::size_t vector_bytes = 32;

#include <headroom/kernel/isa/x86.inl>

#include <headroom/kernel/isa/avx2_parts.inl>

inline void store_streaming(unsigned char* destination, u16_half bits) noexcept {
  _mm_stream_si128(reinterpret_cast<__m128i*>(destination), (__m128i)bits.lanes);
}
template <class Bits>
inline void store_streaming(unsigned char* destination, Bits bits) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination), (__m256i)bits.lanes);
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32s widen(binary16, u16_half bits) noexcept {
  return {_mm256_cvtph_ps((__m128i)bits.lanes)};
}
template <class Compute>
inline f32s widen(brain16, u16_half bits) noexcept {
  // One byte shuffle of two copies, which cost nothing where the elements come from memory; -1 makes zeros.
  const __m256i copies_u16x16 = _mm256_broadcastsi128_si256((__m128i)bits.lanes);
  const __m256i upper_halves = _mm256_setr_epi16(-1, 0x0100, -1, 0x0302, -1, 0x0504, -1, 0x0706,  //
                                                 -1, 0x0908, -1, 0x0b0a, -1, 0x0d0c, -1, 0x0f0e);
  return {(f32_lanes)_mm256_shuffle_epi8(copies_u16x16, upper_halves)};
}
inline u16_half narrow(binary16, f32s value) noexcept {  // hidden, else clang converts once more to store
  return {(u16_half_lanes)hidden(_mm256_cvtps_ph(value.lanes, _MM_FROUND_TO_NEAREST_INT))};
}

// Nearest-even by adding just under half a unit, and one more where the kept part is odd. A NaN would be carried to Inf or even
// to -0 by that sum: it keeps its upper half instead, made quiet. (VCVTNEPS2BF16 would do, but flushes subnormals; a byte blend
// would, but under -funsigned-char g++ 12 drops it.)
inline u16_half narrow(brain16, f32s value) noexcept {
  const u32_lanes bits = narrow(binary32{}, value).lanes;
  u32_lanes is_nan;  // not by the intrinsic, which -ffast-math makes false
  __asm__("vcmpunordps {%1, %1, %0|%0, %1, %1}" : "=x"(is_nan) : "x"(bits));
  const u32_lanes number = bits + 0x7fff + ((bits >> 16) & 1);
  const auto wide = (__m256i)(((~is_nan & number) | (is_nan & (bits | 0x00400000))) >> 16);
  return {(u16_half_lanes)_mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1))};
}
inline u16_lanes without(u16_lanes a, u16_lanes b) noexcept { return (u16_lanes)_mm256_subs_epu16((__m256i)a, (__m256i)b); }
inline u16_lanes by_turns(u16_lanes even, u16_lanes odd) noexcept {
  return (u16_lanes)_mm256_blend_epi16((__m256i)even, (__m256i)odd, 0xaa);
}
// Where there is no NaN, which one comparison says of two registers, rounding is all: as if the first had the even lanes and
// the second the odd ones, which are then brought into order.
inline u16s narrow(brain16, f32_pair value) noexcept {
  const u32_lanes low = narrow(binary32{}, value.first).lanes, high = narrow(binary32{}, value.second).lanes;
  __m256 is_nan;
  __asm__("vcmpunordps {%2, %1, %0|%0, %1, %2}" : "=x"(is_nan) : "x"(low), "x"(high));
  if (__builtin_expect(_mm256_movemask_ps(is_nan) != 0, 0)) {
    const u16_half first = narrow(brain16{}, value.first), second = narrow(brain16{}, value.second);
    return {(u16_lanes)_mm256_set_m128i((__m128i)second.lanes, (__m128i)first.lanes)};
  }
  const auto mixed = (__m256i)narrow(brain16{}, f32_by_parity{value.first, value.second}).lanes;
  const __m256i first_first = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                               0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  return {(u16_lanes)_mm256_permute4x64_epi64(_mm256_shuffle_epi8(mixed, first_first), 0xd8)};
}

inline f32s plus_exact_square(f32s sum, f32s value) noexcept {
  return {hidden(_mm256_fmadd_ps(value.lanes, value.lanes, sum.lanes))};
}

// ---- magnitudes ----

inline std::uint32_t largest_lane(u32s bits) noexcept { return largest_u32((__m256i)bits.lanes); }
inline std::uint16_t largest_lane(u16s bits) noexcept { return largest_u16((__m256i)bits.lanes); }
inline std::uint16_t largest_lane(u16_half bits) noexcept { return largest_u16((__m128i)bits.lanes); }
template <class Mask>
inline bool any(Mask mask) noexcept {
  return _mm256_movemask_epi8((__m256i)mask) != 0;
}
inline bool any_above(u32s magnitudes, std::uint32_t limit) noexcept {
  return any((i32_lanes)magnitudes.lanes > (i32_lanes)(u32_lanes{} + limit));
}
inline bool any_above(u16s magnitudes, std::uint16_t limit) noexcept {
  return any((i16_lanes)magnitudes.lanes > (i16_lanes)(u16_lanes{} + limit));
}
inline bool any_beyond(u16s lowest, u16s min, u16s max, u16s highest) noexcept {
  return any(((i16_lanes)lowest.lanes > (i16_lanes)min.lanes) | ((i16_lanes)max.lanes > (i16_lanes)highest.lanes));
}
inline u16s extended(u16_half bits) noexcept {
  return {(u16_lanes)_mm256_inserti128_si256(_mm256_setzero_si256(), (__m128i)bits.lanes, 0)};
}
// VPSIGNW leaves the amount where the magnitude is positive, and makes it zero where that is zero.
inline u16s plus_unless_zero(u16s bits, u16s abs, u16s amount) noexcept {
  return {bits.lanes + (u16_lanes)_mm256_sign_epi16((__m256i)amount.lanes, (__m256i)abs.lanes)};
}

// ---- sums of squares ----

using f64_by_parity = RegisterPair<f64s, by_parity>;
inline f64s to_doubles(f32s value) noexcept {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(value.lanes)), _mm256_cvtps_pd(_mm256_extractf128_ps(value.lanes, 1))};
}
inline f64_by_parity to_doubles(f32_by_parity value) noexcept { return {to_doubles(value.first), to_doubles(value.second)}; }
inline f64_by_parity added(f64_by_parity a, f64_by_parity b) noexcept {
  return {added(a.first, b.first), added(a.second, b.second)};
}
inline double sum_of(f64_lanes sums) noexcept { return sum_of_four(sums); }
inline double sum_of(f64_by_parity sums) noexcept { return sum_of(sums.first) + sum_of(sums.second); }

#include <headroom/kernel/isa/lanes.inl>
#include <headroom/kernel/kernels.inl>

}  // namespace detail::avx2
template <>
struct detail::IsaKernels<Isa::avx2> : detail::avx2::Kernels {};
}  // namespace HEADROOM_BUILD
}  // namespace headroom

HEADROOM_DETAIL_END_TARGET

#endif
