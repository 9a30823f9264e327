#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// keras.optimizers.LossScaleOptimizer of Keras 3, on all of its backends. There is neither a floor nor a ceiling.
[[nodiscard]] constexpr DynamicLossScale keras(const double& initial_scale = 0x1p15, std::int64_t dynamic_growth_steps = 2000) {
  detail::check_count("dynamic_growth_steps", dynamic_growth_steps);
  return DynamicLossScale(LossScaleConfig{detail::scale_argument("initial_scale", initial_scale), dynamic_growth_steps, 2.0,
                                          0.5, smallest_loss_scale});
}

}  // namespace presets

namespace detail::systems {

struct Keras : System {
  static constexpr const char* name = "keras";
  [[nodiscard]] static constexpr DynamicLossScale preset() { return presets::keras(); }

  /// The optimizer's two variables, and what get_config has of them.
  static void import_state(StateImport& state) {
    state.scale("dynamic_scale");
    state.counter("step_counter", "counter");
    if (state.has("dynamic_growth_steps")) state.counter("dynamic_growth_steps", "growth_interval", 1);
    state.leave_out("initial_scale");
  }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
