#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/format.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A loss scale lives in [2^-126, 2^126], where it and its reciprocal are normal floats.
inline constexpr float smallest_loss_scale = 0x1p-126F;
inline constexpr float largest_loss_scale = 0x1p126F;

namespace detail {

// The edges of float and double, as doubles. Not written as literals, which -fsingle-precision-constant would turn into floats.
inline constexpr double smallest_float = static_cast<double>(std::numeric_limits<float>::denorm_min());
inline constexpr double smallest_normal_float = static_cast<double>(std::numeric_limits<float>::min());
inline constexpr double largest_float = static_cast<double>(std::numeric_limits<float>::max());
inline constexpr double rounds_to_infinity = bit_cast<double>(std::uint64_t{0x47EFFFFFF0000000});  // the least, in float
inline constexpr double smallest_double = std::numeric_limits<double>::denorm_min();
inline constexpr double largest_double = std::numeric_limits<double>::max();
inline constexpr double just_above_1 = 1.0 + std::numeric_limits<double>::epsilon();
inline constexpr double just_below_1 = 1.0 - std::numeric_limits<double>::epsilon() / 2.0;

// Settings are judged by their bits and passed by reference: under -ffast-math the compiler may assume that neither an operand
// of a comparison nor an argument passed by value is NaN.

/// Whether a positive `value` lies in [low, high]; false for NaN, Inf beyond `high`, zero and negative values. low > 0.
/// The bounds are of the type of the value, also where -fsingle-precision-constant makes floats of literals.
template <class T>
[[nodiscard]] constexpr bool positive_in(const T& value, const std::common_type_t<T>& low,
                                         const std::common_type_t<T>& high) noexcept {
  using Bits = std::conditional_t<sizeof(T) == sizeof(float), std::uint32_t, std::uint64_t>;
  return bit_cast<Bits>(value) >= bit_cast<Bits>(low) && bit_cast<Bits>(value) <= bit_cast<Bits>(high);
}

[[nodiscard]] constexpr bool is_zero(const double& value) noexcept {
  return (bit_cast<std::uint64_t>(value) & binary64::abs_mask) == 0;
}
[[nodiscard]] constexpr bool is_power_of_two(const float& value) noexcept {
  return (bit_cast<std::uint32_t>(value) & binary32::mantissa_mask) == 0;  // for normal numbers, as scales are
}

/// With nine digits, enough to tell floats apart, or as many as it takes to tell a double from its neighbours.
[[nodiscard, gnu::cold, gnu::noinline]] inline std::string to_text(double value) {
  const auto bits = bit_cast<std::uint64_t>(value);
  if ((bits & binary64::abs_mask) > binary64::infinity_bits) return "nan";
  char text[40];
  const bool is_float = static_cast<double>(rounded_to_float(value)) == value;
  for (int digits = 9; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (is_float || std::strtod(text, nullptr) == value) break;
  }
  return text;
}

[[nodiscard]] inline std::string to_text(std::int64_t value) { return std::to_string(value); }

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_bad_value(const char* field, double value, const char* expected) {
  throw_invalid_argument({field, " is ", to_text(value), "; it must be ", expected});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_bad_value(const char* field, std::int64_t value,
                                                                   const char* expected) {
  throw_invalid_argument({field, " is ", to_text(value), "; it must be ", expected});
}

/// Throws std::invalid_argument naming the field, its value and what is `expected` if it is not positive_in(value, low, high).
template <class T>
constexpr void check_in(const char* field, const T& value, const std::common_type_t<T>& low, const std::common_type_t<T>& high,
                        const char* expected) {
  if (!positive_in(value, low, high)) throw_bad_value(field, static_cast<double>(value), expected);
}

constexpr void check_loss_scale(const char* field, const float& value) {
  check_in(field, value, smallest_loss_scale, largest_loss_scale, "in [2^-126, 2^126]");
}

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
