#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/state/fields.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

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
///     static void import_state(StateImport&);
///     static bool is_static(const StateDict&);      // if some of them are of a scale that never changes
///
/// and a line in presets.hpp. Before it come the rule, if the system has one of its own, and the preset.
struct System {
  static constexpr std::nullptr_t import_state = nullptr;
  [[nodiscard]] static bool is_static(const StateDict&) noexcept { return false; }
};

// What presets do with their arguments. Each is checked under the name that the preset's declaration has for it: what a
// policy's configuration calls it is not what the caller wrote, and values are rounded or put together on their way there.

/// An argument of a preset as a scale. Throws std::invalid_argument naming it if it is none, with what the preset takes.
[[nodiscard]] constexpr float scale_argument(const char* name, const double& value,
                                             const char* expected = "in [2^-126, 2^126]") {
  check_in(name, value, static_cast<double>(smallest_loss_scale), static_cast<double>(largest_loss_scale), expected);
  return rounded_to_float(value);
}
/// The same for a floor. 0 means none, and so does anything else below our range.
[[nodiscard]] constexpr float floor_argument(const char* name, const double& value) {
  if (is_zero(value) || positive_in(value, smallest_double, smallest_normal_float)) return smallest_loss_scale;
  return scale_argument(name, value, "in [0, 2^126]");
}
/// A factor that growth multiplies by and backoff divides by. Its inverse is normal, for -ffast-math makes others 0.
[[nodiscard]] constexpr double factor_argument(const char* name, const double& value) {
  check_in(name, value, just_above_1, 1.0 / std::numeric_limits<double>::min(), "above 1 and at most 2^1022");
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
  LossScaleConfig& common = detail::loss_scale_config(config);
  common.initial_scale = initial_scale < common.min_scale ? common.min_scale : initial_scale;
  return Policy(config).with_loss_scale(initial_scale);
}

/// For a system that checks the result of growth.
[[nodiscard]] constexpr LossScaleConfig refusing_infinity(LossScaleConfig config) {
  config.refuse_infinite_growth = true;
  return config;
}

/// Reads a state with another system's keys into one of ours. Every key must be known. One that the system does not always
/// write is asked for by `has` first.
class StateImport {
 public:
  StateImport(const StateDict& theirs, StateDict ours) : theirs_(theirs), read_(theirs, true), ours_(std::move(ours)) {}

  void scale(const char* key) {
    float value = 0.0F;
    read_(key, value);
    check_loss_scale(key, value);
    const StateValue* most = ours_.find("max_scale");
    if (most != nullptr) check_order(key, static_cast<double>(value), "max_scale", most->real());
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
    return value == nullptr ? largest_counter : value->integer();
  }

  [[nodiscard]] StateDict finish() {
    read_.finish();
    // The state does not tell where training began. It was not below the floor, or that no longer matters.
    const StateValue* floor = ours_.find("min_scale");
    if (floor != nullptr && ours_.at("initial_scale").real() < floor->real()) {
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
