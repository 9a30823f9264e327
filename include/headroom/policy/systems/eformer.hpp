#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/systems/jmp.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// eformer's DynamicLossScale, from its LossScaleConfig: jmp's rule.
[[nodiscard]] constexpr DynamicLossScale eformer(const double& initial_scale = 32768.0, std::int64_t growth_interval = 2000,
                                                 const double& scale_factor = 2.0, const double& min_scale = 1.0) {
  detail::check_count("growth_interval", growth_interval);
  return jmp(static_cast<double>(detail::scale_argument("initial_scale", initial_scale)), growth_interval,
             detail::float_factor_argument("scale_factor", scale_factor),
             static_cast<double>(detail::floor_argument("min_scale", min_scale)));
}

}  // namespace presets

namespace detail::systems {

struct Eformer : Jmp {
  static constexpr const char* name = "eformer";
  [[nodiscard]] static constexpr DynamicLossScale preset() { return presets::eformer(); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
