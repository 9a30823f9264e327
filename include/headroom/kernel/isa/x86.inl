// What AVX2 and AVX-512 do alike. Included by avx2.hpp and avx512.hpp inside their namespaces and their target regions, before
// what is their own.

template <class Lanes>
inline Lanes hidden(Lanes lanes) noexcept {
  __asm__("" : "+v"(lanes));
  return lanes;
}

#include <headroom/kernel/isa/registers.inl>

typedef std::uint16_t u16_half_lanes __attribute__((vector_size(vector_bytes / 2)));
typedef std::int16_t i16_half_lanes __attribute__((vector_size(vector_bytes / 2)));
struct u16_half {
  u16_half_lanes lanes;  // as many as floats
};
struct f64s {
  f64_lanes low, high;  // as many as floats
};
using f32_by_parity = RegisterPair<f32s, by_parity>;

template <class In, class Out>
using compute_for = std::conditional_t<!std::is_same_v<Out, brain16>, f32s,
                                       std::conditional_t<std::is_same_v<In, brain16>, f32_by_parity,
                                                          std::conditional_t<std::is_same_v<In, binary32>, f32_pair, f32s>>>;
template <class Compute>
inline constexpr std::size_t lanes_of = vector_bytes / (std::is_same_v<Compute, f32s> ? 4 : 2);
template <class In>
inline constexpr std::size_t read_lanes = vector_bytes / (is_sixteen_bits<In> ? 2 : 4);

// ---- what each of the two says for itself, besides load_part and store_part ----

/// a - b, but 0 where b is larger.
inline u16_lanes without(u16_lanes a, u16_lanes b) noexcept;
/// The even lanes of one and the odd lanes of the other.
inline u16_lanes by_turns(u16_lanes even, u16_lanes odd) noexcept;
/// Of sums that are added from the middle on.
inline double sum_of(f64_lanes sums) noexcept;
// As signed integers, for which some CPUs have more units.
inline bool any_above(u32s magnitudes, std::uint32_t limit) noexcept;
inline bool any_above(u16s magnitudes, std::uint16_t limit) noexcept;

template <std::size_t Lanes>
inline auto load(binary16, const unsigned char* source) noexcept {
  if constexpr (Lanes == lanes_of<f32s>) {
    return u16_half{loaded<u16_half_lanes>(source)};
  } else {
    return u16s{loaded<u16_lanes>(source)};
  }
}
inline constexpr bool has_streaming_stores = true;
inline void finish_streaming() noexcept { _mm_sfence(); }

// ---- widen to float, narrow to the nearest ----

// In place there is no need to bring the lanes into another order: the even ones are shifted up, the odd ones are up already.
template <class Compute>
inline f32_by_parity widen(brain16, u16s bits) noexcept {
  const auto both = (u32_lanes)bits.lanes;
  return {{(f32_lanes)(both << 16)}, {(f32_lanes)(both & 0xffff0000)}};
}

// Nearest-even: up by one where more than 0x8000 is dropped, or just that beside an odd number; which is where what is dropped,
// less one beside an even number, is 0x8000 or more.
inline u16s rounded(u16_lanes kept, u16_lanes dropped) noexcept { return {kept + (without(dropped, ~kept & 1) >> 15)}; }
// From bf16 to bf16 no NaN needs care: the lower half of one is zero, whether it was widened or is the CPU's own.
inline u16s narrow(brain16, f32_by_parity value) noexcept {
  const u32_lanes even = narrow(binary32{}, value.first).lanes, odd = narrow(binary32{}, value.second).lanes;
  return rounded(by_turns((u16_lanes)(even >> 16), (u16_lanes)odd), by_turns((u16_lanes)even, (u16_lanes)(odd << 16)));
}

// ---- arithmetic ----

// Not by the operator: under -ffast-math compilers make an approximate reciprocal and a Newton step of it.
inline f32s divided(f32s value, f32s divisor) noexcept {
  f32s quotient;
  __asm__("vdivps {%2, %1, %0|%0, %1, %2}" : "=v"(quotient.lanes) : "v"(value.lanes), "v"(divisor.lanes));
  return quotient;
}
/// Whether the lower half of a lane is within two units of 0x8000, or a lane may have been flushed to zero.
inline bool may_round_otherwise(f32s a, f32s b) noexcept {
  const u32_lanes first = narrow(binary32{}, a).lanes, second = narrow(binary32{}, b).lanes;
  const u16s halves = {by_turns((u16_lanes)first, (u16_lanes)(second << 16)) - 3};  // 0x8002 becomes the largest there is
  return flushes_subnormals() || any_above(halves, 0x7ffa);
}

// ---- magnitudes ----

inline u16_half larger(u16_half a, u16_half b) noexcept {
  return {(u16_half_lanes)larger_lanes((i16_half_lanes)a.lanes, (i16_half_lanes)b.lanes)};
}
inline u16_half magnitudes(u16_half bits) noexcept { return {bits.lanes & binary16::abs_mask}; }

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

// ---- sums of squares ----

inline f64s added(f64s a, f64s b) noexcept { return {hidden(a.low + b.low), hidden(a.high + b.high)}; }
inline double sum_of(f64s sums) noexcept { return sum_of(hidden(sums.low + sums.high)); }
inline double sum_of_four(__m256d sums) noexcept {
  const __m128d sum = hidden(_mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1)));
  return launder(_mm_cvtsd_f64(_mm_add_sd(sum, _mm_unpackhi_pd(sum, sum))));
}
