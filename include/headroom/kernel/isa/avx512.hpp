#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/kernel/isa/common.hpp>
#include <type_traits>

// AVX-512 with F, BW, VL and DQ: Intel since Skylake-X (2017), AMD since Zen 4 (2022). Sixteen floats a register; fp16
// is loaded sixteen at a time as half a register and widened by VCVTPH2PS, bf16 the same and by a shift, or, where it stays
// bf16, thirty-two at a time. AVX512-FP16 is not used, for it would compute in fp16, nor is AVX512_BF16: VCVTNEPS2BF16 makes
// zeros of subnormals.
//
// What avx2.hpp says about its target region holds here too. g++ 12 warns that the unmasked forms of some intrinsics read an
// uninitialised register: where it does, the maskz form with all lanes is the same instruction.

HEADROOM_DETAIL_BEGIN_TARGET(HEADROOM_DETAIL_TARGET_AVX512)

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail::avx512 {

// Structs, because a raw __m512 loses its alignment attribute as a template argument.
struct f32x16 {
  __m512 lanes;
};
struct u32x16 {
  __m512i lanes;
};
struct u16x16 {
  __m256i lanes;
};
struct u16x32 {
  __m512i lanes;
};
struct f64x16 {
  __m512d low, high;
};
using u32x32 = RegisterPair<u32x16, in_order>;
using f32x32 = RegisterPair<f32x16, in_order>;
using f32x16x2 = RegisterPair<f32x16, by_parity>;
/// Sixteen doubles: those of the even lanes and those of the odd ones.
struct f64x8x2 {
  __m512d even, odd;
};

template <class In, class Out>
using compute_for = std::conditional_t<!std::is_same_v<Out, brain16>, f32x16,
                                       std::conditional_t<std::is_same_v<In, brain16>, f32x16x2,
                                                          std::conditional_t<std::is_same_v<In, binary32>, f32x32, f32x16>>>;
template <class Compute>
inline constexpr std::size_t lanes_of = std::is_same_v<Compute, f32x16> ? 16 : 32;
template <class In>
inline constexpr std::size_t read_lanes = is_sixteen_bits<In> ? 32 : 16;

// ---- load and store: always unaligned, and always as integers, so that no compiler may think a NaN cannot be there ----

// Else g++ loads once for each use, and each time from two lines, unless the array is aligned to them.
inline __m512i loaded(const unsigned char* source) noexcept {
  __m512i bits = _mm512_loadu_si512(source);
  __asm__("" : "+v"(bits));
  return bits;
}
template <std::size_t Lanes>
inline auto load(binary32, const unsigned char* source) noexcept {
  const u32x16 low = {loaded(source)};
  if constexpr (Lanes == 32) {
    return u32x32{low, {loaded(source + 64)}};
  } else {
    return low;
  }
}
template <std::size_t Lanes>
inline auto load(binary16, const unsigned char* source) noexcept {
  if constexpr (Lanes == 32) {
    return u16x32{loaded(source)};
  } else {
    return u16x16{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source))};
  }
}

inline void store(unsigned char* destination, u32x16 bits) noexcept { _mm512_storeu_si512(destination, bits.lanes); }
inline void store(unsigned char* destination, u16x32 bits) noexcept { _mm512_storeu_si512(destination, bits.lanes); }
inline void store(unsigned char* destination, u16x16 bits) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination), bits.lanes);
}

#include <headroom/kernel/isa/avx512_parts.inl>

inline constexpr bool has_streaming_stores = true;
inline void finish_streaming() noexcept { _mm_sfence(); }
inline void store_streaming(unsigned char* destination, u32x16 bits) noexcept {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(destination), bits.lanes);
}
inline void store_streaming(unsigned char* destination, u16x32 bits) noexcept {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(destination), bits.lanes);
}
inline void store_streaming(unsigned char* destination, u16x16 bits) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination), bits.lanes);
}

inline u16x32 extended(u16x16 bits) noexcept { return {_mm512_maskz_inserti64x4(0xff, _mm512_setzero_si512(), bits.lanes, 0)}; }

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32x16 widen(binary32, u32x16 bits) noexcept {
  return {_mm512_castsi512_ps(bits.lanes)};
}
template <class Compute>
inline f32x16 widen(binary16, u16x16 bits) noexcept {
  return {_mm512_maskz_cvtph_ps(0xffff, bits.lanes)};
}
template <class Compute>
inline f32x16 widen(brain16, u16x16 bits) noexcept {
  const __m512i wide_u32x16 = _mm512_maskz_cvtepu16_epi32(0xffff, bits.lanes);
  return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, wide_u32x16, 16))};
}

