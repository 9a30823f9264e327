#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// Emily.MixedPrecision.LossScaler.
[[nodiscard]] constexpr DynamicLossScale emily(const double& scale = 65536.0, const double& growth_factor = 2.0,
                                               const double& backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                                               const double& min_scale = 1.0) {
  return detail::starting_anywhere<DynamicLossScale>(
      LossScaleConfig{1.0F, growth_interval, growth_factor, backoff_factor, detail::floor_argument("min_scale", min_scale)},
      detail::scale_argument("scale", scale));
}

}  // namespace presets

namespace detail::systems {

struct Emily : System {
  static constexpr const char* name = "emily";
  [[nodiscard]] static constexpr DynamicLossScale preset() { return presets::emily(); }

  static void import_state(StateImport& state) {
    state.scale("scale");
    state.factor("growth_factor");
    state.factor("backoff_factor");
    state.counter("growth_interval", "growth_interval");
    state.floor("min_scale");
    state.counter("counter", "counter");
  }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
