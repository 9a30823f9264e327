#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/kernel/isa/common.hpp>
#include <type_traits>

// AVX2 with F16C and FMA: Intel since Haswell (2013), AMD since Excavator (2015). A register has eight floats. 16-bit formats
// are loaded eight at a time as half a register. VCVTPH2PS widens fp16, a byte shuffle bf16.
//
// The rest of the file is compiled for this CPU. Use no lambdas and no friends here: g++ leaves them out of the target region.
// Do not test __AVX2__, which depends on the compiler flags only.

HEADROOM_DETAIL_BEGIN_TARGET("avx2,f16c,fma")

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail::avx2 {

inline constexpr std::size_t vector_bytes = 32;

#include <headroom/kernel/isa/x86.inl>

// ---- partial registers, in steps of 16, 8, 4 and 2 bytes. A copy through memory takes four times as long, because a load
// waits for the smaller stores that it covers ----

inline __m128i load_bytes(const unsigned char* source, std::size_t bytes) noexcept {
  const unsigned char* end = source + bytes;
  __m128i result = _mm_setzero_si128();
  if ((bytes & 2U) != 0) {
    std::uint16_t last = 0;
    std::memcpy(&last, end -= 2, 2);
    result = _mm_cvtsi32_si128(last);
  }
  if ((bytes & 4U) != 0) {
    std::int32_t last = 0;
    std::memcpy(&last, end -= 4, 4);
    result = _mm_or_si128(_mm_slli_si128(result, 4), _mm_cvtsi32_si128(last));
  }
  if ((bytes & 8U) != 0) {
    result = _mm_or_si128(_mm_slli_si128(result, 8), _mm_loadl_epi64(reinterpret_cast<const __m128i*>(end - 8)));
  }
  return result;
}
inline __m256i load_bytes_of_32(const unsigned char* source, std::size_t bytes) noexcept {
  if (bytes < 16) return _mm256_inserti128_si256(_mm256_setzero_si256(), load_bytes(source, bytes), 0);
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
  return _mm256_set_m128i(load_bytes(source + 16, bytes - 16), low);
}
inline void store_bytes(unsigned char* destination, __m128i value, std::size_t bytes) noexcept {
  if ((bytes & 8U) != 0) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(destination), value);
    destination += 8;
    value = _mm_srli_si128(value, 8);
  }
  if ((bytes & 4U) != 0) {
    const std::int32_t first = _mm_cvtsi128_si32(value);
    std::memcpy(destination, &first, 4);
    destination += 4;
    value = _mm_srli_si128(value, 4);
  }
  if ((bytes & 2U) != 0) {
    const auto first = static_cast<std::uint16_t>(_mm_cvtsi128_si32(value));
    std::memcpy(destination, &first, 2);
  }
}
template <std::size_t Lanes, class Format>
inline auto load_part(Format, const unsigned char* source, std::size_t n) noexcept {
  if constexpr (std::is_same_v<Format, binary32>) {
    return u32s{(u32_lanes)load_bytes_of_32(source, 4 * n)};
  } else if constexpr (Lanes == lanes_of<f32s>) {
    return u16_half{(u16_half_lanes)load_bytes(source, 2 * n)};
  } else {
    return u16s{(u16_lanes)load_bytes_of_32(source, 2 * n)};
  }
}
inline void store_part(unsigned char* destination, u16_half bits, std::size_t n) noexcept {
  store_bytes(destination, (__m128i)bits.lanes, 2 * n);
}
inline void store_part(unsigned char* destination, u32s bits, std::size_t n) noexcept {
  const auto all = (__m256i)bits.lanes;
  if (n < 4) return store_bytes(destination, _mm256_castsi256_si128(all), 4 * n);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(destination), _mm256_castsi256_si128(all));
  store_bytes(destination + 16, _mm256_extracti128_si256(all, 1), 4 * n - 16);
}