// In place there is no need to bring the lanes into another order: the even ones are shifted up, the odd ones are up already.
template <class Compute>
inline f32x16x2 widen(brain16, u16x32 bits) noexcept {
  const __m512i odd_u32x16 = _mm512_and_si512(bits.lanes, _mm512_set1_epi32(static_cast<int>(0xffff0000)));
  return {{_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, bits.lanes, 16))}, {_mm512_castsi512_ps(odd_u32x16)}};
}

// The empty asm hides that the bits come from a floating-point result: under -ffast-math that would count as proof that they
// are not those of Inf or NaN, and the check of them would be folded away.
inline u32x16 narrow(binary32, f32x16 value) noexcept {
  __m512i bits_u32x16 = _mm512_castps_si512(value.lanes);
  __asm__("" : "+v"(bits_u32x16));
  return {bits_u32x16};
}
inline u16x16 narrow(binary16, f32x16 value) noexcept {
  __m256i bits_u16x16 = _mm512_maskz_cvtps_ph(0xffff, value.lanes, _MM_FROUND_TO_NEAREST_INT);
  __asm__("" : "+v"(bits_u16x16));  // else clang converts once more to store
  return {bits_u16x16};
}

// Nearest-even by adding just under half a unit, and one more where the kept part is odd. A NaN would be carried to Inf or even
// to -0 by that sum: it keeps its upper half instead, made quiet.
inline u16x16 narrow(brain16, f32x16 value) noexcept {
  const __m512i bits_u32x16 = narrow(binary32{}, value).lanes;
  const __m512i odd_u32x16 = _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, bits_u32x16, 16), _mm512_set1_epi32(1));
  const __m512i sum_u32x16 = _mm512_add_epi32(_mm512_add_epi32(bits_u32x16, _mm512_set1_epi32(0x7fff)), odd_u32x16);
  const __m512i magnitude_u32x16 = _mm512_and_si512(bits_u32x16, _mm512_set1_epi32(0x7fffffff));
  const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(magnitude_u32x16, _mm512_set1_epi32(0x7f800000));
  const __m512i result_u32x16 = _mm512_mask_or_epi32(sum_u32x16, is_nan, bits_u32x16, _mm512_set1_epi32(0x00400000));
  return {_mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, result_u32x16, 16))};
}
// To nearest-even: avx2.hpp says how.
inline __m512i rounded(__m512i kept_u16x32, __m512i dropped_u16x32) noexcept {
  const __m512i is_even = _mm512_maskz_andnot_epi32(0xffff, kept_u16x32, _mm512_set1_epi16(1));
  return _mm512_add_epi16(kept_u16x32, _mm512_srli_epi16(_mm512_subs_epu16(dropped_u16x32, is_even), 15));
}
// Where there is no NaN, which one comparison says of two registers, rounding is all.
inline u16x32 narrow(brain16, f32x32 value) noexcept {
  const __m512i low_u32x16 = narrow(binary32{}, value.first).lanes, high_u32x16 = narrow(binary32{}, value.second).lanes;
  __mmask16 is_nan;
  __asm__("vcmpunordps {%2, %1, %0|%0, %1, %2}" : "=k"(is_nan) : "v"(low_u32x16), "v"(high_u32x16));
  if (__builtin_expect(is_nan != 0, 0)) {
    const __m512i low = extended(narrow(brain16{}, value.first)).lanes;
    return {_mm512_maskz_inserti64x4(0xff, low, narrow(brain16{}, value.second).lanes, 1)};
  }
  const __m512i lower = _mm512_setr_epi32(0x020000, 0x060004, 0x0a0008, 0x0e000c, 0x120010, 0x160014, 0x1a0018, 0x1e001c,  //
                                          0x220020, 0x260024, 0x2a0028, 0x2e002c, 0x320030, 0x360034, 0x3a0038, 0x3e003c);
  const __m512i upper = _mm512_add_epi16(lower, _mm512_set1_epi16(1));
  return {rounded(_mm512_permutex2var_epi16(low_u32x16, upper, high_u32x16),
                  _mm512_permutex2var_epi16(low_u32x16, lower, high_u32x16))};
}
// From bf16 to bf16 no NaN needs care: the lower half of one is zero, whether it was widened or is the CPU's own.
inline u16x32 narrow(brain16, f32x16x2 value) noexcept {
  const __m512i even_u32x16 = narrow(binary32{}, value.first).lanes, odd_u32x16 = narrow(binary32{}, value.second).lanes;
  const __m512i kept = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_maskz_srli_epi32(0xffff, even_u32x16, 16), odd_u32x16);
  const __m512i dropped = _mm512_mask_blend_epi16(0xaaaaaaaa, even_u32x16, _mm512_maskz_slli_epi32(0xffff, odd_u32x16, 16));
  return {rounded(kept, dropped)};
}

