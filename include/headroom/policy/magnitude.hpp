#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/report.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

// How a scale follows the magnitudes in reports: the third parameter of BasicDynamicLossScale. Such a piece is a value with
//
//     using Config = …;                                  // its settings: see growth.hpp
//     static constexpr const char* name;                 // of the policy; unusual other pieces come first in it
//     constexpr explicit Piece(const Config&);
//     constexpr float next_scale(const GradientReport&, float scale, const Config&);  // after a step with this scale, before
//                                                        // it is brought into [min_scale, max_scale]; 0: as after adjust(bool)
//     template <class Self, class Visit> static void visit_fields(Self&, Visit&);
//
// and equality. All are noexcept.

/// Only whether gradients were finite counts, as in jmp, torch.amp and most others.
struct IgnoreMagnitudes {
  using Config = LossScaleConfig;
  constexpr explicit IgnoreMagnitudes(const Config&) noexcept {}
  friend constexpr bool operator==(IgnoreMagnitudes, IgnoreMagnitudes) noexcept { return true; }
};

namespace detail {

/// Logarithms to base 2 in whole sixteenths, by straight lines between powers of two, which lie below the true one by at most
/// 0.087.
inline constexpr std::int32_t log2_unit = 16;

[[nodiscard]] constexpr bool is_positive(const double& value) noexcept {
  const auto bits = bit_cast<std::uint64_t>(value);
  return bits != 0 && bits <= binary64::infinity_bits;
}
/// The line, rounded down; in units of 2^-bits, if not in sixteenths. `value` is positive.
template <unsigned bits = 4>
[[nodiscard]] constexpr std::int32_t log2_below(const double& value) noexcept {
  return static_cast<std::int32_t>(bit_cast<std::uint64_t>(value) >> (binary64::mantissa_bits - bits)) -
         binary64::bias * (1 << bits);
}
/// 2^exponent, or the end of the range of scales.
[[nodiscard]] constexpr float power_of_two(std::int32_t exponent) noexcept {
  const std::int32_t in_range = exponent < -126 ? -126 : exponent > 126 ? 126 : exponent;
  return bit_cast<float>(static_cast<std::uint32_t>(in_range + 127) << 23U);
}
/// A logarithm rounded down to whole powers of two.
[[nodiscard]] constexpr std::int32_t whole_bits(std::int32_t log2) noexcept {
  return log2 >= 0 ? log2 / log2_unit : -((log2_unit - 1 - log2) / log2_unit);
}
/// A scale over 2^n, or the end of the range.
[[nodiscard]] constexpr float bits_lower(float scale, int n) noexcept {
  const float least = smallest_loss_scale * power_of_two(n);
  return scale > least ? scale * power_of_two(-n) : smallest_loss_scale;
}

constexpr void check_largest_finite(const float& value) { check_in("largest_finite", value, 1.0F, 0x1p127F, "in [1, 2^127]"); }

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
