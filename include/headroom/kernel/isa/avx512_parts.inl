// Fewer elements than a register of AVX-512 has; included by avx512.hpp inside its namespace and its target region. Lanes that
// are masked out are not touched in memory, and zero in the register.

template <class Mask>
inline Mask first_lanes(std::size_t n) noexcept {
  return static_cast<Mask>((1U << n) - 1);
}

template <std::size_t Lanes>
inline auto load_part(binary32, const unsigned char* source, std::size_t n) noexcept {
  const u32s low = {(u32_lanes)_mm512_maskz_loadu_epi32(first_lanes<__mmask16>(n), source)};
  if constexpr (Lanes == 32) {
    return u32_pair{
        low, {(u32_lanes)_mm512_maskz_loadu_epi32(static_cast<__mmask16>(first_lanes<__mmask32>(n) >> 16), source + 64)}};
  } else {
    return low;
  }
}
template <std::size_t Lanes>
inline auto load_part(binary16, const unsigned char* source, std::size_t n) noexcept {
  if constexpr (Lanes == 32) {
    return u16s{(u16_lanes)_mm512_maskz_loadu_epi16(first_lanes<__mmask32>(n), source)};
  } else {
    return u16_half{(u16_half_lanes)_mm256_maskz_loadu_epi16(first_lanes<__mmask16>(n), source)};
  }
}
// By registers no wider than needed: to the CPU a masked store covers all of its width, and a load from there, of the beginning
// of the next leaf, has to wait until it has been done.
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
inline void store_bytes(unsigned char* destination, __m512i bits, std::size_t n) noexcept {
  const __m256i low = _mm512_maskz_extracti64x4_epi64(0xf, bits, 0);
  if (n <= 32) return store_bytes(destination, low, n);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination), low);
  store_bytes(destination + 32, _mm512_maskz_extracti64x4_epi64(0xf, bits, 1), n - 32);
}
inline void store_part(unsigned char* destination, u16_half bits, std::size_t n) noexcept {
  store_bytes(destination, (__m256i)bits.lanes, 2 * n);
}
template <class Bits>
inline void store_part(unsigned char* destination, Bits bits, std::size_t n) noexcept {
  store_bytes(destination, (__m512i)bits.lanes, (std::is_same_v<Bits, u32s> ? 4 : 2) * n);
}
