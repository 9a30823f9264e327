// Fewer elements than a register of AVX2 has, in steps of 16, 8, 4 and 2 bytes; included by avx2.hpp inside its namespace and
// its target region. A copy by way of memory takes four times as long: a load waits until all the smaller stores that it covers
// have left the CPU.

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
inline void store_bytes(unsigned char* destination, __m256i value, std::size_t bytes) noexcept {
  if (bytes < 16) return store_bytes(destination, _mm256_castsi256_si128(value), bytes);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(destination), _mm256_castsi256_si128(value));
  store_bytes(destination + 16, _mm256_extracti128_si256(value, 1), bytes - 16);
}
template <std::size_t Lanes>
inline auto load_part(binary32, const unsigned char* source, std::size_t n) noexcept {
  if constexpr (Lanes == 16) {
    const u32s rest = {(u32_lanes)load_bytes_of_32(n < 8 ? source : source + 32, 4 * (n % 8))};
    return n < 8 ? u32_pair{rest, {}} : u32_pair{{loaded<u32_lanes>(source)}, rest};
  } else {
    return u32s{(u32_lanes)load_bytes_of_32(source, 4 * n)};
  }
}
template <std::size_t Lanes>
inline auto load_part(binary16, const unsigned char* source, std::size_t n) noexcept {
  if constexpr (Lanes == 16) {
    return u16s{(u16_lanes)load_bytes_of_32(source, 2 * n)};
  } else {
    return u16_half{(u16_half_lanes)load_bytes(source, 2 * n)};
  }
}
inline void store_part(unsigned char* destination, u16_half bits, std::size_t n) noexcept {
  store_bytes(destination, (__m128i)bits.lanes, 2 * n);
}
template <class Bits>
inline void store_part(unsigned char* destination, Bits bits, std::size_t n) noexcept {
  store_bytes(destination, (__m256i)bits.lanes, (std::is_same_v<Bits, u32s> ? 4 : 2) * n);
}
