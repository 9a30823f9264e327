#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/dtype_traits.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A number of elements: exact if both are the same, otherwise it lies between them.
struct CountRange {
  std::uint64_t least = 0, most = 0;

  [[nodiscard]] constexpr bool is_exact() const noexcept { return least == most; }
};

/// What becomes of elements that are multiplied by a scale, exactly, and then rounded once to a format, to the nearest, ties to
/// even. A histogram knows an element's exponent, and whether it is a power of two. Therefore, by a scale that is a power of
/// two:
/// - `underflows` and `subnormals` are exact;
/// - `overflows` is 0 exactly if the largest element does not overflow. If it does, the elements of one exponent, that of the
///   format's largest number, may or may not.
/// By any other scale each is uncertain by the elements of one exponent, and of two for `subnormals`.
struct FormatShares {
  std::uint64_t elements = 0;  ///< those that are finite and not zero, of which all this is counted, and which shares are of
  CountRange underflows;       ///< that become zero
  CountRange subnormals;       ///< that do not, and are below the smallest normal number before they are rounded
  CountRange overflows;        ///< that become Inf, or whatever takes its place in the format

  /// The shares, from 0 to 1: the most they can be. 0 if there are no elements.
  [[nodiscard]] constexpr double underflow_share() const noexcept { return share(underflows.most); }
  [[nodiscard]] constexpr double subnormal_share() const noexcept { return share(subnormals.most); }
  [[nodiscard]] constexpr double overflow_share() const noexcept { return share(overflows.most); }

 private:
  [[nodiscard]] constexpr double share(std::uint64_t count) const noexcept {
    return elements == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(elements);
  }
};

namespace detail {

/// digits * 2^(exponent - 63), where the highest of the 64 digits is set: beyond what a double can hold, and nothing that
/// -ffast-math may round otherwise.
struct WideFloat {
  static constexpr std::uint64_t one = std::uint64_t{1} << 63U;

  std::uint64_t digits;
  int exponent;

  /// Of a positive number's bits.
  template <class Format>
  [[nodiscard]] static constexpr WideFloat of(std::uint64_t magnitude) noexcept {
    const auto field = static_cast<int>(magnitude >> Format::mantissa_bits);
    const std::uint64_t fraction = magnitude & Format::mantissa_mask;
    if (field != 0) return {one | fraction << (63 - Format::mantissa_bits), field - Format::bias};
    const int zeros = __builtin_clzll(fraction);
    return {fraction << zeros, 64 - zeros - Format::bias - Format::mantissa_bits};
  }
  /// Rounded to odd: what does not fit sets the last digit. So it compares with a number of up to 62 digits as the exact
  /// product does, which has 77 if one is a double and the other a float.
  [[nodiscard]] friend constexpr WideFloat operator*(WideFloat a, WideFloat b) noexcept {
    constexpr std::uint64_t half_mask = 0xffffffff;
    const std::uint64_t a_high = a.digits >> 32U, a_low = a.digits & half_mask;
    const std::uint64_t b_high = b.digits >> 32U, b_low = b.digits & half_mask;
    const std::uint64_t low = a_low * b_low, left = a_high * b_low + (low >> 32U), right = a_low * b_high + (left & half_mask);
    const std::uint64_t high = a_high * b_high + (left >> 32U) + (right >> 32U);
    const std::uint64_t rest = ((low | right) & half_mask) != 0 ? 1 : 0;
    const int sum = a.exponent + b.exponent;
    return high >= one ? WideFloat{high | rest, sum + 1} : WideFloat{high << 1U | rest, sum};
  }
  [[nodiscard]] friend constexpr bool operator<(WideFloat a, WideFloat b) noexcept {
    return a.exponent != b.exponent ? a.exponent < b.exponent : a.digits < b.digits;
  }
  [[nodiscard]] friend constexpr bool operator==(WideFloat a, WideFloat b) noexcept {
    return a.exponent == b.exponent && a.digits == b.digits;
  }
};

/// Where rounding changes its mind.
struct RoundingEdge {
  WideFloat at;
  bool is_below;  ///< what is exactly there belongs to what is below

  [[nodiscard]] constexpr bool is_above(WideFloat value) const noexcept { return value < at || (is_below && value == at); }
};

template <class Format>
[[nodiscard]] constexpr RoundingEdge underflow_edge() noexcept {
  return {{WideFloat::one, -Format::bias - Format::mantissa_bits},
          true};  // half the smallest number; the tie goes to zero, which is even
}
template <class Format>
[[nodiscard]] constexpr RoundingEdge normal_edge() noexcept {
  return {{WideFloat::one, 1 - Format::bias}, false};
}
/// Halfway from the largest finite number to the next one, where the even one of them takes the tie.
template <class Format>
[[nodiscard]] constexpr RoundingEdge overflow_edge() noexcept {
  constexpr WideFloat largest = WideFloat::of<Format>(Format::largest_finite_bits);
  constexpr std::uint64_t half_unit = WideFloat::one >> static_cast<unsigned>(Format::mantissa_bits + 1);
  return {{largest.digits + half_unit, largest.exponent}, Format::largest_finite_bits % 2 == 0};
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
