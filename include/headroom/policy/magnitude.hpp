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
//     template <class Visit> static constexpr void fields(Visit&&, const Config&);
//
// All are noexcept.

/// Only whether gradients were finite counts, as in jmp, torch.amp and most others.
struct IgnoreMagnitudes {
  using Config = LossScaleConfig;
  constexpr explicit IgnoreMagnitudes(const Config&) noexcept {}
  template <class Visit>
  static constexpr void fields(Visit&&, const Config&) {}
};

namespace detail {

[[nodiscard]] constexpr bool is_positive(const double& value) noexcept {
  const auto bits = bit_cast<std::uint64_t>(value);
  return bits != 0 && bits <= binary64::infinity_bits;
}

inline constexpr std::int32_t log2_unit = 1 << 20;
/// The logarithm to base 2 of a positive number in units of 2^-20: rounded down, of the straight line between powers of two,
/// which lies below the true one by at most 0.087.
[[nodiscard]] constexpr std::int32_t log2_below(const double& value) noexcept {
  return static_cast<std::int32_t>(bit_cast<std::uint64_t>(value) >> (binary64::mantissa_bits - 20)) -
         binary64::bias * log2_unit;
}
/// 2^exponent, or the end of the range of scales.
[[nodiscard]] constexpr float power_of_two(std::int32_t exponent) noexcept {
  const std::int32_t in_range = exponent < -126 ? -126 : exponent > 126 ? 126 : exponent;
  return bit_cast<float>(static_cast<std::uint32_t>(in_range + 127) << 23U);
}
/// A scale over 2^n, or the end of the range.
[[nodiscard]] constexpr float bits_lower(float scale, int n) noexcept {
  const float least = smallest_loss_scale * power_of_two(n);
  return scale > least ? scale * power_of_two(-n) : smallest_loss_scale;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
