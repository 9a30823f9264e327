#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/kernel/action.hpp>
#include <headroom/report.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What ranks have to agree on about the unscaled gradients of one optimizer: see GradScaler::set_reducer.
struct GradientSums {
  bool finite = true;           ///< combined by AND
  double max_abs = 0.0;         ///< combined by maximum; +Inf if not finite
  double sum_of_squares = 0.0;  ///< combined by sum, if each rank holds a part of the gradients; +Inf if not finite, else 0 if
                                ///< nobody clips and there is no SpikeGuard
};

/// What a rank that never clips tells the others.
[[nodiscard]] inline GradientSums gradient_sums(const GradientReport& here) noexcept {
  return {here.finite, here.max_abs, here.finite ? 0.0 : detail::overflow().norm};
}
/// With the sum of squares, so that all can clip by one norm.
[[nodiscard]] inline GradientSums gradient_sums(const GradientNorm& here) noexcept {
  return {here.finite, here.max_abs, here.finite ? here.norm * here.norm : detail::overflow().norm};
}

namespace detail {

/// Nobody can clip by a norm that is Inf or none, so it counts as an overflow.
[[nodiscard]] inline GradientNorm checked(const GradientNorm& norm) noexcept {
  return bit_cast<std::uint64_t>(norm.norm) < binary64::infinity_bits ? norm : overflow();
}
/// The norm over all ranks, whatever the reducer makes of an overflow here.
[[nodiscard]] inline GradientNorm norm_of_all(const GradientNorm& here, const GradientSums& all) noexcept {
  if (!here.finite || !all.finite) return overflow();
  return checked({{true, all.max_abs}, __builtin_sqrt(all.sum_of_squares)});
}
[[nodiscard]] inline GradientReport combined(const GradientReport& a, const GradientReport& b) noexcept {
  if (!a.finite) return a;
  return b.finite && b.max_abs < a.max_abs ? a : b;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
