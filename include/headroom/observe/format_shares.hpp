#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
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

/// digits * 2^exponent, for 1 <= digits < 2: beyond what a double can hold, and without subnormal numbers, which may be
/// flushed.
struct WideFloat {
  double digits;
  int exponent;

  /// Of a positive number's bits.
  template <class Format>
  [[nodiscard]] static constexpr WideFloat of(std::uint64_t magnitude) noexcept {
    auto field = static_cast<int>(magnitude >> Format::mantissa_bits);
    std::uint64_t fraction = magnitude & Format::mantissa_mask;
    if (field == 0) {
      const int below = Format::mantissa_bits - (63 - __builtin_clzll(fraction));
      fraction = (fraction << below) & Format::mantissa_mask;
      field = 1 - below;
    }
    constexpr int shift = binary64::mantissa_bits - Format::mantissa_bits;
    constexpr auto one = static_cast<std::uint64_t>(binary64::bias) << binary64::mantissa_bits;
    return {bit_cast<double>(one | fraction << shift), field - Format::bias};
  }
  [[nodiscard]] friend constexpr WideFloat operator*(WideFloat a, WideFloat b) noexcept {
    const double product = a.digits * b.digits;
    return product < 2.0 ? WideFloat{product, a.exponent + b.exponent} : WideFloat{product / 2.0, a.exponent + b.exponent + 1};
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
  return {{1.0, -Format::bias - Format::mantissa_bits}, true};  // half the smallest number; the tie goes to zero, which is even
}
template <class Format>
[[nodiscard]] constexpr RoundingEdge normal_edge() noexcept {
  return {{1.0, 1 - Format::bias}, false};
}
/// Halfway from the largest finite number to the next one, where the even one of them takes the tie. Doubles multiplied by a
/// power of two are never between these.
template <class Format>
[[nodiscard]] constexpr RoundingEdge overflow_edge() noexcept {
  WideFloat largest = WideFloat::of<Format>(Format::largest_finite_bits);
  if constexpr (Format::mantissa_bits >= binary64::mantissa_bits) {
    return {largest, true};
  } else {
    double half_unit = 0.5;
    for (int i = 0; i < Format::mantissa_bits; ++i) half_unit *= 0.5;
    largest.digits += half_unit;
    return {largest, Format::largest_finite_bits % 2 == 0};
  }
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
