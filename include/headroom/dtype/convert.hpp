#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/dtype/format.hpp>

#include <cstdint>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// `significand / 2^shift`, rounded to the nearest integer, ties to even; `shift` may be negative. significand < 2^62.
[[nodiscard]] constexpr std::uint64_t shift_right_to_nearest_even(std::uint64_t significand, int shift) noexcept {
  if (shift <= 0) return significand << -shift;
  if (shift > 62) return 0;  // less than half a unit is left
  // Adding just under half a unit carries whatever lies above a tie; one more carries a tie of an odd quotient.
  const std::uint64_t odd = (significand >> shift) & 1;
  return (significand + (std::uint64_t{1} << (shift - 1)) - 1 + odd) >> shift;
}

/// The bits of the magnitude nearest to significand * 2^exponent, for 0 < significand < 2^62: ties to even, gradual underflow;
/// what rounds beyond the largest finite value overflows.
template <class To>
[[nodiscard]] constexpr std::uint64_t nearest_magnitude(std::uint64_t significand, int exponent) noexcept {
  const int leading_one = 63 - __builtin_clzll(significand);
  const int target_exponent = exponent + leading_one + To::bias;
  const int below_normal = target_exponent < 1 ? 1 - target_exponent : 0;
  const std::uint64_t rounded = shift_right_to_nearest_even(significand, leading_one - To::mantissa_bits + below_normal);
  // The implicit one adds itself to the exponent field, and so does a carry out of rounding: from subnormal to normal, from one
  // binade to the next.
  const std::uint64_t exponent_field = below_normal != 0 ? 0 : static_cast<std::uint64_t>(target_exponent - 1);
  const std::uint64_t magnitude = (exponent_field << To::mantissa_bits) + rounded;
  return magnitude > To::largest_finite_bits ? To::overflow_bits : magnitude;
}

/// The bits of a normal number in a format that has its exponent and its digits.
template <class From, class To>
[[nodiscard]] constexpr std::uint64_t rebiased(std::uint64_t magnitude) noexcept {
  constexpr auto bias = static_cast<std::uint64_t>(To::bias - From::bias);
  return (magnitude << (To::mantissa_bits - From::mantissa_bits)) + (bias << To::mantissa_bits);
}
/// Whether all normal numbers of `From` are normal numbers of `To`.
template <class From, class To>
[[nodiscard]] constexpr bool holds_normals() noexcept {
  if constexpr (To::mantissa_bits < From::mantissa_bits || To::bias < From::bias)
    return false;
  else
    return rebiased<From, To>(From::largest_finite_bits) <= To::largest_finite_bits;
}

/// The bits of the value of format `To` nearest to the value of format `From` with these bits, rounded once; Inf overflows, NaN
/// becomes a quiet NaN. Overflow gives Inf, NaN where `To` has no Inf, or the largest finite value where `To` is `saturating`:
/// the casts of the OCP OFP8 specification, revision 1.0, section 5.2. In integers throughout, so it is constexpr and means the
/// same under -ffast-math and flush-to-zero. Every SIMD conversion is tested against it.
template <class From, class To>
[[nodiscard]] constexpr typename To::bits_type convert_bits(typename From::bits_type source) noexcept {
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
}  // namespace HEADROOM_BUILD
}  // namespace headroom
