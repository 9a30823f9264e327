#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// flax.training.dynamic_scale.DynamicScale. It grows on the step after `growth_interval` finite ones, so our interval is one
/// longer. Factors and scale are rounded to float, as in flax under jax.jit; uncompiled, it forms the product of the first step
/// in double, if its scale is still the number of Python it was made with. A `minimum_scale` of 0 stands for its None. Its
/// largest scale is the largest float, ours 2^126.
[[nodiscard]] constexpr DynamicLossScale flax(const double& growth_factor = 2.0, const double& backoff_factor = 0.5,
                                              std::int64_t growth_interval = 2000, const double& scale = 65536.0,
                                              const double& minimum_scale = 0x1p-126) {
  if (growth_interval < 0 || growth_interval >= detail::largest_counter) {
    detail::throw_bad_value("growth_interval", growth_interval, "at least 0 and below 2^62");
  }
  return detail::starting_anywhere<DynamicLossScale>(
      LossScaleConfig{1.0F, growth_interval + 1, detail::float_factor_argument("growth_factor", growth_factor),
                      detail::float_backoff_argument("backoff_factor", backoff_factor),
                      detail::floor_argument("minimum_scale", minimum_scale)},
      detail::scale_argument("scale", scale));
}

}  // namespace presets

namespace detail::systems {

struct Flax : System {
  static constexpr const char* name = "flax";
  [[nodiscard]] static constexpr DynamicLossScale preset() { return presets::flax(); }

  /// Its settings are not part of its state.
  static void import_state(StateImport& state) {
    state.scale("scale");
    state.counter("fin_steps", "counter");
  }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
