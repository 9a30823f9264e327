#pragma once

#include <headroom/config.hpp>

#if HEADROOM_HAS_AVX512

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/dtype/format.hpp>
#include <headroom/kernel/isa/rows.hpp>

// AVX-512 with F, BW, VL and DQ: Intel since Skylake-X (2017), AMD since Zen 4 (2022). Sixteen floats a register; sixteen-bit
// formats are loaded sixteen at a time as half a register and widened, by VCVTPH2PS for fp16 and by a shift for bf16.
// AVX512-FP16 is not used, for it would compute in fp16, nor is AVX512_BF16: VCVTNEPS2BF16 makes zeros of subnormals.
//
// What avx2.hpp says about its target region holds here too. g++ 12 warns that the unmasked forms of some intrinsics read an
// uninitialised register: where it does, the maskz form with all lanes is the same instruction.

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#endif

namespace headroom::kernel {
inline namespace HEADROOM_BUILD {
namespace avx512 {

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
struct f64x16 {
  __m512d low, high;
};

template <class In, class Out>
using compute_for = f32x16;
template <class In>
using float_lanes = f32x16;
template <class Compute>
inline constexpr std::size_t lanes_of = 16;
template <class In>
inline constexpr std::size_t read_lanes = 16;

// ---- load and store: always unaligned, and always as integers, so that no compiler may think a NaN cannot be there ----

template <std::size_t Lanes>
inline u32x16 load(binary32, const unsigned char* source) noexcept {
  return {_mm512_loadu_si512(source)};
}
template <std::size_t Lanes>
inline u16x16 load(binary16, const unsigned char* source) noexcept {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source))};
}
template <std::size_t Lanes>
inline u16x16 load(brain16, const unsigned char* source) noexcept {
  return load<Lanes>(binary16{}, source);
}

inline void store(unsigned char* destination, u32x16 bits) noexcept { _mm512_storeu_si512(destination, bits.lanes); }
inline void store(unsigned char* destination, u16x16 bits) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination), bits.lanes);
}

// ---- fewer than sixteen elements: lanes that are masked out are not touched in memory, and zero in the register ----

inline __mmask16 first_lanes(std::size_t n) noexcept { return static_cast<__mmask16>((1U << n) - 1); }

template <std::size_t Lanes>
inline u32x16 load_part(binary32, const unsigned char* source, std::size_t n) noexcept {
  return {_mm512_maskz_loadu_epi32(first_lanes(n), source)};
}
template <std::size_t Lanes>
inline u16x16 load_part(binary16, const unsigned char* source, std::size_t n) noexcept {
  return {_mm256_maskz_loadu_epi16(first_lanes(n), source)};
}
template <std::size_t Lanes>
inline u16x16 load_part(brain16, const unsigned char* source, std::size_t n) noexcept {
  return load_part<Lanes>(binary16{}, source, n);
}
inline void store_part(unsigned char* destination, u32x16 bits, std::size_t n) noexcept {
  _mm512_mask_storeu_epi32(destination, first_lanes(n), bits.lanes);
}
inline void store_part(unsigned char* destination, u16x16 bits, std::size_t n) noexcept {
  _mm256_mask_storeu_epi16(destination, first_lanes(n), bits.lanes);
}

// Streaming stores of whole registers; alignment of a cache line, so that whole lines are written.
inline constexpr bool has_streaming_stores = true;
inline constexpr std::size_t streaming_alignment = 64;
inline void prefetch_ahead(const unsigned char* source) noexcept {  // further ahead was no faster where measured
  _mm_prefetch(reinterpret_cast<const char*>(source + 1024), _MM_HINT_NTA);
}
inline void finish_streaming() noexcept { _mm_sfence(); }
inline void store_streaming(unsigned char* destination, u32x16 bits) noexcept {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(destination), bits.lanes);
}
inline void store_streaming(unsigned char* destination, u16x16 bits) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination), bits.lanes);
}

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

// The empty asm hides that the bits come from a floating-point result: under -ffast-math that would count as proof that they
// are not those of Inf or NaN, and the check of them would be folded away.
inline u32x16 narrow(binary32, f32x16 value) noexcept {
  __m512i bits_u32x16 = _mm512_castps_si512(value.lanes);
  __asm__("" : "+v"(bits_u32x16));
  return {bits_u32x16};
}
inline u16x16 narrow(binary16, f32x16 value) noexcept {
  return {_mm512_maskz_cvtps_ph(0xffff, value.lanes, _MM_FROUND_TO_NEAREST_INT)};
}