// ---- arithmetic ----

template <class Compute>
inline Compute broadcast(double factor) noexcept {
  const f32x16 lanes = {_mm512_set1_ps(static_cast<float>(factor))};
  if constexpr (lanes_of<Compute> == 32) {
    return {lanes, lanes};
  } else {
    return lanes;
  }
}
inline f32x16 multiplied(f32x16 value, f32x16 factor) noexcept { return {_mm512_mul_ps(value.lanes, factor.lanes)}; }
// The empty asm keeps the product from becoming a part of a fused multiply-add, and sums in their order.
inline f32x16 plus(f32x16 value, f32x16 product) noexcept {
  __asm__("" : "+v"(product.lanes));
  f32x16 sum = {_mm512_add_ps(value.lanes, product.lanes)};
  __asm__("" : "+v"(sum.lanes));
  return sum;
}

inline f32x16 plus_exact_square(f32x16 sum, f32x16 value) noexcept {
  sum.lanes = _mm512_fmadd_ps(value.lanes, value.lanes, sum.lanes);
  __asm__("" : "+v"(sum.lanes));
  return sum;
}

// Not _mm512_div_ps: under -ffast-math compilers make an approximate reciprocal and a Newton step of it.
inline f32x16 divided(f32x16 value, f32x16 divisor) noexcept {
  f32x16 quotient;
  __asm__("vdivps {%2, %1, %0|%0, %1, %2}" : "=v"(quotient.lanes) : "v"(value.lanes), "v"(divisor.lanes));
  return quotient;
}

/// Whether the lower half of a lane is within two units of 0x8000, or a lane may have been flushed to zero.
inline bool may_round_otherwise(f32x16 a, f32x16 b) noexcept {
  const __m512i upper_u16x32 = _mm512_maskz_slli_epi32(0xffff, narrow(binary32{}, b).lanes, 16);
  const __m512i halves_u16x32 = _mm512_mask_blend_epi16(0xaaaaaaaa, narrow(binary32{}, a).lanes, upper_u16x32);
  const __m512i from_least_u16x32 = _mm512_sub_epi16(halves_u16x32, _mm512_set1_epi16(0x7ffe));
  return flushes_subnormals() || _mm512_cmple_epu16_mask(from_least_u16x32, _mm512_set1_epi16(4)) != 0;
}

// ---- the largest magnitude, in integers: the bits without the sign order as the values do, Inf and NaN on top ----

inline u32x16 larger(u32x16 a, u32x16 b) noexcept { return {_mm512_maskz_max_epu32(0xffff, a.lanes, b.lanes)}; }
inline u16x16 larger(u16x16 a, u16x16 b) noexcept { return {_mm256_max_epu16(a.lanes, b.lanes)}; }
inline u16x32 larger(u16x32 a, u16x32 b) noexcept { return {_mm512_maskz_max_epu16(0xffffffff, a.lanes, b.lanes)}; }
inline u32x16 magnitudes(u32x16 bits) noexcept { return {_mm512_and_si512(bits.lanes, _mm512_set1_epi32(0x7fffffff))}; }
inline u16x16 magnitudes(u16x16 bits) noexcept { return {_mm256_and_si256(bits.lanes, _mm256_set1_epi16(0x7fff))}; }
inline u16x32 magnitudes(u16x32 bits) noexcept { return {_mm512_and_si512(bits.lanes, _mm512_set1_epi16(0x7fff))}; }

inline std::uint32_t largest_lane(u32x16 bits) noexcept {
  const __m256i low_u32x8 = _mm512_maskz_extracti32x8_epi32(0xff, bits.lanes, 0);
  const __m256i high_u32x8 = _mm512_maskz_extracti32x8_epi32(0xff, bits.lanes, 1);
  const __m256i max_u32x8 = _mm256_max_epu32(low_u32x8, high_u32x8);
  __m128i max_u32x4 = _mm_max_epu32(_mm256_castsi256_si128(max_u32x8), _mm256_extracti128_si256(max_u32x8, 1));
  max_u32x4 = _mm_max_epu32(max_u32x4, _mm_shuffle_epi32(max_u32x4, 0x4e));
  max_u32x4 = _mm_max_epu32(max_u32x4, _mm_shuffle_epi32(max_u32x4, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(max_u32x4));
}
// PHMINPOSUW finds the smallest of eight; the complement turns that into the largest.
inline std::uint16_t largest_lane(u16x16 bits) noexcept {
  const __m128i max_u16x8 = _mm_max_epu16(_mm256_castsi256_si128(bits.lanes), _mm256_extracti128_si256(bits.lanes, 1));
  return static_cast<std::uint16_t>(~_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(max_u16x8, _mm_set1_epi16(-1)))));
}

