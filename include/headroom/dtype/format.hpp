#pragma once

#include <headroom/detail/bits.hpp>

#include <cstdint>
#include <type_traits>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// A binary floating-point format: one sign bit, `ExponentBits` of exponent, `MantissaBits` of fraction, gradual underflow.
/// Without the sign, patterns up to `LargestFinite` are finite. The next one is Inf if the format has Inf. All others are NaN.
template <class Bits, int ExponentBits, int MantissaBits, int Bias, Bits LargestFinite, bool HasInfinity>
struct float_format {
  using bits_type = Bits;                                                                         ///< an unsigned integer
  static constexpr int exponent_bits = ExponentBits;                                              ///< of the exponent
  static constexpr int mantissa_bits = MantissaBits;                                              ///< of the fraction
  static constexpr int bias = Bias;                                                               ///< of the exponent
  static constexpr Bits sign_mask = static_cast<Bits>(Bits{1} << (ExponentBits + MantissaBits));  ///< the bit of the sign
  static constexpr Bits abs_mask = static_cast<Bits>(sign_mask - 1);                              ///< all other bits
  static constexpr Bits mantissa_mask = static_cast<Bits>((Bits{1} << MantissaBits) - 1);         ///< the bits of the fraction
  static constexpr Bits largest_finite_bits = LargestFinite;                                      ///< without a sign
  static constexpr bool has_infinity = HasInfinity;                                               ///< whether it has Inf
  static constexpr Bits smallest_nan_bits = static_cast<Bits>(LargestFinite + (HasInfinity ? 2 : 1));  ///< without a sign
  /// The NaN that casts write; the largest number if the format has no NaN.
  static constexpr Bits quiet_nan_bits =
      LargestFinite == abs_mask ? abs_mask : static_cast<Bits>((LargestFinite + 1) | (Bits{1} << (MantissaBits - 1)));
  /// The result of a cast of Inf or of a number that is too large: Inf, or NaN if the format has no Inf.
  static constexpr Bits overflow_bits = HasInfinity ? static_cast<Bits>(LargestFinite + 1) : quiet_nan_bits;
  static_assert(LargestFinite == abs_mask || (smallest_nan_bits <= quiet_nan_bits && quiet_nan_bits <= abs_mask));
};

/// A format as in IEEE 754: the highest exponent is reserved for Inf and NaN.
template <class Bits, int ExponentBits, int MantissaBits, int Bias = (1 << (ExponentBits - 1)) - 1>
struct ieee_format : float_format<Bits, ExponentBits, MantissaBits, Bias,
                                  static_cast<Bits>((((Bits{1} << ExponentBits) - 1) << MantissaBits) - 1), true> {
  static constexpr Bits infinity_bits = static_cast<Bits>(((Bits{1} << ExponentBits) - 1) << MantissaBits);  ///< +Inf
};

struct binary16 : ieee_format<std::uint16_t, 5, 10> {};   ///< IEEE half precision
struct brain16 : ieee_format<std::uint16_t, 8, 7> {};     ///< bfloat16: the upper half of a binary32
struct binary32 : ieee_format<std::uint32_t, 8, 23> {};   ///< float
struct binary64 : ieee_format<std::uint64_t, 11, 52> {};  ///< double

/// Makes a conversion saturate: `float8_e4m3(x, saturate)`. Inf and what is too large become the largest finite value.
struct saturate_t {
  explicit saturate_t() = default;
};
inline constexpr saturate_t saturate{};  ///< see saturate_t

