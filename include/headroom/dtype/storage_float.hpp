#pragma once

#include <headroom/dtype/format.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// Converts an integer to the nearest value of format `To`, rounded once. Returns its bits.
template <class To, class Integer>
[[nodiscard]] constexpr typename To::bits_type convert_integer(Integer value) noexcept {
  using Bits = typename To::bits_type;
  const bool negative = value < Integer{0};
  auto magnitude = static_cast<std::uint64_t>(value);
  if (negative) magnitude = ~magnitude + 1;
  if (magnitude == 0) return 0;
  int exponent = 0;
  // The last bit records whether a one was shifted out ("rounding to odd"). So more than a tie still differs from a tie.
  for (; magnitude >> 62 != 0; ++exponent) magnitude = (magnitude >> 1) | (magnitude & 1);
  const std::uint64_t bits = nearest_magnitude<To>(magnitude, exponent);
  return static_cast<Bits>((negative ? To::sign_mask : 0) | bits);
}

}  // namespace detail

/// A floating-point number stored as the bits of `Format`. It converts and compares but has no arithmetic: compute in float. It
/// is trivially copyable and as large as its bits. Conversions round to nearest-even.
template <class Format>
class storage_float {
  template <class T>
  static constexpr bool is_number = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                    (std::is_integral_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  static_assert(detail::fits_float<Format>());

 public:
  using format = Format;
  using bits_type = typename Format::bits_type;

  storage_float() = default;

  /// The value nearest to a float, double or integer. Doubles and integers are rounded once, not by way of float.
  template <class Number, std::enable_if_t<is_number<Number>, int> = 0>
  constexpr explicit storage_float(Number value) noexcept : bits_(nearest<Format>(value)) {}
  /// The same, but Inf and values that are too large become the largest finite value of their sign.
  template <class Number, std::enable_if_t<is_number<Number>, int> = 0>
  constexpr storage_float(Number value, saturate_t) noexcept : bits_(nearest<detail::saturating<Format>>(value)) {}

  /// Exact for float and double. An integer gets the value that a conversion from float gives.
  template <class Number, std::enable_if_t<is_number<Number>, int> = 0>
  constexpr explicit operator Number() const noexcept {
    if constexpr (std::is_same_v<Number, double>) {
      return detail::bit_cast<double>(detail::convert_bits<Format, binary64>(bits_));
    } else {
      return static_cast<Number>(detail::bit_cast<float>(detail::convert_bits<Format, binary32>(bits_)));
    }
  }

  [[nodiscard]] static constexpr storage_float from_bits(bits_type bits) noexcept {
    storage_float result{};
    result.bits_ = bits;
    return result;
  }
  [[nodiscard]] constexpr bits_type bits() const noexcept { return bits_; }

  constexpr storage_float operator-() const noexcept { return from_bits(static_cast<bits_type>(bits_ ^ Format::sign_mask)); }

  // Compares values: NaN is unordered, -0 equals +0. Integers are compared, so -ffast-math does not change the result.
  friend constexpr bool operator==(storage_float a, storage_float b) noexcept { return ordered(a, b) && a.rank() == b.rank(); }
  friend constexpr bool operator!=(storage_float a, storage_float b) noexcept { return !(a == b); }
  friend constexpr bool operator<(storage_float a, storage_float b) noexcept { return ordered(a, b) && a.rank() < b.rank(); }
  friend constexpr bool operator>(storage_float a, storage_float b) noexcept { return b < a; }
  friend constexpr bool operator<=(storage_float a, storage_float b) noexcept { return ordered(a, b) && a.rank() <= b.rank(); }
  friend constexpr bool operator>=(storage_float a, storage_float b) noexcept { return b <= a; }

 private:
  template <class To, class Number>
  static constexpr bits_type nearest(Number value) noexcept {
    if constexpr (std::is_same_v<Number, float>) {
      return detail::convert_bits<binary32, To>(detail::bit_cast<std::uint32_t>(value));
    } else if constexpr (std::is_same_v<Number, double>) {
      return detail::convert_bits<binary64, To>(detail::bit_cast<std::uint64_t>(value));
    } else {
      return detail::convert_integer<To>(value);
    }
  }
  // An integer that orders as the value does. Both zeros are 0.
  constexpr std::int32_t rank() const noexcept {
    const auto magnitude = static_cast<std::int32_t>(bits_ & Format::abs_mask);
    return (bits_ & Format::sign_mask) != 0 ? -magnitude : magnitude;
  }
  static constexpr bool ordered(storage_float a, storage_float b) noexcept {
    return (a.bits_ & Format::abs_mask) < Format::smallest_nan_bits && (b.bits_ & Format::abs_mask) < Format::smallest_nan_bits;
  }

  bits_type bits_;
};

HEADROOM_DETAIL_END_NAMESPACE

/// numeric_limits<float>, with the members that depend on the format.
template <class Format>
class std::numeric_limits<headroom::storage_float<Format>> : public std::numeric_limits<float> {
  using T = headroom::storage_float<Format>;
  using Bits = typename Format::bits_type;
  // Rounded towards zero, as in C's definition of decimal digits. 30103/100000 is log10(2), rounded up.
  static constexpr int log10_of_2_to(int exponent) { return exponent * 30103 / 100000; }

 public:
  // Not inherited, because under -ffast-math float claims to have no Inf, NaN and subnormals. Stored bits always have them.
  static constexpr bool has_infinity = Format::has_infinity;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = Format::smallest_nan_bits != Format::quiet_nan_bits;
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false;
  static constexpr bool is_iec559 = Format::has_infinity;
  static constexpr bool tinyness_before = false;
  static constexpr int digits = Format::mantissa_bits + 1;
  static constexpr int digits10 = log10_of_2_to(Format::mantissa_bits);
  static constexpr int max_digits10 = log10_of_2_to(digits) + 2;
  static constexpr int max_exponent = (Format::largest_finite_bits >> Format::mantissa_bits) - Format::bias + 1;
  static constexpr int min_exponent = 2 - Format::bias;
  static constexpr int max_exponent10 = log10_of_2_to(max_exponent);
  static constexpr int min_exponent10 = log10_of_2_to(min_exponent - 1);

  static constexpr T min() noexcept { return T::from_bits(static_cast<Bits>(1 << Format::mantissa_bits)); }
  static constexpr T max() noexcept { return T::from_bits(Format::largest_finite_bits); }
  static constexpr T lowest() noexcept { return -max(); }
  static constexpr T epsilon() noexcept { return T(1.0F / static_cast<float>(1 << Format::mantissa_bits)); }
  static constexpr T round_error() noexcept { return T(0.5F); }
  static constexpr T infinity() noexcept { return T::from_bits(Format::overflow_bits); }  ///< NaN if the format has no Inf
  static constexpr T quiet_NaN() noexcept { return T::from_bits(Format::quiet_nan_bits); }
  static constexpr T signaling_NaN() noexcept { return T::from_bits(Format::smallest_nan_bits); }
  static constexpr T denorm_min() noexcept { return T::from_bits(Bits{1}); }
};
