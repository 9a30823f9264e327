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

// Structs, because a raw __m256 loses its alignment attribute as a template argument.
struct f32x8 {
  __m256 lanes;
};
struct u32x8 {
  __m256i lanes;
};
struct u16x8 {
  __m128i lanes;
};
struct u16x16 {
  __m256i lanes;
};
struct f64x8 {
  __m256d low, high;
};
using u32x16 = RegisterPair<u32x8, in_order>;
using f32x16 = RegisterPair<f32x8, in_order>;
using f32x8x2 = RegisterPair<f32x8, by_parity>;
struct f64x8x2 {
  f64x8 even, odd;
};

template <class In, class Out>
using compute_for = std::conditional_t<
    !std::is_same_v<Out, brain16>, f32x8,
    std::conditional_t<std::is_same_v<In, brain16>, f32x8x2, std::conditional_t<std::is_same_v<In, binary32>, f32x16, f32x8>>>;
template <class Compute>
inline constexpr std::size_t lanes_of = std::is_same_v<Compute, f32x8> ? 8 : 16;
template <class In>
inline constexpr std::size_t read_lanes = is_sixteen_bits<In> ? 16 : 8;

// ---- load and store: always unaligned, and always as integers, so that no compiler may think a NaN cannot be there ----

template <std::size_t Lanes>
inline auto load(binary32, const unsigned char* source) noexcept {
  const u32x8 low = {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source))};
  if constexpr (Lanes == 16) {
    return u32x16{low, {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + 32))}};
  } else {
    return low;
  }
}
template <std::size_t Lanes>
inline auto load(binary16, const unsigned char* source) noexcept {
  if constexpr (Lanes == 16) {
    return u16x16{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source))};
  } else {
    return u16x8{_mm_loadu_si128(reinterpret_cast<const __m128i*>(source))};
  }
}
template <class Bits>
inline void store(unsigned char* destination, Bits bits) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination), bits.lanes);
}
inline void store(unsigned char* destination, u16x8 bits) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(destination), bits.lanes);
}

#include <headroom/kernel/isa/avx2_parts.inl>

