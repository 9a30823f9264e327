#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/dtype/scale_range.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

// Rules for the scale by which a tensor is multiplied before it is rounded to fp8. It starts with 1. `update` takes the amax,
// which is the largest |element| or NaN, and the largest fp8 number. The amax is that of the elements to be multiplied if
// `is_current`, otherwise that of the step before. `check` throws std::invalid_argument with a bad setting and its value.
// A kernel calls `update` with a struct of its own that has the members of State which the rule uses.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
// Integers do the conversions, so that neither -ffast-math nor flush-to-zero changes a scale. A CPU converts normal numbers.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr std::uint32_t magnitude_bits(const float& value) noexcept {
  return bit_cast<std::uint32_t>(value) & binary32::abs_mask;
}
[[nodiscard]] HEADROOM_DETAIL_HD constexpr double widened(std::uint32_t float_bits) noexcept {
  const std::uint32_t magnitude = float_bits & binary32::abs_mask;
  if (magnitude > binary32::mantissa_mask && magnitude < binary32::infinity_bits)
    return static_cast<double>(bit_cast<float>(float_bits));
  return bit_cast<double>(convert_bits<binary32, binary64>(float_bits));
}
[[nodiscard]] HEADROOM_DETAIL_HD inline std::uint32_t nearest_float_bits(double value) noexcept {
  const float rounded = hide_from_optimizer(static_cast<float>(hide_from_optimizer(value)));
  const std::uint32_t magnitude = magnitude_bits(rounded);
  if (magnitude > binary32::mantissa_mask && magnitude < binary32::infinity_bits) return bit_cast<std::uint32_t>(rounded);
  return convert_bits<binary64, binary32>(bit_cast<std::uint64_t>(hide_from_optimizer(value)));
}
/// The correctly rounded quotient of two floats: a double has so many digits that the second rounding does no harm.
[[nodiscard]] HEADROOM_DETAIL_HD inline std::uint32_t quotient_bits(double dividend, double divisor) noexcept {
  return nearest_float_bits(hide_from_optimizer(dividend) / hide_from_optimizer(divisor));
}
[[nodiscard]] HEADROOM_DETAIL_HD constexpr float saturated_float(std::uint32_t bits) noexcept {
  return bit_cast<float>(smaller_of(bits, binary32::largest_finite_bits));
}
/// Neither Inf nor subnormal.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr float normal_float(std::uint32_t bits) noexcept {
  return saturated_float(larger_of(bits, 1U << binary32::mantissa_bits));
}
/// amax * ratio, at most the largest float. Inf and NaN stay as they are.
[[nodiscard]] HEADROOM_DETAIL_HD inline float rescaled(const float& amax, double ratio) noexcept {
  if (magnitude_bits(amax) >= binary32::infinity_bits) return amax;
  return saturated_float(nearest_float_bits(widened(magnitude_bits(amax)) * ratio));
}
}  // namespace detail

/// What a rule knows of one tensor.
struct ScaleState {
  float scale = 1.0F;            ///< the factor before rounding to fp8
  std::vector<float> history{};  ///< the amaxes that a delayed rule has recorded, the oldest first
};

/// The amax of the history that counts.
enum class Amax { max, most_recent };

/// TransformerEngine's delayed scaling: 2^-margin * (largest fp8 number) / amax, at most the largest float. The amax is the
/// largest or the most recent one of the last `history` steps. While it is not finite, the scale stays.
struct DelayedScaling {
  int history = 1024;     ///< the number of steps, in [1, 2^20]
  Amax amax = Amax::max;  ///< the amax that counts
  int margin = 0;         ///< the number of bits that stay free above the amax, in [-64, 64]
  /// Records Inf and NaN, as TransformerEngine does. Then one Inf keeps the scale from changing for `history` steps.
  bool record_nonfinite = false;
  static constexpr bool is_current = false;
  using State = ScaleState;
  [[nodiscard]] State start() const { return {}; }
  void check() const {
    detail::check_in("history", history, 1, 1 << 20, "in [1, 2^20]");
    detail::check_in("margin", margin, -64, 64);
  }

