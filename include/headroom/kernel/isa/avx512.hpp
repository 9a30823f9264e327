#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/kernel/isa/common.hpp>
#include <type_traits>

// AVX-512 with F, BW, VL and DQ: Intel since Skylake-X (2017), AMD since Zen 4 (2022). A register has sixteen floats. fp16 is
// loaded sixteen at a time as half a register and widened by VCVTPH2PS; bf16 likewise and by a permutation. AVX512-FP16 is not
// used, because it computes in fp16. AVX512_BF16 is not used, because VCVTNEPS2BF16 makes subnormals zero.
//
// What avx2.hpp says about its target region applies here, too. g++ 12 warns that the unmasked forms of some intrinsics read an
// uninitialised register. Their maskz forms with a full mask are the same instructions.

HEADROOM_DETAIL_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512dq")

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail::avx512 {

inline constexpr std::size_t vector_bytes = 64;

#include <headroom/kernel/isa/x86.inl>

// ---- partial registers: lanes that are masked out are not accessed in memory, and are zero in the register ----

template <class Mask>
inline Mask first_lanes(std::size_t n) noexcept {
  return static_cast<Mask>((1U << n) - 1);
}
template <std::size_t Lanes, class Format>
inline auto load_part(Format, const unsigned char* source, std::size_t n) noexcept {
  if constexpr (std::is_same_v<Format, binary32>) {
    return u32s{(u32_lanes)_mm512_maskz_loadu_epi32(first_lanes<__mmask16>(n), source)};
  } else if constexpr (Lanes == lanes_of<f32s>) {
    return u16_half{(u16_half_lanes)_mm256_maskz_loadu_epi16(first_lanes<__mmask16>(n), source)};
  } else {
    return u16s{(u16_lanes)_mm512_maskz_loadu_epi16(first_lanes<__mmask32>(n), source)};
  }
}
// Stores are no wider than needed: loads of the next leaf's first elements wait for all that a masked store covers.
inline void store_bytes(unsigned char* destination, __m256i bits, std::size_t n) noexcept {
  __m128i last = _mm256_castsi256_si128(bits);
  if (n > 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination), last);
    last = _mm256_extracti128_si256(bits, 1);
    destination += 16;
    n -= 16;
  }
  _mm_mask_storeu_epi8(destination, first_lanes<__mmask16>(n), last);
}
template <int Half, class Lanes>
inline __m256i half_of(Lanes lanes) noexcept {
  return _mm512_maskz_extracti64x4_epi64(0xf, (__m512i)lanes, Half);
}
inline void store_part(unsigned char* destination, u16_half bits, std::size_t n) noexcept {
  store_bytes(destination, (__m256i)bits.lanes, 2 * n);
}
inline void store_part(unsigned char* destination, u32s bits, std::size_t n) noexcept {
  const __m256i low = half_of<0>(bits.lanes);
  if (n <= 8) return store_bytes(destination, low, 4 * n);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination), low);
  store_bytes(destination + 32, half_of<1>(bits.lanes), 4 * n - 32);
}

inline void store_streaming(unsigned char* destination, u16_half bits) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination), (__m256i)bits.lanes);
}
inline void store_streaming(unsigned char* destination, u32s bits) noexcept {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(destination), (__m512i)bits.lanes);
}
inline void store_streaming(unsigned char* destination, u16s bits) noexcept {  // only its halves are aligned
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination), half_of<0>(bits.lanes));
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination + 32), half_of<1>(bits.lanes));
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32s widen(binary16, u16_half bits) noexcept {
  return {_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits.lanes)};
}
template <class Compute>
inline f32s widen(brain16, u16_half bits) noexcept {
  const __m512i places = _mm512_setr_epi32(0x00000, 0x10000, 0x20000, 0x30000, 0x40000, 0x50000, 0x60000, 0x70000,  //
                                           0x80000, 0x90000, 0xa0000, 0xb0000, 0xc0000, 0xd0000, 0xe0000, 0xf0000);
  return {(f32_lanes)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, places, _mm512_castsi256_si512((__m256i)bits.lanes))};
}
inline u16_half narrow(binary16, f32s value) noexcept {  // hidden, or clang converts again for the store
  return {(u16_half_lanes)hidden(_mm512_maskz_cvtps_ph(0xffff, value.lanes, _MM_FROUND_TO_NEAREST_INT))};
}
inline bool any_nan(u32_lanes a, u32_lanes b) noexcept {  // -ffast-math would make the intrinsic false
  __mmask16 is_nan;
  __asm__("vcmpunordps {%2, %1, %0|%0, %1, %2}" : "=k"(is_nan) : "v"(a), "v"(b));
  return is_nan != 0;
}
inline u16_half upper_halves(u32_lanes bits) noexcept {
  return {(u16_half_lanes)_mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)(bits >> 16))};
}
inline u16_lanes saturating_difference(u16_lanes a, u16_lanes b) noexcept {
  return (u16_lanes)_mm512_subs_epu16((__m512i)a, (__m512i)b);
}
inline u16_lanes by_turns(u32_lanes lower, u32_lanes upper) noexcept {
  return (u16_lanes)_mm512_mask_blend_epi16(0xaaaaaaaa, (__m512i)lower, (__m512i)upper);
}
inline u16s rounded_upper_halves(u32_lanes first, u32_lanes second) noexcept {
  const __m512i lower = _mm512_setr_epi32(0x020000, 0x060004, 0x0a0008, 0x0e000c, 0x120010, 0x160014, 0x1a0018, 0x1e001c,  //
                                          0x220020, 0x260024, 0x2a0028, 0x2e002c, 0x320030, 0x360034, 0x3a0038, 0x3e003c);
  const __m512i upper = _mm512_add_epi16(lower, _mm512_set1_epi16(1));
  return rounded((u16_lanes)_mm512_permutex2var_epi16((__m512i)first, upper, (__m512i)second),
                 (u16_lanes)_mm512_permutex2var_epi16((__m512i)first, lower, (__m512i)second));
}

