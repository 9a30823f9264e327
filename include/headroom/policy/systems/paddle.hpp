#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Any finite step refills the hysteresis, and so does a backoff: every `hysteresis` overflows in a row back off once. Paddle's
/// rule.
struct RefillOnCleanStepAndBackoff {
  static constexpr const char* name = "hysteresis_refill_on_clean_step_and_backoff";
  static constexpr bool on_clean_step = true, on_backoff = true;
};

/// Paddle's rule: presets::paddle and presets::paddle_2_4.
using PaddleLossScale = BasicHysteresisScale<RefillOnCleanStepAndBackoff>;

namespace presets {

/// paddle.amp.GradScaler since 2.5, in dynamic graphs, without its first argument, `enable`. Factors are rounded to float, as
/// there. There is neither a floor nor a ceiling; in static graphs Paddle's floor is 1, and growth to Inf is refused.
[[nodiscard]] constexpr PaddleLossScale paddle(const double& init_loss_scaling = 0x1p16, const double& incr_ratio = 2.0,
                                               const double& decr_ratio = 0.5, std::int64_t incr_every_n_steps = 2000,
                                               std::int32_t decr_every_n_nan_or_inf = 1) {
  detail::check_count("incr_every_n_steps", incr_every_n_steps);
  detail::check_count("decr_every_n_nan_or_inf", decr_every_n_nan_or_inf);
  const LossScaleConfig scale{detail::scale_argument("init_loss_scaling", init_loss_scaling), incr_every_n_steps,
                              detail::float_factor_argument("incr_ratio", incr_ratio),
                              detail::float_backoff_argument("decr_ratio", decr_ratio), smallest_loss_scale};
  return PaddleLossScale(HysteresisConfig{scale, decr_every_n_nan_or_inf});
}
/// The same with the defaults that Paddle had up to 2.4.
[[nodiscard]] constexpr PaddleLossScale paddle_2_4(const double& init_loss_scaling = 0x1p15, const double& incr_ratio = 2.0,
                                                   const double& decr_ratio = 0.5, std::int64_t incr_every_n_steps = 1000,
                                                   std::int32_t decr_every_n_nan_or_inf = 2) {
  return paddle(init_loss_scaling, incr_ratio, decr_ratio, incr_every_n_steps, decr_every_n_nan_or_inf);
}

}  // namespace presets

namespace detail::systems {

struct Paddle : System {
  static constexpr const char* name = "paddle";
  [[nodiscard]] static constexpr PaddleLossScale preset() { return presets::paddle(); }

  /// Its factors are used as floats.
  static void import_state(StateImport& state) {
    state.scale("scale");
    if (!state.ours().contains("hysteresis")) {  // the static one has nothing else
      for (const char* other : {"incr_ratio", "decr_ratio", "incr_every_n_steps", "decr_every_n_nan_or_inf", "incr_count",
                                "decr_count", "use_dynamic_loss_scaling"}) {
        state.leave_out(other);
      }
      return;
    }
    state.ours().set("growth_factor", float_factor_argument("incr_ratio", state.real("incr_ratio")));
    state.ours().set("backoff_factor", float_backoff_argument("decr_ratio", state.real("decr_ratio")));
    state.counter("incr_every_n_steps", "growth_interval", 1);
    state.counter("incr_count", "counter");
    const std::int64_t overflows = state.integer("decr_every_n_nan_or_inf", 1, largest_hysteresis);
    state.ours().set("hysteresis", overflows);
    state.ours().set("hysteresis_left", overflows - state.integer("decr_count", 0, overflows - 1));
    state.leave_out("use_dynamic_loss_scaling");
  }
  [[nodiscard]] static bool is_static(const StateDict& dict) {
    const StateValue* dynamic = dict.find("use_dynamic_loss_scaling");
    return dynamic != nullptr && *dynamic == StateValue(false);  // or 0, which is equal
  }
};
struct Paddle24 : Paddle {
  static constexpr const char* name = "paddle_2_4";
  [[nodiscard]] static constexpr PaddleLossScale preset() { return presets::paddle_2_4(); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
