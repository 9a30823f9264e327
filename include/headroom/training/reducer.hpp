#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/action.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What ranks have to agree on about the unscaled gradients of one optimizer: see GradScaler::set_reducer.
struct GradientSums {
  bool finite = true;           ///< combined by AND
  double max_abs = 0.0;         ///< combined by maximum; +Inf if not finite
  double sum_of_squares = 0.0;  ///< combined by sum, if each rank holds a part of the gradients; +Inf if not finite, else 0 if
                                ///< nobody clips
};

namespace detail {

[[nodiscard]] inline GradientSums sums_of(const GradientNorm& norm) noexcept {
  return {norm.finite, norm.max_abs, norm.finite ? norm.norm * norm.norm : overflow().norm};
}
/// The norm over all ranks, whatever the reducer makes of an overflow here.
[[nodiscard]] inline GradientNorm norm_of_all(const GradientNorm& here, const GradientSums& all) noexcept {
  if (!here.finite || !all.finite) return overflow();
  return {{true, all.max_abs}, __builtin_sqrt(all.sum_of_squares)};
}
[[nodiscard]] inline GradientReport combined(const GradientReport& a, const GradientReport& b) noexcept {
  if (!a.finite) return a;
  return b.finite && b.max_abs < a.max_abs ? a : b;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
