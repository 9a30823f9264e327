#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// Where Marian's scale comes to rest: it divides what is above `minimum`, so the largest scale on its way that is not. As a
/// backoff does, it multiplies by the double nearest to the inverse: of the quotient of two floats -ffast-math would make a
/// product with a rounded one.
[[nodiscard]] constexpr float marian_floor(float scale, double factor, double inverse, float minimum) noexcept {
  // No training takes a scale as many steps in one direction; the number bounds the loops for factors next to 1.
  int left = 10000;
  if (scale > minimum) {
    for (; left > 0 && scale > minimum; --left) scale = rounded_to_float(static_cast<double>(scale) * inverse);
  } else {
    const auto least = static_cast<double>(minimum);
    for (; left > 0 && static_cast<double>(scale) * factor <= least; --left) {
      scale = rounded_to_float(static_cast<double>(scale) * factor);
    }
  }
  if (scale < smallest_loss_scale) return smallest_loss_scale;
  return scale < minimum ? scale : minimum;
}

}  // namespace detail

namespace presets {

/// Marian's --cost-scaling, all in float, with what --fp16 stood for up to 1.11.4. Later ones write "8 10000 1 8": with a
/// multiplier of 1 the scale never changes, which is ConstantLossScale(8). Marian divides whatever is above `minimum`, so its
/// floor can be below that, and ours is there: exactly for multipliers that are powers of two, and up to rounding for others.
/// Overflows leave a scale that starts below its floor where it is, and the first one takes ours up to the floor.
[[nodiscard]] constexpr DynamicLossScale marian(const double& factor = 256.0, std::int64_t frequency = 1000,
                                                const double& multiplier = 2.0, const double& minimum = 256.0) {
  const float scale = detail::scale_argument("factor", factor), least = detail::floor_argument("minimum", minimum);
  detail::check_count("frequency", frequency);
  const double by = detail::float_factor_argument("multiplier", multiplier);
  return detail::starting_anywhere<DynamicLossScale>(
      LossScaleConfig{1.0F, frequency, by, 1.0 / by, detail::marian_floor(scale, by, 1.0 / by, least)}, scale);
}

}  // namespace presets

namespace detail::systems {

struct Marian : System {
  static constexpr const char* name = "marian";
  [[nodiscard]] static constexpr DynamicLossScale preset() { return presets::marian(); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