inline std::uint16_t largest_lane(u16x32 bits) noexcept {
  return largest_lane(larger(u16x16{_mm512_maskz_extracti64x4_epi64(0xf, bits.lanes, 0)},
                             u16x16{_mm512_maskz_extracti64x4_epi64(0xf, bits.lanes, 1)}));
}
inline bool any_above(u32x16 magnitudes, std::uint32_t limit) noexcept {
  return _mm512_cmpgt_epu32_mask(magnitudes.lanes, _mm512_set1_epi32(static_cast<int>(limit))) != 0;
}
inline bool any_above(u16x32 magnitudes, std::uint16_t limit) noexcept {
  return _mm512_cmpgt_epu16_mask(magnitudes.lanes, _mm512_set1_epi16(static_cast<short>(limit))) != 0;
}

// ---- sixteen bits times a power of two, in integers ----

using sixteen_bits = u16x32;
inline u16x32 all_sixteen(int value) noexcept { return {_mm512_set1_epi16(static_cast<short>(value))}; }
inline u16x32 smaller(u16x32 a, u16x32 b) noexcept { return {_mm512_maskz_min_epu16(0xffffffff, a.lanes, b.lanes)}; }
// Less 1, magnitudes stay in order, but for zero, which is the greatest.
inline u16x32 with_zero_last(u16x32 bits) noexcept { return {_mm512_add_epi16(bits.lanes, _mm512_set1_epi16(-1))}; }
inline bool any_beyond(u16x32 lowest, u16x32 min, u16x32 max, u16x32 highest) noexcept {
  return (_mm512_cmplt_epu16_mask(min.lanes, lowest.lanes) | _mm512_cmpgt_epu16_mask(max.lanes, highest.lanes)) != 0;
}
inline u16x32 plus_unless_zero(u16x32 bits, u16x32 abs, u16x32 amount) noexcept {
  const __mmask32 is_number = _mm512_test_epi16_mask(abs.lanes, abs.lanes);
  return {_mm512_mask_add_epi16(bits.lanes, is_number, bits.lanes, amount.lanes)};
}

// ---- sums of squares. The asm keeps -ffast-math from adding in another order ----

inline __m512d added(__m512d a, __m512d b) noexcept {
  __m512d sum = _mm512_add_pd(a, b);
  __asm__("" : "+v"(sum));
  return sum;
}
inline f64x16 to_doubles(f32x16 value) noexcept {
  return {_mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, value.lanes, 0)),
          _mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, value.lanes, 1))};
}
inline __m256 halves_added(__m512 sums) noexcept {
  __m256 sum = _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xff, sums, 0), _mm512_maskz_extractf32x8_ps(0xff, sums, 1));
  __asm__("" : "+v"(sum));
  return sum;
}
// Of thirty-two sums, i is added to i + 16 on the way.
inline f64x8x2 to_doubles(f32x16x2 value) noexcept {
  return {_mm512_maskz_cvtps_pd(0xff, halves_added(value.first.lanes)),
          _mm512_maskz_cvtps_pd(0xff, halves_added(value.second.lanes))};
}
inline f64x8x2 added(f64x8x2 a, f64x8x2 b) noexcept { return {added(a.even, b.even), added(a.odd, b.odd)}; }
inline f64x16 added(f64x16 a, f64x16 b) noexcept { return {added(a.low, b.low), added(a.high, b.high)}; }
inline __m256d halves_added(__m512d sums) noexcept {
  __m256d sum = _mm256_add_pd(_mm512_maskz_extractf64x4_pd(0xf, sums, 0), _mm512_maskz_extractf64x4_pd(0xf, sums, 1));
  __asm__("" : "+v"(sum));
  return sum;
}
inline __m128d halves_added(__m256d sums) noexcept {
  __m128d sum = _mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1));
  __asm__("" : "+v"(sum));
  return sum;
}
inline double lanes_added(__m128d sums) noexcept {
  return launder(_mm_cvtsd_f64(_mm_add_sd(sums, _mm_unpackhi_pd(sums, sums))));
}
inline double sum_of(f64x8x2 sums) noexcept {
  return lanes_added(halves_added(halves_added(sums.even))) + lanes_added(halves_added(halves_added(sums.odd)));
}
inline double sum_of(f64x16 sums) noexcept { return lanes_added(halves_added(halves_added(added(sums.low, sums.high)))); }

#include <headroom/kernel/isa/lanes.inl>
#include <headroom/kernel/kernels.inl>

}  // namespace detail::avx512
template <>
struct detail::IsaKernels<Isa::avx512> : detail::avx512::Kernels {};
}  // namespace HEADROOM_BUILD
}  // namespace headroom

HEADROOM_DETAIL_END_TARGET

#endif
