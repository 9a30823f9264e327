#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/format.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// Every loss scale is in [2^-126, 2^126]. In this range the scale and its reciprocal are normal floats.
inline constexpr float smallest_loss_scale = 0x1p-126F;
inline constexpr float largest_loss_scale = 0x1p126F;  ///< see smallest_loss_scale

namespace detail {

// As doubles. They are no literals, because -fsingle-precision-constant makes literals floats.
inline constexpr double smallest_normal_float = static_cast<double>(std::numeric_limits<float>::min());
inline constexpr double largest_float = static_cast<double>(std::numeric_limits<float>::max());
// the least double that rounds to Inf in float
inline constexpr double rounds_to_infinity = bit_cast<double>(std::uint64_t{0x47EFFFFFF0000000});
inline constexpr double smallest_double = std::numeric_limits<double>::denorm_min();
inline constexpr double largest_double = std::numeric_limits<double>::max();
inline constexpr float no_max_scale = std::numeric_limits<float>::max();  // of a LossScaleConfig
inline constexpr double infinity = bit_cast<double>(binary64::infinity_bits);
inline constexpr double just_above_1 = 1.0 + std::numeric_limits<double>::epsilon();
inline constexpr double just_below_1 = 1.0 - std::numeric_limits<double>::epsilon() / 2.0;

// Settings are compared by their bits and passed by reference, because -ffast-math assumes that no value is NaN.

/// Whether low <= value <= high; false for NaN.
template <class T>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr bool is_within(const T& value, const std::common_type_t<T>& low,
                                                          const std::common_type_t<T>& high) noexcept {
  if constexpr (std::is_integral_v<T>) {
    return value >= low && value <= high;
  } else {
    using Format = std::conditional_t<sizeof(T) == sizeof(float), binary32, binary64>;
    const auto ordered = [](const T& number) {  // an integer that orders as the number does
      const auto bits = bit_cast<typename Format::bits_type>(number);
      const auto magnitude = static_cast<std::int64_t>(bits & Format::abs_mask);
      return bits > Format::abs_mask ? -magnitude : magnitude;
    };
    return ordered(value) >= ordered(low) && ordered(value) <= ordered(high);
  }
}

[[nodiscard]] HEADROOM_DETAIL_HD constexpr bool is_zero(const double& value) noexcept {
  return (bit_cast<std::uint64_t>(value) & binary64::abs_mask) == 0;
}
[[nodiscard]] HEADROOM_DETAIL_HD constexpr bool is_power_of_two(const float& value) noexcept {
  return (bit_cast<std::uint32_t>(value) & binary32::mantissa_mask) == 0;  // correct for normal numbers, as scales are
}

/// log2 of a positive normal number, in units of 2^-20. Linear between powers of two, so up to 0.087 below the true value.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr std::int32_t log2_below(double value) noexcept {
  return static_cast<std::int32_t>(bit_cast<std::uint64_t>(value) >> (binary64::mantissa_bits - 20)) - (binary64::bias << 20);
}
/// The exponent of a positive normal number: 3 for 8 and for 15.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr int exponent_of(double value) noexcept { return log2_below(value) >> 20; }
/// 2^exponent, clamped to the range of loss scales.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr float power_of_two(std::int32_t exponent) noexcept {
  const std::int32_t in_range = exponent < -126 ? -126 : exponent > 126 ? 126 : exponent;
  return bit_cast<float>(static_cast<std::uint32_t>(in_range + 127) << 23U);
}

/// Throws std::invalid_argument if `value` is not in [low, high]. The message names the field, the value and what is expected.
template <class T>
constexpr void check_in(const char* field, const T& value, const std::common_type_t<T>& low, const std::common_type_t<T>& high,
                        const char* expected = nullptr) {
  if (is_within(value, low, high)) return;
  throw_bad_value(field, value, expected != nullptr ? expected : concat({"in [", to_text(low), ", ", to_text(high), "]"}));
}

constexpr void check_loss_scale(const char* field, const float& value) {
  check_in(field, value, smallest_loss_scale, largest_loss_scale, "in [2^-126, 2^126]");
}

/// Throws std::invalid_argument if `factor` is NaN or beyond float.
inline void check_factor(const double& factor) {
  check_in("factor", factor, -largest_float, largest_float, "finite, as a float");
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
