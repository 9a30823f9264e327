#pragma once

#include <headroom/config.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A binary floating-point format: a sign, `ExponentBits` of exponent, `MantissaBits` of fraction, gradual underflow. Without
/// the sign, patterns up to `LargestFinite` are numbers, and all above are not: +Inf comes first where the format has one, and
/// the rest are NaNs. Nothing else decides what is finite.
template <class Bits, int ExponentBits, int MantissaBits, int Bias, Bits LargestFinite, bool HasInfinity>
struct float_format {
  using bits_type = Bits;
  static constexpr int exponent_bits = ExponentBits;
  static constexpr int mantissa_bits = MantissaBits;
  static constexpr int bias = Bias;
  static constexpr Bits sign_mask = static_cast<Bits>(Bits{1} << (ExponentBits + MantissaBits));
  static constexpr Bits abs_mask = static_cast<Bits>(sign_mask - 1);
  static constexpr Bits mantissa_mask = static_cast<Bits>((Bits{1} << MantissaBits) - 1);
  static constexpr Bits largest_finite_bits = LargestFinite;
  static constexpr bool has_infinity = HasInfinity;
  static constexpr Bits smallest_nan_bits = static_cast<Bits>(LargestFinite + (HasInfinity ? 2 : 1));
  static constexpr Bits quiet_nan_bits = static_cast<Bits>((LargestFinite + 1) | (Bits{1} << (MantissaBits - 1)));
  /// What Inf and numbers that are too large become in a cast.
  static constexpr Bits overflow_bits = HasInfinity ? static_cast<Bits>(LargestFinite + 1) : quiet_nan_bits;
  static_assert(LargestFinite < quiet_nan_bits && smallest_nan_bits <= quiet_nan_bits && quiet_nan_bits <= abs_mask,
                "headroom: a format needs a NaN above its largest finite value");
};

/// A format as in IEEE 754: the highest exponent is reserved for Inf and NaN.
template <class Bits, int ExponentBits, int MantissaBits, int Bias = (1 << (ExponentBits - 1)) - 1>
struct ieee_format : float_format<Bits, ExponentBits, MantissaBits, Bias,
                                  static_cast<Bits>((((Bits{1} << ExponentBits) - 1) << MantissaBits) - 1), true> {
  static constexpr Bits infinity_bits = static_cast<Bits>(((Bits{1} << ExponentBits) - 1) << MantissaBits);
};

struct binary16 : ieee_format<std::uint16_t, 5, 10> {};   ///< IEEE half precision
struct brain16 : ieee_format<std::uint16_t, 8, 7> {};     ///< bfloat16: the upper half of a binary32
struct binary32 : ieee_format<std::uint32_t, 8, 23> {};   ///< float
struct binary64 : ieee_format<std::uint64_t, 11, 52> {};  ///< double

/// Asks a conversion to saturate: `float8_e4m3(x, saturate)`. Inf and numbers that are too large become the largest finite
/// value of their sign instead of Inf or NaN; NaN stays NaN.
struct saturate_t {
  explicit saturate_t() = default;
};
inline constexpr saturate_t saturate{};

namespace detail {

/// Whether each value of the format is a float.
template <class Format>
constexpr bool fits_float() {
  constexpr int largest_exponent = static_cast<int>(Format::largest_finite_bits >> Format::mantissa_bits) - Format::bias;
  return sizeof(typename Format::bits_type) <= sizeof(float) && Format::mantissa_bits <= binary32::mantissa_bits &&
         largest_exponent <= binary32::bias && Format::bias + Format::mantissa_bits <= binary32::bias + binary32::mantissa_bits;
}

/// `Format` as the destination of a conversion that saturates.
template <class Format>
struct saturating : Format {
  static constexpr auto overflow_bits = Format::largest_finite_bits;
};

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
