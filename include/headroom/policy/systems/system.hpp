#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/state/fields.hpp>

#include <cstdint>
#include <limits>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// For each name by which make_loss_scale and import_state know a system, its file has a struct in namespace detail::systems,
/// derived from this, with
///
///     static constexpr const char* name;            // as make_loss_scale and import_state know it
///     static constexpr Policy preset();             // the policy with the system's own settings
///
/// and, where states of the system can be read,
///
///     template <class State> static void import_state(State&);   // State: StateImport of import_state.hpp
///     static bool is_static(const StateDict&);      // if some of them are of a scale that never changes
///
/// and a line in presets.hpp. Before it come the rule, if the system has one of its own, and the preset.
struct System {
  [[nodiscard]] static bool is_static(const StateDict&) noexcept { return false; }
};

// What presets do with their arguments. Each is checked under the name that the preset's declaration has for it: what a
// policy's configuration calls it is not what the caller wrote, and values are rounded or put together on their way there.

/// An argument of a preset as a scale. Throws std::invalid_argument naming it if it is none, with what the preset takes.
[[nodiscard]] constexpr float scale_argument(const char* name, const double& value,
                                             const char* expected = "in [2^-126, 2^126]") {
  if (!positive_in(value, static_cast<double>(smallest_loss_scale), static_cast<double>(largest_loss_scale))) {
    throw_bad_value(name, value, expected);
  }
  return rounded_to_float(value);
}
/// The same for a floor. 0 means none, and so does anything else below our range.
[[nodiscard]] constexpr float floor_argument(const char* name, const double& value) {
  const bool is_small = bit_cast<std::uint64_t>(value) << 1U < bit_cast<std::uint64_t>(smallest_normal_float) << 1U;
  const bool is_negative = bit_cast<std::uint64_t>(value) > binary64::sign_mask;
  return is_small && !is_negative ? smallest_loss_scale : scale_argument(name, value, "in [0, 2^126]");
}
/// A factor that growth multiplies by and backoff divides by. Its inverse is normal, for -ffast-math makes others 0.
[[nodiscard]] constexpr double factor_argument(const char* name, const double& value) {
  if (!positive_in(value, just_above_1, 1.0 / std::numeric_limits<double>::min())) {
    throw_bad_value(name, value, "above 1 and at most 2^1022");
  }
  return value;
}
/// The same, rounded to float as the system does.
[[nodiscard]] constexpr double float_factor_argument(const char* name, const double& value) {
  if (!positive_in(value, just_above_1, largest_float) || rounded_to_float(value) <= 1.0F) {
    throw_bad_value(name, value, "above 1 and finite as a float");
  }
  return static_cast<double>(rounded_to_float(value));
}
/// The inverse of that, rounded to float as well.
[[nodiscard]] constexpr double float_inverse_argument(const char* name, const double& value) {
  const double factor = float_factor_argument(name, value);
  if (value > 1.0 / smallest_normal_float) throw_bad_value(name, value, "at most 2^126");
  return static_cast<double>(rounded_to_float(1.0 / factor));
}
/// A factor of backoff, rounded to float as the system does.
[[nodiscard]] constexpr double float_backoff_argument(const char* name, const double& value) {
  if (!positive_in(value, smallest_normal_float, just_below_1) || rounded_to_float(value) >= 1.0F) {
    throw_bad_value(name, value, "at least 2^-126 and below 1 as a float");
  }
  return static_cast<double>(rounded_to_float(value));
}

/// A policy that may start below its floor, as some systems allow; the first overflow takes it there.
template <class Policy, class Config>
[[nodiscard]] constexpr Policy starting_anywhere(Config config, float initial_scale) {
  LossScaleConfig& common = loss_scale_config(config);
  common.initial_scale = initial_scale < common.min_scale ? common.min_scale : initial_scale;
  return Policy(config).with_loss_scale(initial_scale);
}

[[nodiscard]] constexpr LossScaleConfig preset_config(float initial_scale, std::int64_t growth_interval,
                                                      const double& growth_factor, const double& backoff_factor,
                                                      float min_scale, float max_scale = largest_loss_scale) {
  LossScaleConfig config;
  config.initial_scale = initial_scale;
  config.growth_interval = growth_interval;
  config.growth_factor = growth_factor;
  config.backoff_factor = backoff_factor;
  config.min_scale = min_scale;
  config.max_scale = max_scale;
  return config;
}

/// The same for a system that checks the result of growth.
[[nodiscard]] constexpr LossScaleConfig refusing_infinity(LossScaleConfig config) {
  config.refuse_infinite_growth = true;
  return config;
}

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
