// What AVX2 and AVX-512 do alike. Included by avx2.hpp and avx512.hpp inside their namespaces and their target regions.

template <class Lanes>
inline Lanes hidden(Lanes lanes) noexcept {
  __asm__("" : "+v"(lanes));
  return lanes;
}

#include <headroom/kernel/isa/registers.inl>

inline constexpr bool has_streaming_stores = true;
inline void finish_streaming() noexcept { _mm_sfence(); }

// Not by the operator: under -ffast-math compilers make an approximate reciprocal and a Newton step of it.
inline f32s divided(f32s value, f32s divisor) noexcept {
  f32s quotient;
  __asm__("vdivps {%2, %1, %0|%0, %1, %2}" : "=v"(quotient.lanes) : "v"(value.lanes), "v"(divisor.lanes));
  return quotient;
}

inline std::uint32_t largest_u32(__m256i lanes) noexcept {
  __m128i max = _mm_max_epu32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  max = _mm_max_epu32(max, _mm_shuffle_epi32(max, 0x4e));
  max = _mm_max_epu32(max, _mm_shuffle_epi32(max, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(max));
}
// PHMINPOSUW finds the smallest of eight; the complement turns that into the largest.
inline std::uint16_t largest_u16(__m128i lanes) noexcept {
  return static_cast<std::uint16_t>(~_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(lanes, _mm_set1_epi16(-1)))));
}
inline std::uint16_t largest_u16(__m256i lanes) noexcept {
  return largest_u16(_mm_max_epi16(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1)));
}

inline double sum_of_four(__m256d sums) noexcept {
  const __m128d sum = hidden(_mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1)));
  return hide_from_optimizer(_mm_cvtsd_f64(_mm_add_sd(sum, _mm_unpackhi_pd(sum, sum))));
}
