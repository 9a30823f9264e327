#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/dtype/format.hpp>

#include <cstdint>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// `significand / 2^shift`, rounded to the nearest integer, ties to even; `shift` may be negative.
[[nodiscard]] constexpr std::uint64_t shift_right_to_nearest_even(std::uint64_t significand, int shift) noexcept {
  if (shift <= 0) return significand << -shift;
  if (shift > 62) return 0;  // no significand here has more than 53 bits: less than half a unit is left
  const std::uint64_t quotient = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half_unit = std::uint64_t{1} << (shift - 1);
  const bool up = rest > half_unit || (rest == half_unit && (quotient & 1) != 0);
  return quotient + (up ? 1 : 0);
}

/// The bits of the value of format `To` nearest to the value of format `From` with these bits: ties to even, gradual underflow,
/// overflow to Inf, NaN stays a (quiet) NaN. In integers throughout, so it is constexpr and means the same under -ffast-math
/// and flush-to-zero. It is what every SIMD conversion is tested against.
template <class From, class To>
[[nodiscard]] constexpr typename To::bits_type convert_bits(typename From::bits_type source) noexcept {
  using Result = typename To::bits_type;
  if constexpr (std::is_same_v<From, To>) return source;
  const auto sign = static_cast<Result>((source & From::sign_mask) != 0 ? To::sign_mask : 0);
  const std::uint64_t magnitude = source & From::abs_mask;
  if (magnitude > From::infinity_bits) {
    return static_cast<Result>(sign | To::quiet_nan_bits);
  }
  if (magnitude == From::infinity_bits) return static_cast<Result>(sign | To::infinity_bits);
  if (magnitude == 0) return sign;

  int exponent = static_cast<int>(magnitude >> From::mantissa_bits) - From::bias;
  std::uint64_t significand = magnitude & From::mantissa_mask;
  if (exponent == -From::bias) {  // subnormal: bring the leading one to where a normal number has its implicit one
    const int leading_zeros = __builtin_clzll(significand) - (63 - From::mantissa_bits);
    significand <<= leading_zeros;
    exponent = 1 - From::bias - leading_zeros;
  } else {
    significand |= std::uint64_t{1} << From::mantissa_bits;
  }

  const int target_exponent = exponent + To::bias;
  if (target_exponent >= (1 << To::exponent_bits) - 1) return static_cast<Result>(sign | To::infinity_bits);
  const int below_normal = target_exponent < 1 ? 1 - target_exponent : 0;
  const std::uint64_t rounded =
      shift_right_to_nearest_even(significand, From::mantissa_bits - To::mantissa_bits + below_normal);
  // The implicit one adds itself to the exponent field, and so does a carry out of rounding: from subnormal to normal, from one
  // binade to the next, and from the largest finite value to Inf.
  const std::uint64_t exponent_field = below_normal != 0 ? 0 : static_cast<std::uint64_t>(target_exponent - 1);
  return static_cast<Result>(sign | ((exponent_field << To::mantissa_bits) + rounded));
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
