#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/report.hpp>
#include <headroom/state/fields.hpp>

#include <cstdint>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// For each name by which make_loss_scale and import_state know a system, its file has a struct in namespace detail::systems,
/// derived from this, with
///
///     static constexpr const char* name;            // as make_loss_scale and import_state know it
///     static constexpr Policy preset();             // the policy with the system's own settings
///     static void import_state(StateImport&);       // where the states of the system can be read
///     static bool is_static(const StateDict&);      // where some of them are of a scale that never changes
///
/// and a line in presets.hpp. Before it come the rule, where the system has one of its own, and the preset.
struct System {
  static constexpr void (*import_state)(class StateImport&) = nullptr;
  [[nodiscard]] static bool is_static(const StateDict&) noexcept { return false; }
};

/// An argument of a preset as a scale. Throws std::invalid_argument naming it if it is none.
[[nodiscard]] constexpr float scale_argument(const char* name, const double& value) {
  if (!positive_in(value, static_cast<double>(smallest_loss_scale), static_cast<double>(largest_loss_scale))) {
    throw_bad_value(name, value, "in [2^-126, 2^126]");
  }
  return rounded_to_float(value);
}
/// The same for a floor. 0 means none, and so does anything else below our range.
[[nodiscard]] constexpr float floor_argument(const char* name, const double& value) {
  const bool is_small = bit_cast<std::uint64_t>(value) << 1U < bit_cast<std::uint64_t>(smallest_normal_float) << 1U;
  const bool is_negative = (bit_cast<std::uint64_t>(value) & binary64::sign_mask) != 0;
  return is_small && !is_negative ? smallest_loss_scale : scale_argument(name, value);
}
/// An argument rounded to float, as the system does. Throws std::invalid_argument naming it if it is no positive float.
[[nodiscard]] constexpr double float_argument(const char* name, const double& value) {
  if (!positive_in(value, smallest_float, largest_float)) throw_bad_value(name, value, "a positive float");
  return static_cast<double>(rounded_to_float(value));
}
/// A factor that growth multiplies by and backoff divides by.
[[nodiscard]] constexpr double factor_argument(const char* name, const double& value) {
  if (!positive_in(value, just_above_1, largest_double)) throw_bad_value(name, value, "above 1 and finite");
  return value;
}
/// The same, rounded to float as the system does.
[[nodiscard]] constexpr double float_factor_argument(const char* name, const double& value) {
  const double rounded = float_argument(name, value);
  if (rounded <= 1.0) throw_bad_value(name, value, "above 1 as a float");
  return rounded;
}

/// A policy that may start below its floor, as some systems allow; the first overflow takes it there.
template <class Policy, class Config>
[[nodiscard]] constexpr Policy starting_anywhere(Config config, float initial_scale) {
  LossScaleConfig& common = loss_scale_config(config);
  common.initial_scale = initial_scale < common.min_scale ? common.min_scale : initial_scale;
  return Policy(config).with_loss_scale(initial_scale);
}

[[nodiscard]] constexpr LossScaleConfig preset_config(float initial_scale, std::int64_t growth_interval, double growth_factor,
                                                      double backoff_factor, float min_scale,
                                                      float max_scale = largest_loss_scale) {
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

/// Reads a state with another system's keys into one of ours. Every key must be known; those marked optional may be missing,
/// because the system itself does not always write them.
class StateImport {
 public:
  StateImport(const StateDict& theirs, StateDict ours) : theirs_(theirs), read_(theirs, true), ours_(std::move(ours)) {}

  void scale(const char* key) {
    float value = 0.0F;
    read_(key, value);
    check_loss_scale(key, value);
    ours_.set("loss_scale", value);
  }
  /// 0 means no floor.
  void floor(const char* key) { ours_.set("min_scale", floor_argument(key, real(key))); }
  void factor(const char* key) { ours_.set(key, real(key)); }
  /// One factor for both: growth multiplies by it and backoff divides.
  void both_factors(double factor) {
    ours_.set("growth_factor", factor);
    ours_.set("backoff_factor", 1.0 / factor);
  }
  void counter(const char* key, const char* ours, std::int64_t low = 0, std::int64_t high = largest_counter) {
    ours_.set(ours, integer(key, low, high));
  }
  void flag(const char* key) {
    bool value = false;
    read_(key, value);
    ours_.set(key, value);
  }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t low, std::int64_t high = largest_counter) {
    std::int64_t value = 0;
    read_(key, value, low, high);
    return value;
  }
  [[nodiscard]] double real(const char* key) {
    double value = 0.0;
    read_(key, value);
    return value;
  }
  /// Ignores the key, whatever its value.
  void leave_out(const char* key) {
    if (has(key)) read_.leave_out(key);
  }
  [[nodiscard]] bool has(const char* key) const { return theirs_.contains(key); }
  [[nodiscard]] StateDict& ours() { return ours_; }

  /// An integer setting of ours; the largest integer if we have none of that name.
  [[nodiscard]] std::int64_t setting(const char* ours) const {
    const StateValue* value = ours_.find(ours);
    return value == nullptr ? largest_counter : std::get<std::int64_t>(*value);
  }

  [[nodiscard]] StateDict finish() {
    read_.finish();
    // The state does not tell where training began. It was not below the floor, or that no longer matters.
    const StateValue* floor = ours_.find("min_scale");
    if (floor != nullptr && std::get<double>(ours_.at("initial_scale")) < std::get<double>(*floor)) {
      ours_.set("initial_scale", *floor);
    }
    return std::move(ours_);
  }

 private:
  const StateDict& theirs_;
  StateReader read_;
  StateDict ours_;
};

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
