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

inline constexpr std::size_t vector_bytes = 64;

#include <headroom/kernel/isa/x86.inl>

#include <headroom/kernel/isa/avx512_parts.inl>

inline void store_streaming(unsigned char* destination, u16_half bits) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination), (__m256i)bits.lanes);
}
template <class Bits>
inline void store_streaming(unsigned char* destination, Bits bits) noexcept {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(destination), (__m512i)bits.lanes);
}

inline u16s extended(u16_half bits) noexcept {
  return {(u16_lanes)_mm512_maskz_inserti64x4(0xff, _mm512_setzero_si512(), (__m256i)bits.lanes, 0)};
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32s widen(binary16, u16_half bits) noexcept {
  return {_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits.lanes)};
}
template <class Compute>
inline f32s widen(brain16, u16_half bits) noexcept {
  return {(f32_lanes)((u32_lanes)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)bits.lanes) << 16)};
}
inline u16_half narrow(binary16, f32s value) noexcept {  // hidden, else clang converts once more to store
  return {(u16_half_lanes)hidden(_mm512_maskz_cvtps_ph(0xffff, value.lanes, _MM_FROUND_TO_NEAREST_INT))};
}

// Nearest-even by adding just under half a unit, and one more where the kept part is odd. A NaN would be carried to Inf or even
// to -0 by that sum: it keeps its upper half instead, made quiet.
inline u16_half narrow(brain16, f32s value) noexcept {
  const u32_lanes bits = narrow(binary32{}, value).lanes, sum = bits + 0x7fff + ((bits >> 16) & 1);
  const __mmask16 is_nan =
      _mm512_cmpgt_epi32_mask((__m512i)(bits & binary32::abs_mask), _mm512_set1_epi32(binary32::infinity_bits));
  const auto result = (u32_lanes)_mm512_mask_or_epi32((__m512i)sum, is_nan, (__m512i)bits, _mm512_set1_epi32(0x00400000));
  return {(u16_half_lanes)_mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)(result >> 16))};
}
inline u16_lanes without(u16_lanes a, u16_lanes b) noexcept { return (u16_lanes)_mm512_subs_epu16((__m512i)a, (__m512i)b); }
inline u16_lanes by_turns(u16_lanes even, u16_lanes odd) noexcept {
  return (u16_lanes)_mm512_mask_blend_epi16(0xaaaaaaaa, (__m512i)even, (__m512i)odd);
}
// Where there is no NaN, which one comparison says of two registers, rounding is all.
inline u16s narrow(brain16, f32_pair value) noexcept {
  const auto low = (__m512i)narrow(binary32{}, value.first).lanes, high = (__m512i)narrow(binary32{}, value.second).lanes;
  __mmask16 is_nan;
  __asm__("vcmpunordps {%2, %1, %0|%0, %1, %2}" : "=k"(is_nan) : "v"(low), "v"(high));
  if (__builtin_expect(is_nan != 0, 0)) {
    const u16_half first = narrow(brain16{}, value.first), second = narrow(brain16{}, value.second);
    return {(u16_lanes)_mm512_maskz_inserti64x4(0xff, (__m512i)extended(first).lanes, (__m256i)second.lanes, 1)};
  }
  const __m512i lower = _mm512_setr_epi32(0x020000, 0x060004, 0x0a0008, 0x0e000c, 0x120010, 0x160014, 0x1a0018, 0x1e001c,  //
                                          0x220020, 0x260024, 0x2a0028, 0x2e002c, 0x320030, 0x360034, 0x3a0038, 0x3e003c);
  const __m512i upper = _mm512_add_epi16(lower, _mm512_set1_epi16(1));
  return rounded((u16_lanes)_mm512_permutex2var_epi16(low, upper, high),
                 (u16_lanes)_mm512_permutex2var_epi16(low, lower, high));
}

inline f32s plus_exact_square(f32s sum, f32s value) noexcept {
  return {hidden(_mm512_fmadd_ps(value.lanes, value.lanes, sum.lanes))};
}

// ---- magnitudes ----

template <int Half, class Lanes>
inline __m256i half_of(Lanes lanes) noexcept {
  return _mm512_maskz_extracti64x4_epi64(0xf, (__m512i)lanes, Half);
}
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
inline bool any_beyond(u16s lowest, u16s min, u16s max, u16s highest) noexcept {
  return (_mm512_cmpgt_epi16_mask((__m512i)lowest.lanes, (__m512i)min.lanes) |
          _mm512_cmpgt_epi16_mask((__m512i)max.lanes, (__m512i)highest.lanes)) != 0;
}
inline u16s plus_unless_zero(u16s bits, u16s abs, u16s amount) noexcept {
  const auto old = (__m512i)bits.lanes, magnitudes = (__m512i)abs.lanes;
  return {(u16_lanes)_mm512_mask_add_epi16(old, _mm512_test_epi16_mask(magnitudes, magnitudes), old, (__m512i)amount.lanes)};
}

// ---- sums of squares ----

inline f64s to_doubles(f32s value) noexcept {
  return {_mm512_maskz_cvtps_pd(0xff, (__m256)half_of<0>(value.lanes)),
          _mm512_maskz_cvtps_pd(0xff, (__m256)half_of<1>(value.lanes))};
}
inline double sum_of(f64_lanes sums) noexcept {
  return sum_of_four(hidden((__m256d)half_of<0>(sums) + (__m256d)half_of<1>(sums)));
}
/// Sixteen doubles: those of the even lanes and those of the odd ones.
struct f64_by_parity {
  f64_lanes even, odd;
};
// Of thirty-two sums, i is added to i + 16 on the way.
inline f64_lanes halves_added(f32s sums) noexcept {
  return _mm512_maskz_cvtps_pd(0xff, hidden((__m256)half_of<0>(sums.lanes) + (__m256)half_of<1>(sums.lanes)));
}
inline f64_by_parity to_doubles(f32_by_parity value) noexcept {
  return {halves_added(value.first), halves_added(value.second)};
}
inline f64_by_parity added(f64_by_parity a, f64_by_parity b) noexcept {
  return {hidden(a.even + b.even), hidden(a.odd + b.odd)};
}
inline double sum_of(f64_by_parity sums) noexcept { return sum_of(sums.even) + sum_of(sums.odd); }

#include <headroom/kernel/isa/lanes.inl>
#include <headroom/kernel/kernels.inl>

}  // namespace detail::avx512
template <>
struct detail::IsaKernels<Isa::avx512> : detail::avx512::Kernels {};
}  // namespace HEADROOM_BUILD
}  // namespace headroom

HEADROOM_DETAIL_END_TARGET

#endif
