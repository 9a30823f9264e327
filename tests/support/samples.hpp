#pragma once

#include <headroom/dtype/format.hpp>

#include <cstdint>
#include <random>
#include <vector>

#include "support/bits.hpp"
#include "support/reference.hpp"
#include "support/sanitizer.hpp"

namespace support {

/// The seed of all random bits, so that every run is the same.
inline constexpr std::uint32_t seed = 20240607;

template <class Format>
typename Format::bits_type random_bits(std::mt19937& random) {
  const std::uint64_t high = random();
  return static_cast<typename Format::bits_type>(
      sizeof(typename Format::bits_type) > 4 ? high << 32 | random() : high);
}
/// Whether tests go through all patterns of 16 bits. With a sanitizer they take a seeded sample
/// instead, because sanitizers are slow and look at instructions, not at values.
#ifdef HEADROOM_TEST_SANITIZER
inline constexpr bool is_exhaustive = false;
#else
inline constexpr bool is_exhaustive = true;
#endif

/// How many of `count` random cases to try. With a sanitizer it is a twentieth of them.
constexpr int cases(int count) { return is_exhaustive ? count : (count + 19) / 20; }

/// Random bits that are neither Inf nor NaN.
template <class Format>
typename Format::bits_type random_finite_bits(std::mt19937& random) {
  for (;;) {
    const auto bits = random_bits<Format>(random);
    if (is_finite<Format>(bits)) return bits;
  }
}

/// A positive number in [2^low, 2^(high + 1)). All numbers in that range are normal in the format.
template <class Format>
typename Format::bits_type random_magnitude(std::mt19937& random, int low, int high) {
  using Bits = typename Format::bits_type;
  const int exponent = low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  const Bits fraction = static_cast<Bits>(random_bits<Format>(random) & Format::mantissa_mask);
  return static_cast<Bits>((static_cast<Bits>(exponent + Format::bias) << Format::mantissa_bits) |
                           fraction);
}

/// Every pattern of an 8-bit format, and of a 16-bit format if tests are exhaustive. Otherwise, for
/// each exponent and sign, the edges of the fraction, which include Inf and NaNs, and as many
/// random patterns.
template <class Format>
std::vector<typename Format::bits_type> sample_bits() {
  using Bits = typename Format::bits_type;
  std::vector<Bits> samples;
  if constexpr (sizeof(Bits) == 1 || (sizeof(Bits) == 2 && is_exhaustive)) {
    for (std::uint32_t bits = 0; bits < 2U * Format::sign_mask; ++bits)
      samples.push_back(static_cast<Bits>(bits));
  } else {
    std::mt19937 random(seed);
    constexpr auto half_way = static_cast<Bits>(Bits{1} << (Format::mantissa_bits - 1));
    const Bits fractions[] = {0,
                              1,
                              static_cast<Bits>(half_way - 1),
                              half_way,
                              static_cast<Bits>(half_way + 1),
                              Format::mantissa_mask};
    const std::uint32_t step =
        is_exhaustive || Format::exponent_bits < 11
            ? 1
            : 23;  // a step of 23 includes the last of double's exponents, 2047
    for (std::uint32_t field = 0; field < 1U << Format::exponent_bits; field += step) {
      for (const Bits fraction : fractions) {
        const auto magnitude =
            static_cast<Bits>((static_cast<Bits>(field) << Format::mantissa_bits) | fraction);
        samples.push_back(magnitude);
        samples.push_back(static_cast<Bits>(magnitude | Format::sign_mask));
        for (int i = 0; i < 2; ++i) {
          samples.push_back(static_cast<Bits>(random_bits<Format>(random) &
                                              (Format::sign_mask | Format::abs_mask)));
        }
      }
    }
  }
  return samples;
}

template <class Format>
AnyBits any_sample_bits() {
  const auto samples = sample_bits<Format>();
  return {samples.begin(), samples.end()};
}

/// A value of the wide format, and the bits of the narrow one that it rounds to by definition.
template <class Wide, class Narrow>
struct Boundary {
  typename Wide::bits_type wide;
  typename Narrow::bits_type nearest;
};

/// The values at which rounding changes: the midpoint between two neighbours of a narrow format,
/// including Inf, and the values of the wide format just below and just above it, with both signs.
/// A midpoint is rounded to the neighbour whose lowest bit is 0.
template <class Wide, class Narrow>
std::vector<Boundary<Wide, Narrow>> boundaries() {
  using WideBits = typename Wide::bits_type;
  using NarrowBits = typename Narrow::bits_type;
  std::vector<Boundary<Wide, Narrow>> result;
  std::mt19937 random(seed);
  for (std::uint32_t lower = 0; lower <= Narrow::largest_finite_bits;) {
    const auto even = static_cast<NarrowBits>(lower + lower % 2),
               upper = static_cast<NarrowBits>(lower + 1);
    // In half units the lower neighbour is 2 * significand, and the midpoint is one more.
    Number midpoint = decode<Narrow>(static_cast<NarrowBits>(lower));
    midpoint.significand = 2 * midpoint.significand + 1;
    midpoint.exponent -= 1;
    const WideBits middle = nearest<Wide>(midpoint);
    for (const bool negative : {false, true}) {
      const auto wide_sign = static_cast<WideBits>(negative ? Wide::sign_mask : 0);
      const auto sign = static_cast<NarrowBits>(negative ? Narrow::sign_mask : 0);
      const auto add = [&](WideBits magnitude, std::uint32_t rounded) {
        if (rounded > Narrow::largest_finite_bits) rounded = overflow<Narrow>();
        result.push_back({static_cast<WideBits>(wide_sign | magnitude),
                          static_cast<NarrowBits>(sign | rounded)});
      };
      add(static_cast<WideBits>(middle - 1), lower);
      add(middle, even);
      add(static_cast<WideBits>(middle + 1), upper);
    }
    lower += is_exhaustive || sizeof(NarrowBits) == 1
                 ? 1U
                 : 1U + static_cast<std::uint32_t>(random() % 40);
  }
  return result;
}

}  // namespace support