inline constexpr bool has_streaming_stores = true;
inline void finish_streaming() noexcept { _mm_sfence(); }
template <class Bits>
inline void store_streaming(unsigned char* destination, Bits bits) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination), bits.lanes);
}
inline void store_streaming(unsigned char* destination, u16x8 bits) noexcept {
  _mm_stream_si128(reinterpret_cast<__m128i*>(destination), bits.lanes);
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32x8 widen(binary32, u32x8 bits) noexcept {
  return {_mm256_castsi256_ps(bits.lanes)};
}
template <class Compute>
inline f32x8 widen(binary16, u16x8 bits) noexcept {
  return {_mm256_cvtph_ps(bits.lanes)};
}
template <class Compute>
inline f32x8 widen(brain16, u16x8 bits) noexcept {
  // One byte shuffle of two copies, which cost nothing where the elements come from memory; -1 makes zeros.
  const __m256i copies_u16x16 = _mm256_broadcastsi128_si256(bits.lanes);
  const __m256i upper_halves = _mm256_setr_epi16(-1, 0x0100, -1, 0x0302, -1, 0x0504, -1, 0x0706,  //
                                                 -1, 0x0908, -1, 0x0b0a, -1, 0x0d0c, -1, 0x0f0e);
  return {_mm256_castsi256_ps(_mm256_shuffle_epi8(copies_u16x16, upper_halves))};
}

// In place there is no need to bring the lanes into another order: the even ones are shifted up, the odd ones are up already.
template <class Compute>
inline f32x8x2 widen(brain16, u16x16 bits) noexcept {
  const __m256i odd_u32x8 = _mm256_and_si256(bits.lanes, _mm256_set1_epi32(static_cast<int>(0xffff0000)));
  return {{_mm256_castsi256_ps(_mm256_slli_epi32(bits.lanes, 16))}, {_mm256_castsi256_ps(odd_u32x8)}};
}

// The empty asm hides that the bits come from a floating-point result: under -ffast-math that would count as proof that they
// are not those of Inf or NaN, and the check of them would be folded away.
inline u32x8 narrow(binary32, f32x8 value) noexcept {
  __m256i bits_u32x8 = _mm256_castps_si256(value.lanes);
  __asm__("" : "+x"(bits_u32x8));
  return {bits_u32x8};
}
inline u16x8 narrow(binary16, f32x8 value) noexcept {
  __m128i bits_u16x8 = _mm256_cvtps_ph(value.lanes, _MM_FROUND_TO_NEAREST_INT);
  __asm__("" : "+x"(bits_u16x8));  // else clang converts once more to store
  return {bits_u16x8};
}

// Nearest-even by adding just under half a unit, and one more where the kept part is odd. A NaN would be carried to Inf or even
// to -0 by that sum: it keeps its upper half instead, made quiet. (VCVTNEPS2BF16 would do, but flushes subnormals; a byte blend
// would, but under -funsigned-char g++ 12 drops it.)
inline u16x8 narrow(brain16, f32x8 value) noexcept {
  const __m256i bits_u32x8 = narrow(binary32{}, value).lanes;
  __m256i is_nan_u32x8;  // not by the intrinsic, which -ffast-math makes false
  __asm__("vcmpunordps {%1, %1, %0|%0, %1, %1}" : "=x"(is_nan_u32x8) : "x"(bits_u32x8));
  const __m256i odd_u32x8 = _mm256_and_si256(_mm256_srli_epi32(bits_u32x8, 16), _mm256_set1_epi32(1));
  const __m256i sum_u32x8 = _mm256_add_epi32(_mm256_add_epi32(bits_u32x8, _mm256_set1_epi32(0x7fff)), odd_u32x8);
  const __m256i number_u32x8 = _mm256_andnot_si256(is_nan_u32x8, sum_u32x8);
  const __m256i nan_u32x8 = _mm256_and_si256(is_nan_u32x8, _mm256_or_si256(bits_u32x8, _mm256_set1_epi32(0x00400000)));
  const __m256i wide_u32x8 = _mm256_srli_epi32(_mm256_or_si256(number_u32x8, nan_u32x8), 16);
  return {_mm_packus_epi32(_mm256_castsi256_si128(wide_u32x8), _mm256_extracti128_si256(wide_u32x8, 1))};
}

// Nearest-even: up by one where more than 0x8000 is dropped, or just that beside an odd number; which is where what is dropped,
// less one beside an even number, is 0x8000 or more.
inline __m256i rounded(__m256i kept_u16x16, __m256i dropped_u16x16) noexcept {
  const __m256i is_even = _mm256_andnot_si256(kept_u16x16, _mm256_set1_epi16(1));
  return _mm256_add_epi16(kept_u16x16, _mm256_srli_epi16(_mm256_subs_epu16(dropped_u16x16, is_even), 15));
}
// From bf16 to bf16 no NaN needs care: the lower half of one is zero, whether it was widened or is the CPU's own.
inline u16x16 narrow(brain16, f32x8x2 value) noexcept {
  const __m256i even_u32x8 = narrow(binary32{}, value.first).lanes, odd_u32x8 = narrow(binary32{}, value.second).lanes;
  const __m256i kept = _mm256_blend_epi16(_mm256_srli_epi32(even_u32x8, 16), odd_u32x8, 0xaa);
  const __m256i dropped = _mm256_blend_epi16(even_u32x8, _mm256_slli_epi32(odd_u32x8, 16), 0xaa);
  return {rounded(kept, dropped)};
}
// Where there is no NaN, which one comparison says of two registers, rounding is all: as if the first had the even lanes and
// the second the odd ones, which are then brought into order.
inline u16x16 narrow(brain16, f32x16 value) noexcept {
  const __m256i low_u32x8 = narrow(binary32{}, value.first).lanes, high_u32x8 = narrow(binary32{}, value.second).lanes;
  __m256i is_nan_u32x8;
  __asm__("vcmpunordps {%2, %1, %0|%0, %1, %2}" : "=x"(is_nan_u32x8) : "x"(low_u32x8), "x"(high_u32x8));
  if (__builtin_expect(_mm256_movemask_ps(_mm256_castsi256_ps(is_nan_u32x8)) != 0, 0)) {
    return {_mm256_set_m128i(narrow(brain16{}, value.second).lanes, narrow(brain16{}, value.first).lanes)};
  }
  const __m256i by_turns = narrow(brain16{}, f32x8x2{value.first, value.second}).lanes;
  const __m256i first_first = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                               0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  return {_mm256_permute4x64_epi64(_mm256_shuffle_epi8(by_turns, first_first), 0xd8)};
}

// ---- arithmetic ----

template <class Compute>
inline Compute broadcast(double factor) noexcept {
  const f32x8 lanes = {_mm256_set1_ps(static_cast<float>(factor))};
  if constexpr (lanes_of<Compute> == 16) {
    return {lanes, lanes};
  } else {
    return lanes;
  }
}
inline f32x8 multiplied(f32x8 value, f32x8 factor) noexcept { return {_mm256_mul_ps(value.lanes, factor.lanes)}; }
// The empty asm keeps the product from becoming a part of a fused multiply-add, and sums in their order.
inline f32x8 plus(f32x8 value, f32x8 product) noexcept {
  __asm__("" : "+x"(product.lanes));
  f32x8 sum = {_mm256_add_ps(value.lanes, product.lanes)};
  __asm__("" : "+x"(sum.lanes));
  return sum;
}

inline f32x8 plus_exact_square(f32x8 sum, f32x8 value) noexcept {
  sum.lanes = _mm256_fmadd_ps(value.lanes, value.lanes, sum.lanes);
  __asm__("" : "+x"(sum.lanes));
  return sum;
}

// Not _mm256_div_ps: under -ffast-math compilers make an approximate reciprocal and a Newton step of it.
inline f32x8 divided(f32x8 value, f32x8 divisor) noexcept {
  f32x8 quotient;
  __asm__("vdivps {%2, %1, %0|%0, %1, %2}" : "=x"(quotient.lanes) : "x"(value.lanes), "x"(divisor.lanes));
  return quotient;
}

/// Whether the lower half of a lane is within two units of 0x8000, or a lane may have been flushed to zero.
inline bool may_round_otherwise(f32x8 a, f32x8 b) noexcept {
  const __m256i upper_u16x16 = _mm256_slli_epi32(narrow(binary32{}, b).lanes, 16);
  const __m256i halves_u16x16 = _mm256_blend_epi16(narrow(binary32{}, a).lanes, upper_u16x16, 0xaa);
  const __m256i from_least_i16x16 = _mm256_add_epi16(halves_u16x16, _mm256_set1_epi16(2));  // 0x7ffe becomes -0x8000
  return flushes_subnormals() || _mm256_movemask_epi8(_mm256_cmpgt_epi16(_mm256_set1_epi16(-0x7ffb), from_least_i16x16)) != 0;
}

// ---- the largest magnitude, in integers: the bits without the sign order as the values do, Inf and NaN on top; as signed
// integers, for whose maximum some CPUs have more units ----

inline u32x8 larger(u32x8 a, u32x8 b) noexcept { return {_mm256_max_epi32(a.lanes, b.lanes)}; }
inline u16x8 larger(u16x8 a, u16x8 b) noexcept { return {_mm_max_epi16(a.lanes, b.lanes)}; }
inline u16x16 larger(u16x16 a, u16x16 b) noexcept { return {_mm256_max_epi16(a.lanes, b.lanes)}; }
inline u32x8 magnitudes(u32x8 bits) noexcept { return {_mm256_and_si256(bits.lanes, _mm256_set1_epi32(0x7fffffff))}; }
inline u16x8 magnitudes(u16x8 bits) noexcept { return {_mm_and_si128(bits.lanes, _mm_set1_epi16(0x7fff))}; }
inline u16x16 magnitudes(u16x16 bits) noexcept { return {_mm256_and_si256(bits.lanes, _mm256_set1_epi16(0x7fff))}; }
inline std::uint32_t largest_lane(u32x8 bits) noexcept {
  __m128i max_u32x4 = _mm_max_epu32(_mm256_castsi256_si128(bits.lanes), _mm256_extracti128_si256(bits.lanes, 1));
  max_u32x4 = _mm_max_epu32(max_u32x4, _mm_shuffle_epi32(max_u32x4, 0x4e));
  max_u32x4 = _mm_max_epu32(max_u32x4, _mm_shuffle_epi32(max_u32x4, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(max_u32x4));
}
// PHMINPOSUW finds the smallest of eight; the complement turns that into the largest.
inline std::uint16_t largest_lane(u16x8 bits) noexcept {
  const __m128i complement_u16x8 = _mm_xor_si128(bits.lanes, _mm_set1_epi16(-1));
  return static_cast<std::uint16_t>(~_mm_cvtsi128_si32(_mm_minpos_epu16(complement_u16x8)));
}
inline std::uint16_t largest_lane(u16x16 bits) noexcept {
  return largest_lane(larger(u16x8{_mm256_castsi256_si128(bits.lanes)}, u16x8{_mm256_extracti128_si256(bits.lanes, 1)}));
}
inline bool any(__m256i lanes) noexcept { return _mm256_testz_si256(lanes, lanes) == 0; }
inline bool any_above(u32x8 magnitudes, std::uint32_t limit) noexcept {
  return any(_mm256_cmpgt_epi32(magnitudes.lanes, _mm256_set1_epi32(static_cast<int>(limit))));
}
inline bool any_above(u16x16 magnitudes, std::uint16_t limit) noexcept {
  return any(_mm256_cmpgt_epi16(magnitudes.lanes, _mm256_set1_epi16(static_cast<short>(limit))));
}
inline u16x16 extended(u16x8 bits) noexcept { return {_mm256_inserti128_si256(_mm256_setzero_si256(), bits.lanes, 0)}; }

// ---- sixteen bits times a power of two, in integers ----

using sixteen_bits = u16x16;
inline u16x16 all_sixteen(int value) noexcept { return {_mm256_set1_epi16(static_cast<short>(value))}; }
inline u16x16 smaller(u16x16 a, u16x16 b) noexcept { return {_mm256_min_epi16(a.lanes, b.lanes)}; }
// Plus 0x7fff, magnitudes are in order from the most negative integer on, but for zero, which is the greatest.
inline u16x16 with_zero_last(u16x16 bits) noexcept { return {_mm256_add_epi16(bits.lanes, _mm256_set1_epi16(0x7fff))}; }
inline bool any_beyond(u16x16 lowest, u16x16 min, u16x16 max, u16x16 highest) noexcept {
  return any(_mm256_or_si256(_mm256_cmpgt_epi16(lowest.lanes, min.lanes), _mm256_cmpgt_epi16(max.lanes, highest.lanes)));
}
// VPSIGNW leaves the amount where the magnitude is positive, and makes it zero where that is zero.
inline u16x16 plus_unless_zero(u16x16 bits, u16x16 abs, u16x16 amount) noexcept {
  return {_mm256_add_epi16(bits.lanes, _mm256_sign_epi16(amount.lanes, abs.lanes))};
}

// ---- sums of squares. The asm keeps -ffast-math from adding in another order ----

inline f64x8 to_doubles(f32x8 value) noexcept {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(value.lanes)), _mm256_cvtps_pd(_mm256_extractf128_ps(value.lanes, 1))};
}
inline f64x8x2 to_doubles(f32x8x2 value) noexcept { return {to_doubles(value.first), to_doubles(value.second)}; }
inline __m256d added(__m256d a, __m256d b) noexcept {
  __m256d sum = _mm256_add_pd(a, b);
  __asm__("" : "+x"(sum));
  return sum;
}
inline f64x8 added(f64x8 a, f64x8 b) noexcept { return {added(a.low, b.low), added(a.high, b.high)}; }
inline f64x8x2 added(f64x8x2 a, f64x8x2 b) noexcept { return {added(a.even, b.even), added(a.odd, b.odd)}; }
inline __m128d halves_added(__m256d sums) noexcept {
  __m128d sum = _mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1));
  __asm__("" : "+x"(sum));
  return sum;
}
inline double lanes_added(__m128d sums) noexcept {
  return launder(_mm_cvtsd_f64(_mm_add_sd(sums, _mm_unpackhi_pd(sums, sums))));
}
inline double sum_of(f64x8 sums) noexcept { return lanes_added(halves_added(added(sums.low, sums.high))); }
inline double sum_of(f64x8x2 sums) noexcept {
  return lanes_added(halves_added(added(sums.even.low, sums.even.high))) +
         lanes_added(halves_added(added(sums.odd.low, sums.odd.high)));
}

#include <headroom/kernel/isa/lanes.inl>
#include <headroom/kernel/kernels.inl>

}  // namespace detail::avx2
template <>
struct detail::IsaKernels<Isa::avx2> : detail::avx2::Kernels {};
}  // namespace HEADROOM_BUILD
}  // namespace headroom

HEADROOM_DETAIL_END_TARGET

#endif