// Nearest-even by adding just under half a unit, and one more where the kept part is odd. A NaN would be carried to Inf or even
// to -0 by that sum: it keeps its upper half instead, made quiet.
inline u16x16 narrow(brain16, f32x16 value) noexcept {
  const __m512i bits_u32x16 = narrow(binary32{}, value).lanes;
  const __m512i odd_u32x16 = _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, bits_u32x16, 16), _mm512_set1_epi32(1));
  const __m512i rounded_u32x16 = _mm512_add_epi32(_mm512_add_epi32(bits_u32x16, _mm512_set1_epi32(0x7fff)), odd_u32x16);
  const __m512i magnitude_u32x16 = _mm512_and_si512(bits_u32x16, _mm512_set1_epi32(0x7fffffff));
  const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(magnitude_u32x16, _mm512_set1_epi32(0x7f800000));
  const __m512i result_u32x16 = _mm512_mask_or_epi32(rounded_u32x16, is_nan, bits_u32x16, _mm512_set1_epi32(0x00400000));
  return {_mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, result_u32x16, 16))};
}

// ---- arithmetic ----

template <class Compute>
inline f32x16 broadcast(double factor) noexcept {
  return {_mm512_set1_ps(static_cast<float>(factor))};
}
inline f32x16 multiplied(f32x16 value, f32x16 factor) noexcept { return {_mm512_mul_ps(value.lanes, factor.lanes)}; }

// Not _mm512_div_ps: under -ffast-math compilers make an approximate reciprocal and a Newton step of it.
inline f32x16 divided(f32x16 value, f32x16 divisor) noexcept {
  f32x16 quotient;
  __asm__("vdivps %2, %1, %0" : "=v"(quotient.lanes) : "v"(value.lanes), "v"(divisor.lanes));
  return quotient;
}

// ---- the largest magnitude, in integers: the bits without the sign order as the values do, Inf and NaN on top ----

inline u32x16 larger(u32x16 a, u32x16 b) noexcept { return {_mm512_maskz_max_epu32(0xffff, a.lanes, b.lanes)}; }
inline u16x16 larger(u16x16 a, u16x16 b) noexcept { return {_mm256_max_epu16(a.lanes, b.lanes)}; }

inline u32x16 max_of_abs(binary32, u32x16 largest, u32x16 bits) noexcept {
  return larger(largest, {_mm512_and_si512(bits.lanes, _mm512_set1_epi32(0x7fffffff))});
}
inline u16x16 max_of_abs(binary16, u16x16 largest, u16x16 bits) noexcept {
  return larger(largest, {_mm256_and_si256(bits.lanes, _mm256_set1_epi16(0x7fff))});
}
inline u16x16 max_of_abs(brain16, u16x16 largest, u16x16 bits) noexcept { return max_of_abs(binary16{}, largest, bits); }

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

// ---- sums of squares: the square of a float is exact in double, fused or not; one addition a lane. The asm keeps -ffast-math
// from adding in another order
// ----

using sums_register = f64x16;

inline void add_squares(f64x16& sums, f32x16 value) noexcept {
  const __m256 high_f32x8 = _mm512_maskz_extractf32x8_ps(0xff, value.lanes, 1);
  const __m512d low_f64x8 = _mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, value.lanes, 0));
  const __m512d high_f64x8 = _mm512_maskz_cvtps_pd(0xff, high_f32x8);
  sums.low = _mm512_fmadd_pd(low_f64x8, low_f64x8, sums.low);
  sums.high = _mm512_fmadd_pd(high_f64x8, high_f64x8, sums.high);
  __asm__("" : "+v"(sums.low), "+v"(sums.high));
}
inline void store_sums(double* destination, f64x16 sums) noexcept {
  _mm512_storeu_pd(destination, sums.low);
  _mm512_storeu_pd(destination + 8, sums.high);
}

#include <headroom/kernel/kernels.inl>

}  // namespace avx512
}  // namespace HEADROOM_BUILD
}  // namespace headroom::kernel

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
