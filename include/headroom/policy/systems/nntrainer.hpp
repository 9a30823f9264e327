#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Grows after `growth_interval` finite steps since the scale last grew, whatever overflowed between them: NNTrainer's rule.
class GrowAfterTotalFiniteSteps : public GrowAfterFiniteSteps {
 public:
  static constexpr const char* name = "total_finite_steps";
  using GrowAfterFiniteSteps::GrowAfterFiniteSteps;

  [[nodiscard]] constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    return grads_finite && GrowAfterFiniteSteps::grows(true, config);
  }
  constexpr void back_off(const LossScaleConfig&) const noexcept {}
};

/// NNTrainer's rule: presets::nntrainer.
using NNTrainerLossScale = BasicDynamicLossScale<GrowAfterTotalFiniteSteps, BackOffAtOnce>;

namespace presets {

/// NNTrainer's mixed precision, where everything but the "loss_scale" of the model is fixed: growth comes on every 2001st
/// finite step, and overflows leave the counter as it is. NNTrainer repeats the step that overflowed with the smaller scale and
/// ends the training at 1; this policy goes on. Above 1.5 NNTrainer halves, even to below 1, so a scale that starts at 1.75,
/// say, has its floor at 0.875.
[[nodiscard]] constexpr NNTrainerLossScale nntrainer(const double& loss_scale = 1.0) {
  const float scale = detail::scale_argument("loss_scale", loss_scale);
  float least = scale;
  while (least > 1.5F) least *= 0.5F;
  return NNTrainerLossScale(LossScaleConfig{scale, 2001, 2.0, 0.5, least < 1.0F ? least : 1.0F});
}

}  // namespace presets

namespace detail::systems {

struct NNTrainer : System {
  static constexpr const char* name = "nntrainer";
  [[nodiscard]] static constexpr NNTrainerLossScale preset() { return presets::nntrainer(); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
