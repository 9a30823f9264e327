#pragma once

#include <headroom/dtype/scale_range.hpp>
#include <headroom/report.hpp>

#include <cstdint>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

inline void check_max_norm(const double& max_norm) {
  check_in("max_norm", max_norm, 0.0, infinity, "0 or more (Inf: no clipping)");
}

[[nodiscard]] HEADROOM_DETAIL_DEVICE inline bool is_infinite(const double& magnitude) noexcept {
  return bit_cast<std::uint64_t>(magnitude) == binary64::infinity_bits;
}
/// a / b. Under -ffast-math, too, the compiler does not combine it with other operations.
[[nodiscard]] HEADROOM_DETAIL_DEVICE inline double divided(double a, double b) noexcept {
  return hide_from_optimizer(a / hide_from_optimizer(b));
}

/// The report of gradients that are not finite.
[[nodiscard]] HEADROOM_DETAIL_DEVICE constexpr GradientNorm overflow() noexcept {
  constexpr double inf = infinity;
  return {{false, inf}, inf};
}
/// The factor that reduces the norm to `max_norm`; 1 if the norm is small enough or not finite. No epsilon, as in optax.
[[nodiscard]] HEADROOM_DETAIL_DEVICE inline double clip_factor(const GradientNorm& measured, const double& max_norm) noexcept {
  const bool clips = measured.finite && !is_infinite(measured.norm) && !is_infinite(max_norm) && measured.norm > max_norm;
  return clips ? divided(is_zero(max_norm) ? 0.0 : max_norm, measured.norm) : 1.0;  // -0.0 would change all signs
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