namespace detail {

/// Whether float represents every value of the format exactly.
template <class Format>
constexpr bool fits_float() {
  constexpr int largest_exponent = static_cast<int>(Format::largest_finite_bits >> Format::mantissa_bits) - Format::bias;
  return sizeof(typename Format::bits_type) <= sizeof(float) && Format::mantissa_bits <= binary32::mantissa_bits &&
         largest_exponent <= binary32::bias && Format::bias + Format::mantissa_bits <= binary32::bias + binary32::mantissa_bits;
}

/// `Format` as the destination of a saturating conversion.
template <class Format>
struct saturating : Format {
  static constexpr auto overflow_bits = Format::largest_finite_bits;
};

/// `significand / 2^shift`, rounded to the nearest integer, ties to even; `shift` may be negative. significand < 2^62.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr std::uint64_t shift_right_to_nearest_even(std::uint64_t significand,
                                                                                     int shift) noexcept {
  if (shift <= 0) return significand << -shift;
  if (shift > 62) return 0;  // the quotient is below one half
  // Adding just under half a unit rounds up everything above a tie. One more rounds up a tie if the quotient is odd.
  const std::uint64_t odd = (significand >> shift) & 1;
  return (significand + (std::uint64_t{1} << (shift - 1)) - 1 + odd) >> shift;
}

/// The magnitude of format `To` nearest to significand * 2^exponent, as bits. Requires 0 < significand < 2^62. Ties go to even;
/// underflow is gradual. If the result is beyond the largest finite value, it is `overflow_bits`.
template <class To>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr std::uint64_t nearest_magnitude(std::uint64_t significand, int exponent) noexcept {
  const int leading_one = highest_bit(significand);
  const int target_exponent = exponent + leading_one + To::bias;
  const int below_normal = target_exponent < 1 ? 1 - target_exponent : 0;
  const std::uint64_t rounded = shift_right_to_nearest_even(significand, leading_one - To::mantissa_bits + below_normal);
  // `rounded` contains the implicit one, which adds 1 to the exponent field. A carry out of rounding also adds 1.
  const std::uint64_t exponent_field = below_normal != 0 ? 0 : static_cast<std::uint64_t>(target_exponent - 1);
  const std::uint64_t magnitude = (exponent_field << To::mantissa_bits) + rounded;
  return magnitude > To::largest_finite_bits ? To::overflow_bits : magnitude;
}

/// Converts the bits of a normal number to a format that has its exponent and its digits.
template <class From, class To>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr std::uint64_t rebiased(std::uint64_t magnitude) noexcept {
  constexpr auto bias = static_cast<std::uint64_t>(To::bias - From::bias);
  return (magnitude << (To::mantissa_bits - From::mantissa_bits)) + (bias << To::mantissa_bits);
}
/// Whether every normal number of `From` is a normal number of `To`.
template <class From, class To>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr bool holds_normals() noexcept {
  if constexpr (To::mantissa_bits < From::mantissa_bits || To::bias < From::bias)
    return false;
  else
    return rebiased<From, To>(From::largest_finite_bits) <= To::largest_finite_bits;
}

/// Converts the bits of a `From` to the nearest `To`, rounded once. Inf becomes `overflow_bits` and NaN a quiet NaN, as in the
/// OCP OFP8 specification 1.0, section 5.2. Uses integers only, so -ffast-math and flush-to-zero do not change it.
template <class From, class To>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr typename To::bits_type convert_bits(typename From::bits_type source) noexcept {
  using Result = typename To::bits_type;
  if constexpr (std::is_same_v<From, To>) return source;
  const auto sign = static_cast<Result>((source & From::sign_mask) != 0 ? To::sign_mask : 0);
  const std::uint64_t magnitude = source & From::abs_mask;
  if (magnitude >= From::smallest_nan_bits) return static_cast<Result>(sign | To::quiet_nan_bits);
  if (magnitude > From::largest_finite_bits) return static_cast<Result>(sign | To::overflow_bits);
  if (magnitude == 0) return sign;
  const std::uint64_t fraction = magnitude & From::mantissa_mask;
  const auto field = static_cast<int>(magnitude >> From::mantissa_bits);  // 0: subnormal, without an implicit one
  if constexpr (holds_normals<From, To>()) {
    if (field != 0) return static_cast<Result>(sign | rebiased<From, To>(magnitude));
  }
  const std::uint64_t significand = field == 0 ? fraction : fraction | (std::uint64_t{1} << From::mantissa_bits);
  const int exponent = (field == 0 ? 1 : field) - From::bias - From::mantissa_bits;
  return static_cast<Result>(sign | nearest_magnitude<To>(significand, exponent));
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
