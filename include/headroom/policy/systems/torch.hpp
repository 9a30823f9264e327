#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// torch.amp.GradScaler, and RoundPipe's when it is synchronous. There is no floor.
[[nodiscard]] constexpr DynamicLossScale torch(const double& init_scale = 65536.0, const double& growth_factor = 2.0,
                                               const double& backoff_factor = 0.5, std::int64_t growth_interval = 2000) {
  return DynamicLossScale(detail::refusing_infinity(LossScaleConfig{
      detail::scale_argument("init_scale", init_scale), growth_interval, growth_factor, backoff_factor, smallest_loss_scale}));
}

}  // namespace presets

namespace detail::systems {

struct Torch : System {
  static constexpr const char* name = "torch";
  [[nodiscard]] static constexpr DynamicLossScale preset() { return presets::torch(); }

  static void import_state(StateImport& state) {
    state.scale("scale");
    state.factor("growth_factor");
    state.factor("backoff_factor");
    state.counter("growth_interval", "growth_interval");
    state.counter("_growth_tracker", "counter");
  }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
