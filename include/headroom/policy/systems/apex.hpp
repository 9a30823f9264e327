#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// apex's update_scale_hysteresis kernel. It has no defaults; these are torch's, and a hysteresis of 2. There is no floor.
[[nodiscard]] constexpr HysteresisScale apex(const double& scale = 65536.0, const double& growth_factor = 2.0,
                                             const double& backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                                             std::int32_t hysteresis = 2) {
  const LossScaleConfig config = detail::refusing_infinity(LossScaleConfig{
      detail::scale_argument("scale", scale), growth_interval, growth_factor, backoff_factor, smallest_loss_scale});
  return HysteresisScale(HysteresisConfig{config, hysteresis});
}

}  // namespace presets

namespace detail::systems {

struct Apex : System {
  static constexpr const char* name = "apex";
  [[nodiscard]] static constexpr HysteresisScale preset() { return presets::apex(); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
