#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>
#include <headroom/policy/tolerance.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Grows after more than `growth_interval` steps since the last change, finite or not: tolerated overflows count too, and the
/// scale can grow on one. Cerebras' rule (steps_per_increase).
class GrowAfterAllSteps : public detail::StepCounter {
 public:
  static constexpr const char* name = "steps";
  constexpr explicit GrowAfterAllSteps(const LossScaleConfig&) noexcept {}

  [[nodiscard]] constexpr bool grows(bool, const LossScaleConfig& config) noexcept {
    counter_ = detail::one_more(counter_);
    if (counter_ <= config.growth_interval) return false;
    counter_ = 0;
    return true;
  }
  [[nodiscard]] constexpr std::int64_t most_overflows() const noexcept { return counter_; }
};

/// Cerebras' rule: presets::cerebras_fp16 and presets::cerebras_cbfloat16.
using CerebrasLossScale = BasicDynamicLossScale<GrowAfterAllSteps, BackOffWhenShareExceedsTolerance>;

namespace detail {

/// Cerebras' scale for the half dtype whose largest scale is `largest`.
[[nodiscard]] constexpr CerebrasLossScale cerebras(const double& largest, const double& init_scale,
                                                   std::int64_t steps_per_increase, const double& min_loss_scale,
                                                   const double& max_loss_scale, const double& overflow_tolerance) {
  constexpr double default_min = 0x1p-14;
  const auto or_default = [](const double& value, double otherwise) { return is_zero(value) ? otherwise : value; };
  if (steps_per_increase < 0) throw_bad_value("steps_per_increase", steps_per_increase, "0 or more");
  const double low = or_default(min_loss_scale, default_min), high = or_default(max_loss_scale, largest);
  constexpr const char *range = "0 or in [2^-126, 2^126]", *range_of_min = "0 or in [2^-14, 2^126]";
  const float least = scale_argument("min_loss_scale", low, range_of_min);
  if (least < static_cast<float>(default_min)) throw_bad_value("min_loss_scale", min_loss_scale, range_of_min);
  const float most = scale_argument("max_loss_scale", high, range);
  check_order("min_loss_scale", low, "max_loss_scale", high);
  float start = scale_argument("init_scale", or_default(init_scale, largest), range);
  start = start < most ? start : most;
  start = start < least ? least : start;
  const std::int64_t interval = steps_per_increase == 0 ? 2000 : steps_per_increase;
  return CerebrasLossScale(ToleranceConfig{LossScaleConfig{start, interval, 2.0, 0.5, least, most}, overflow_tolerance});
}

}  // namespace detail

namespace presets {

/// cerebras.pytorch.amp.GradScaler with loss_scale="dynamic", for fp16: from 2^15, in [2^-14, 2^15]. 0 stands for the default,
/// as None and 0 do in Cerebras. An `init_scale` outside [min_loss_scale, max_loss_scale] starts at the bound, where Cerebras
/// gets after the first step.
[[nodiscard]] constexpr CerebrasLossScale cerebras_fp16(const double& init_scale = 0.0, std::int64_t steps_per_increase = 0,
                                                        const double& min_loss_scale = 0.0, const double& max_loss_scale = 0.0,
                                                        const double& overflow_tolerance = 0.0) {
  return detail::cerebras(0x1p15, init_scale, steps_per_increase, min_loss_scale, max_loss_scale, overflow_tolerance);
}
/// The same for cbfloat16: from 2^31, in [2^-14, 2^31].
[[nodiscard]] constexpr CerebrasLossScale cerebras_cbfloat16(const double& init_scale = 0.0,
                                                             std::int64_t steps_per_increase = 0,
                                                             const double& min_loss_scale = 0.0,
                                                             const double& max_loss_scale = 0.0,
                                                             const double& overflow_tolerance = 0.0) {
  return detail::cerebras(0x1p31, init_scale, steps_per_increase, min_loss_scale, max_loss_scale, overflow_tolerance);
}

}  // namespace presets

namespace detail::systems {

struct CerebrasFp16 : System {
  static constexpr const char* name = "cerebras_fp16";
  [[nodiscard]] static constexpr CerebrasLossScale preset() { return presets::cerebras_fp16(); }
};
struct CerebrasCbfloat16 : System {
  static constexpr const char* name = "cerebras_cbfloat16";
  [[nodiscard]] static constexpr CerebrasLossScale preset() { return presets::cerebras_cbfloat16(); }
};
/// As its states are called, which do not say which half dtype they are of.
struct Cerebras : CerebrasFp16 {
  static constexpr const char* name = "cerebras";

  static void import_state(StateImport& state) {
    state.scale("loss_scale");
    if (!state.ours().contains("counter")) return;  // the static one has nothing else
    state.counter("steps_since_rescale", "counter");
    // Its scale never ends a step below the floor, where ours can be. It can begin there: as in the preset, at the floor.
    const double scale = state.ours().at("loss_scale").real(), least = state.ours().at("min_scale").real();
    if (scale < least) {
      const bool is_new = state.ours().at("counter").integer() == 0;
      if (!is_new) throw_bad_value("loss_scale", scale, concat({"at least the min_scale, ", to_text(least)}).c_str());
      state.ours().set("loss_scale", least);
    }
    state.counter("overflows_since_rescale", "overflows", 0, state.ours().at("counter").integer());
    state.leave_out("num_skipped_steps");  // a statistic
  }
  [[nodiscard]] static bool is_static(const StateDict& dict) { return dict.size() == 1 && dict.contains("loss_scale"); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
