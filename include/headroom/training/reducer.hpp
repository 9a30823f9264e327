#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/report.hpp>

#include <cmath>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What ranks have to agree on, of the unscaled gradients of one optimizer: GradScaler::set_reducer.
struct GradientSums {
  bool finite = true;           ///< combined by AND
  double max_abs = 0.0;         ///< by maximum; +Inf where not finite
  double sum_of_squares = 0.0;  ///< by sum, where each rank holds a part of the gradients; +Inf where not finite, else 0 where
                                ///< nobody clips
};

namespace detail {

[[nodiscard]] inline GradientNorm overflow() noexcept {
  const auto infinity = bit_cast<double>(binary64::infinity_bits);
  return {{false, infinity}, infinity};
}

[[nodiscard]] inline GradientSums sums_of(const GradientNorm& norm) noexcept {
  return {norm.finite, norm.max_abs, norm.finite ? norm.norm * norm.norm : overflow().norm};
}
/// That of all ranks, whatever the reducer makes of an overflow here.
[[nodiscard]] inline GradientNorm norm_of_all(const GradientNorm& here, const GradientSums& all) noexcept {
  if (!here.finite || !all.finite) return overflow();
  return {{true, all.max_abs}, std::sqrt(all.sum_of_squares)};
}
[[nodiscard]] inline GradientReport combined(const GradientReport& a, const GradientReport& b) noexcept {
  if (!a.finite) return a;
  return b.finite && b.max_abs < a.max_abs ? a : b;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
