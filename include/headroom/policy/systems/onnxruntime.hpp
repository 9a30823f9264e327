#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// ONNX Runtime's LossScaler, in C++, and its ORTTrainer's DynamicLossScaler. A `loss_scale` above the largest is refused;
/// ONNX Runtime keeps one until it grows, and then falls to the largest.
[[nodiscard]] constexpr DynamicLossScale onnxruntime(const double& loss_scale = 0x1p16, std::int64_t up_scale_window = 2000,
                                                     const double& min_loss_scale = 1.0,
                                                     const double& max_loss_scale = 0x1p24) {
  detail::check_count("up_scale_window", up_scale_window);
  const float start = detail::scale_argument("loss_scale", loss_scale);
  const float least = detail::floor_argument("min_loss_scale", min_loss_scale);
  const float most = detail::scale_argument("max_loss_scale", max_loss_scale);
  detail::check_order("loss_scale", loss_scale, "max_loss_scale", max_loss_scale);
  detail::check_order("min_loss_scale", min_loss_scale, "max_loss_scale", max_loss_scale);
  return detail::starting_anywhere<DynamicLossScale>(LossScaleConfig{1.0F, up_scale_window, 2.0, 0.5, least, most}, start);
}

}  // namespace presets

namespace detail::systems {

struct OnnxRuntime : System {
  static constexpr const char* name = "onnxruntime";
  [[nodiscard]] static constexpr DynamicLossScale preset() { return presets::onnxruntime(); }

  /// The two numbers of LossScaler::SaveToString, in their order; no settings.
  static void import_state(StateImport& state) {
    state.scale("loss_scale");
    state.counter("stable_steps", "counter");
  }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
