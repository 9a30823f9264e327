#pragma once

#include <headroom/dtype/format.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

// Slow and exact references for rounding and arithmetic. From the headers they use only the layout
// of the formats. They compute in integers and long doubles, which -ffast-math and flush-to-zero do
// not change here.

namespace support {

/// The finite number ± significand * 2^exponent.
struct Number {
  bool negative = false;
  std::uint64_t significand = 0;
  int exponent = 0;
};

template <class Format>
Number decode(typename Format::bits_type bits) {
  const auto field = static_cast<int>((bits & Format::abs_mask) >> Format::mantissa_bits);
  const std::uint64_t fraction = bits & Format::mantissa_mask;
  const std::uint64_t significand =
      field == 0 ? fraction : fraction + (std::uint64_t{1} << Format::mantissa_bits);
  return {(bits & Format::sign_mask) != 0, significand,
          (field == 0 ? 1 : field) - Format::bias - Format::mantissa_bits};
}

inline long double to_long_double(const Number& x) {
  const long double magnitude = std::ldexp(static_cast<long double>(x.significand), x.exponent);
  return x.negative ? -magnitude : magnitude;
}

/// The exponent of the leading 1 bit. x is not zero.
inline int floor_log2(const Number& x) { return x.exponent + 63 - __builtin_clzll(x.significand); }

/// The same number with the leading 1 bit of its significand at bit `top`. x is not zero, and no
/// bit may be lost.
inline Number with_leading_one_at(int top, Number x) {
  const int shift = top - (floor_log2(x) - x.exponent);
  x.significand = shift >= 0 ? x.significand << shift : x.significand >> -shift;
  x.exponent -= shift;
  return x;
}

/// x / y, truncated after more than 60 bits. x has at most 53 significant bits, and y at most 24.
/// If truncation loses anything, the lowest bit of the result's significand is 1. This is enough to
/// round correctly to any narrower format.
inline Number quotient(Number x, Number y) {
  const bool negative = x.negative != y.negative;
  if (x.significand == 0) return {negative, 0, 0};
  x = with_leading_one_at(52, x);
  y = with_leading_one_at(23, y);
  const std::uint64_t high = x.significand / y.significand, rest = (x.significand % y.significand)
                                                                   << 32;
  const std::uint64_t low = rest / y.significand;
  const bool cut_off = rest % y.significand != 0;
  return {negative, (((high << 32) + low) << 1) + (cut_off ? 1 : 0), x.exponent - y.exponent - 33};
}

/// x * y, with the same limits and the same truncation.
inline Number product(Number x, Number y) {
  const bool negative = x.negative != y.negative;
  if (x.significand == 0 || y.significand == 0) return {negative, 0, 0};
  x = with_leading_one_at(52, x);
  y = with_leading_one_at(23, y);
  const std::uint64_t high = (x.significand >> 24) * y.significand,
                      low = (x.significand & 0xFFFFFF) * y.significand;
  const bool cut_off = (low & 0xFFFF) != 0;
  return {negative, (((high << 8) + (low >> 16)) << 1) + (cut_off ? 1 : 0),
          x.exponent + y.exponent + 15};
}

/// The result of an overflow: Inf, or NaN if the format has no Inf.
template <class Format>
typename Format::bits_type overflow() {
  const auto above = static_cast<typename Format::bits_type>(Format::largest_finite_bits + 1);
  return Format::has_infinity ? above : Format::quiet_nan_bits;
}

/// The bits of the value of `Format` nearest to x, ties to even.
template <class Format>
typename Format::bits_type nearest(const Number& x) {
  using Bits = typename Format::bits_type;
  const auto sign = static_cast<Bits>(x.negative ? Format::sign_mask : 0);
  if (x.significand == 0) return sign;

  const int smallest_normal = 1 - Format::bias;
  const int log2 = floor_log2(x);
  const int unit = (log2 < smallest_normal ? smallest_normal : log2) - Format::mantissa_bits;
  const int dropped = unit - x.exponent;
  std::uint64_t units = 0;  // x as a multiple of 2^unit
  if (dropped <= 0) {
    units = x.significand << -dropped;
  } else if (dropped < 64) {
    units = x.significand >> dropped;
    const std::uint64_t below = x.significand - (units << dropped),
                        half_unit = std::uint64_t{1} << (dropped - 1);
    if (below > half_unit || (below == half_unit && units % 2 == 1)) ++units;
  }
  // The leading 1 bit of a normal number's `units` adds one to the exponent. So does a carry into
  // the next binade.
  const std::uint64_t binade =
      log2 < smallest_normal ? 0 : static_cast<std::uint64_t>(log2 + Format::bias - 1);
  const std::uint64_t magnitude = (binade << Format::mantissa_bits) + units;
  const bool overflows = binade >= std::uint64_t{1} << Format::exponent_bits ||
                         magnitude > Format::largest_finite_bits;
  return static_cast<Bits>(sign | (overflows ? overflow<Format>() : magnitude));
}

/// The magnitudes of all finite values of an 8-bit or 16-bit format, indexed by their bits. One
/// more element is the next magnitude that the format would have.
template <class Format>
std::vector<long double> all_magnitudes() {
  std::vector<long double> magnitudes;
  for (std::uint32_t bits = 0; bits <= Format::largest_finite_bits + 1U; ++bits) {
    const int field = static_cast<int>(bits >> Format::mantissa_bits);
    const auto fraction = static_cast<long double>(bits & Format::mantissa_mask);
    const long double implicit_one = field == 0 ? 0.0L : std::ldexp(1.0L, Format::mantissa_bits);
    magnitudes.push_back(std::ldexp(
        implicit_one + fraction, (field == 0 ? 1 : field) - Format::bias - Format::mantissa_bits));
  }
  return magnitudes;
}

/// What a kernel has to store for one element.
struct Outcome {
  std::uint64_t bits = 0;
  /// The operand or the result is subnormal. In a program that flushes subnormals, a zero of the
  /// same sign is right as well.
  bool met_subnormal = false;
};

/// Kernels compute in float, or in double if source or destination is double.
template <class In, class Out>
using compute_format = std::conditional_t<std::is_same_v<In, headroom::binary64> ||
                                              std::is_same_v<Out, headroom::binary64>,
                                          headroom::binary64, headroom::binary32>;

template <class Compute>
bool is_subnormal_or_least(const Number& x) {
  return x.significand != 0 && floor_log2(x) <= 1 - Compute::bias;
}

/// operation(element, factor), rounded to the compute format, and then rounded to `Out`.
/// `operation` is `quotient` or `product`.
template <class In, class Out>
Outcome compute(Number (*operation)(Number, Number), typename In::bits_type element, float factor) {
  using Compute = compute_format<In, Out>;
  using Bits = typename Out::bits_type;
  const Number divisor = decode<headroom::binary32>(__builtin_bit_cast(std::uint32_t, factor));
  const bool negative = ((element & In::sign_mask) != 0) != divisor.negative;
  const auto sign = static_cast<Bits>(negative ? Out::sign_mask : 0);
  const auto magnitude = static_cast<typename In::bits_type>(element & In::abs_mask);
  const bool is_infinite = magnitude > In::largest_finite_bits && magnitude < In::smallest_nan_bits;
  if (magnitude >= In::smallest_nan_bits || (is_infinite && divisor.significand == 0))
    return {Out::quiet_nan_bits, false};
  if (is_infinite) return {std::uint64_t{sign} | overflow<Out>(), false};

  const Number wide = decode<In>(element);
  const Number exact = operation(wide, divisor);
  const bool met_subnormal =
      is_subnormal_or_least<Compute>(wide) || is_subnormal_or_least<Compute>(exact);
  const typename Compute::bits_type rounded = nearest<Compute>(exact);
  if ((rounded & Compute::abs_mask) == Compute::infinity_bits)
    return {std::uint64_t{sign} | overflow<Out>(), false};
  return {nearest<Out>(decode<Compute>(rounded)), met_subnormal};
}

}  // namespace support