inline u16_half_lanes sign_extended(u8_quarter bytes) noexcept {
  return (u16_half_lanes)_mm256_cvtepi8_epi16((__m128i)bytes.lanes);
}
inline u8s low_bytes(u32_lanes a, u32_lanes b, u32_lanes c, u32_lanes d) noexcept {
  const __m512i ab = _mm512_packus_epi32((__m512i)a, (__m512i)b), cd = _mm512_packus_epi32((__m512i)c, (__m512i)d);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);  // packs work in quarters
  return {(u8_lanes)_mm512_maskz_permutexvar_epi32(0xffff, order, _mm512_packus_epi16(ab, cd))};
}

// ---- magnitudes ----

inline std::uint32_t largest_lane(u32s bits) noexcept {
  return largest_u32(_mm256_max_epi32(half_of<0>(bits.lanes), half_of<1>(bits.lanes)));
}
inline std::uint16_t largest_lane(u16s bits) noexcept {
  return largest_u16(_mm256_max_epi16(half_of<0>(bits.lanes), half_of<1>(bits.lanes)));
}
inline std::uint16_t largest_lane(u16_half bits) noexcept { return largest_u16((__m256i)bits.lanes); }
inline bool any_above(u32s magnitudes, std::uint32_t limit) noexcept {
  return _mm512_cmpgt_epi32_mask((__m512i)magnitudes.lanes, (__m512i)(u32_lanes{} + limit)) != 0;
}
inline bool any_above(u16s magnitudes, std::uint16_t limit) noexcept {
  return _mm512_cmpgt_epi16_mask((__m512i)magnitudes.lanes, (__m512i)(u16_lanes{} + limit)) != 0;
}

// ---- sums of squares ----

inline f32s plus_exact_square(f32s sum, f32s value) noexcept {
  return {hidden(_mm512_fmadd_ps(value.lanes, value.lanes, sum.lanes))};
}
inline f64s to_doubles(f32s value) noexcept {
  return {_mm512_maskz_cvtps_pd(0xff, (__m256)half_of<0>(value.lanes)),
          _mm512_maskz_cvtps_pd(0xff, (__m256)half_of<1>(value.lanes))};
}
// A pair has thirty-two sums. This adds sum i + 16 to sum i.
inline f64s halves_added(f32s sums) noexcept {
  return {_mm512_maskz_cvtps_pd(0xff, hidden((__m256)half_of<0>(sums.lanes) + (__m256)half_of<1>(sums.lanes))), f64_lanes{}};
}
inline even_odd_f64s to_doubles(f32_pair<Order::even_odd> value) noexcept {
  return {halves_added(value.first), halves_added(value.second)};
}
inline double sum_of(f64_lanes sums) noexcept {
  return sum_of_four(hidden((__m256d)half_of<0>(sums) + (__m256d)half_of<1>(sums)));
}

#include <headroom/kernel/kernels.inl>

}  // namespace detail::avx512
template <>
struct detail::IsaKernels<Isa::avx512> : detail::avx512::Kernels {};
HEADROOM_DETAIL_END_NAMESPACE

HEADROOM_DETAIL_END_TARGET

#endif