  /// Records the amax of a step and computes the next scale. An amax of 0 changes nothing, nor does one that is not recorded.
#ifdef __NVCC__  // would warn of the std::vector in a ScaleState, with which only the host calls this
#pragma nv_exec_check_disable
#endif
  template <class S>
  HEADROOM_DETAIL_HD void update(S& state, const float& step_amax, float fp8_max) const {
    std::uint32_t bits = detail::magnitude_bits(step_amax);
    if (bits == 0 || (bits >= binary32::infinity_bits && !record_nonfinite)) return;
    while (state.history.size() >= static_cast<std::size_t>(history)) state.history.erase(state.history.begin());
    state.history.push_back(step_amax);
    if (amax == Amax::max) bits = 0;
    for (std::size_t i = 0; amax == Amax::max && i < state.history.size(); ++i) {
      const std::uint32_t recorded = detail::magnitude_bits(state.history[i]);
      if (recorded <= binary32::infinity_bits) bits = detail::larger_of(bits, recorded);  // passes over NaN, as fmaxf does
    }
    if (bits == 0 || bits >= binary32::infinity_bits) return;
    const double dividend = fp8_max * detail::power_of_two(-margin);
    state.scale = detail::normal_float(detail::quotient_bits(dividend, detail::widened(bits)));
  }

  /// For elements that grow by `ratio`, positive and finite, with the loss scale. Multiplies the recorded amaxes by it and
  /// divides the scale by it. What was finite stays finite, and the scale does not become 0.
  void rescale(State& state, double ratio) const {
    for (float& recorded : state.history) recorded = detail::rescaled(recorded, ratio);
    const std::uint32_t bits = detail::quotient_bits(detail::widened(detail::magnitude_bits(state.scale)), ratio);
    if (!state.history.empty()) state.scale = detail::normal_float(bits);
  }
};

/// TransformerEngine's current scaling: (largest fp8 number) / amax, at most the largest float; 1 for an amax of 0, Inf or NaN.
struct CurrentScaling {
  float epsilon = 0.0F;       ///< the least amax, finite and at least 0: a smaller one counts as this
  bool power_of_two = false;  ///< rounds the scale down to a power of two
  static constexpr bool is_current = true;
  using State = ScaleState;
  [[nodiscard]] State start() const { return {}; }
  void check() const { detail::check_in("epsilon", epsilon, 0.0F, std::numeric_limits<float>::max(), "finite and at least 0"); }
  template <class S>
  HEADROOM_DETAIL_HD void update(S& state, const float& amax, float fp8_max) const {
    const std::uint32_t bits = detail::larger_of(detail::magnitude_bits(amax), detail::magnitude_bits(epsilon));
    const bool is_usable = bits != 0 && bits < binary32::infinity_bits;
    state.scale = is_usable ? detail::saturated_float(detail::quotient_bits(fp8_max, detail::widened(bits))) : 1.0F;
    if (power_of_two) state.scale = detail::bit_cast<float>(detail::magnitude_bits(state.scale) & ~binary32::mantissa_mask);
  }
};

/// The rule of torchao's main branch: (largest fp8 number) / max(amax, 1e-12), in double; 0 for an amax of Inf, NaN for NaN.
struct TorchaoScaling {
  bool power_of_two = false;  ///< rounds the scale down to a power of two
  static constexpr bool is_current = true;
  using State = ScaleState;
  [[nodiscard]] State start() const { return {}; }
  void check() const {}
  template <class S>
  HEADROOM_DETAIL_HD void update(S& state, const float& amax, float fp8_max) const {
    const std::uint32_t amax_bits = detail::magnitude_bits(amax);
    constexpr auto least = detail::bit_cast<double>(std::uint64_t{0x3D719799812DEA11});  // 1e-12, also if constants are floats
    const double divisor =
        detail::larger_of(detail::widened(detail::smaller_of(amax_bits, binary32::largest_finite_bits)), least);
    std::uint32_t bits = detail::quotient_bits(fp8_max, divisor);
    if (power_of_two) bits &= ~binary32::mantissa_mask;
    if (amax_bits >= binary32::infinity_bits) bits = amax_bits == binary32::infinity_bits ? 0 : binary32::quiet_nan_bits;
    state.scale = detail::bit_cast<float>(bits);
  }
};

HEADROOM_DETAIL_END_NAMESPACE
