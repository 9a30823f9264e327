#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// jmp.DynamicLossScale. `factor` multiplies on growth and divides on overflow; it is rounded to float, as in jmp. A floor of 0
/// means none. Compiled by jax.jit, jmp and eformer multiply by 1 / factor rounded to float; this divides, as they do
/// uncompiled. For a factor that is not a power of two the last bit can differ.
[[nodiscard]] constexpr DynamicLossScale jmp(const double& loss_scale = 32768.0, std::int64_t period = 2000,
                                             const double& factor = 2.0, const double& min_loss_scale = 1.0) {
  detail::check_count("period", period);
  const double rounded = detail::float_factor_argument("factor", factor);
  return detail::starting_anywhere<DynamicLossScale>(
      detail::refusing_infinity(
          LossScaleConfig{1.0F, period, rounded, 1.0 / rounded, detail::floor_argument("min_loss_scale", min_loss_scale)}),
      detail::scale_argument("loss_scale", loss_scale));
}

}  // namespace presets

namespace detail::systems {

struct Jmp : System {
  static constexpr const char* name = "jmp";
  [[nodiscard]] static constexpr DynamicLossScale preset() { return presets::jmp(); }

  /// jmp's own flattening forgets min_loss_scale. Its factor is a float.
  static void import_state(StateImport& state) {
    state.scale("loss_scale");
    state.counter("counter", "counter");
    state.counter("period", "growth_interval", 1);
    state.both_factors(float_factor_argument("factor", state.real("factor")));
    if (state.has("min_loss_scale")) state.floor("min_loss_scale");
  }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