inline void store_streaming(unsigned char* destination, u16_half bits) noexcept {
  _mm_stream_si128(reinterpret_cast<__m128i*>(destination), (__m128i)bits.lanes);
}
inline void store_streaming(unsigned char* destination, u32s bits) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination), (__m256i)bits.lanes);
}
inline void store_streaming(unsigned char* destination, u16s bits) noexcept {  // only its halves are aligned
  _mm_stream_si128(reinterpret_cast<__m128i*>(destination), _mm256_castsi256_si128((__m256i)bits.lanes));
  _mm_stream_si128(reinterpret_cast<__m128i*>(destination + 16), _mm256_extracti128_si256((__m256i)bits.lanes, 1));
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32s widen(binary16, u16_half bits) noexcept {
  return {_mm256_cvtph_ps((__m128i)bits.lanes)};
}
template <class Compute>
inline f32s widen(brain16, u16_half bits) noexcept {
  // A byte shuffle of two copies; -1 makes zeros. The copies cost nothing if the elements come from memory.
  const __m256i copies_u16x16 = _mm256_broadcastsi128_si256((__m128i)bits.lanes);
  const __m256i upper_halves = _mm256_setr_epi16(-1, 0x0100, -1, 0x0302, -1, 0x0504, -1, 0x0706,  //
                                                 -1, 0x0908, -1, 0x0b0a, -1, 0x0d0c, -1, 0x0f0e);
  return {(f32_lanes)_mm256_shuffle_epi8(copies_u16x16, upper_halves)};
}
inline u16_half narrow(binary16, f32s value) noexcept {  // hidden, or clang converts again for the store
  return {(u16_half_lanes)hidden(_mm256_cvtps_ph(value.lanes, _MM_FROUND_TO_NEAREST_INT))};
}
inline bool any_nan(u32_lanes a, u32_lanes b) noexcept {  // -ffast-math would make the intrinsic false
  __m256 is_nan;
  __asm__("vcmpunordps {%2, %1, %0|%0, %1, %2}" : "=x"(is_nan) : "x"(a), "x"(b));
  return _mm256_movemask_ps(is_nan) != 0;
}
inline u16_half upper_halves(u32_lanes bits) noexcept {
  const auto wide = (__m256i)(bits >> 16);
  return {(u16_half_lanes)_mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1))};
}
inline u16_lanes saturating_difference(u16_lanes a, u16_lanes b) noexcept {
  return (u16_lanes)_mm256_subs_epu16((__m256i)a, (__m256i)b);
}
inline u16_lanes by_turns(u32_lanes lower, u32_lanes upper) noexcept {
  return (u16_lanes)_mm256_blend_epi16((__m256i)lower, (__m256i)upper, 0xaa);
}
inline u16s rounded_upper_halves(u32_lanes first, u32_lanes second) noexcept {
  const auto mixed = (__m256i)rounded(by_turns(first >> 16, second), by_turns(first, second << 16)).lanes;
  const __m256i first_first = _mm256_setr_epi32(0x05040100, 0x0d0c0908, 0x07060302, 0x0f0e0b0a,  //
                                                0x05040100, 0x0d0c0908, 0x07060302, 0x0f0e0b0a);
  return {(u16_lanes)_mm256_permute4x64_epi64(_mm256_shuffle_epi8(mixed, first_first), 0xd8)};
}

inline u16_half_lanes sign_extended(u8_quarter bytes) noexcept {
  return (u16_half_lanes)_mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&bytes.lanes)));
}
inline u8s low_bytes(u32_lanes a, u32_lanes b, u32_lanes c, u32_lanes d) noexcept {
  const __m256i ab = _mm256_packus_epi32((__m256i)a, (__m256i)b), cd = _mm256_packus_epi32((__m256i)c, (__m256i)d);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packs take turns between the halves
  return {(u8_lanes)_mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd), order)};
}

// ---- magnitudes ----

inline std::uint32_t largest_lane(u32s bits) noexcept { return largest_u32((__m256i)bits.lanes); }
inline std::uint16_t largest_lane(u16s bits) noexcept { return largest_u16((__m256i)bits.lanes); }
inline std::uint16_t largest_lane(u16_half bits) noexcept { return largest_u16((__m128i)bits.lanes); }
inline bool any_above(u32s magnitudes, std::uint32_t limit) noexcept {
  return _mm256_movemask_epi8((__m256i)((i32_lanes)magnitudes.lanes > (i32_lanes)(u32_lanes{} + limit))) != 0;
}
inline bool any_above(u16s magnitudes, std::uint16_t limit) noexcept {
  return _mm256_movemask_epi8((__m256i)((i16_lanes)magnitudes.lanes > (i16_lanes)(u16_lanes{} + limit))) != 0;
}

// ---- sums of squares ----

inline f32s plus_exact_square(f32s sum, f32s value) noexcept {
  return {hidden(_mm256_fmadd_ps(value.lanes, value.lanes, sum.lanes))};
}
inline f64s to_doubles(f32s value) noexcept {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(value.lanes)), _mm256_cvtps_pd(_mm256_extractf128_ps(value.lanes, 1))};
}
inline even_odd_f64s to_doubles(f32_pair<Order::even_odd> value) noexcept {
  return {to_doubles(value.first), to_doubles(value.second)};
}
inline double sum_of(f64_lanes sums) noexcept { return sum_of_four(sums); }

#include <headroom/kernel/kernels.inl>

}  // namespace detail::avx2
template <>
struct detail::IsaKernels<Isa::avx2> : detail::avx2::Kernels {};
HEADROOM_DETAIL_END_NAMESPACE

HEADROOM_DETAIL_END_TARGET

#endif
