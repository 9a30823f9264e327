#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// Megatron-core's DynamicGradScaler, with the defaults of Megatron's command line. Factors are rounded to float, as there. Its
/// hysteresis is refilled by growth only, which is not what its documentation says.
[[nodiscard]] constexpr BasicHysteresisScale<RefillOnGrowth> megatron(
    const double& initial_scale = 0x1p32, const double& min_scale = 1.0, const double& growth_factor = 2.0,
    const double& backoff_factor = 0.5, std::int64_t growth_interval = 1000, std::int32_t hysteresis = 2) {
  const LossScaleConfig scale{detail::scale_argument("initial_scale", initial_scale), growth_interval,
                              detail::float_factor_argument("growth_factor", growth_factor),
                              detail::float_backoff_argument("backoff_factor", backoff_factor),
                              detail::floor_argument("min_scale", min_scale)};
  if (scale.min_scale != 1.0F) detail::check_order("min_scale", min_scale, "initial_scale", initial_scale);  // as given
  return BasicHysteresisScale<RefillOnGrowth>(HysteresisConfig{scale, hysteresis});
}

}  // namespace presets

namespace detail::systems {

struct Megatron : System {
  static constexpr const char* name = "megatron";
  [[nodiscard]] static constexpr BasicHysteresisScale<RefillOnGrowth> preset() { return presets::megatron(); }

  /// Its hysteresis tracker goes below 0, overflow by overflow, where ours stays at 0.
  static void import_state(StateImport& state) {
    state.scale("scale");
    state.counter("growth_tracker", "counter");
    const std::int64_t left = state.integer("hysteresis_tracker", -largest_counter, state.setting("hysteresis"));
    state.ours().set("hysteresis_left", left < 0 ? std::int64_t{0} : left);
  }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
