#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <algorithm>
#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Grows on the finite steps `growth_interval` + 1, 2 `growth_interval` + 1, … since the last overflow, which the counter
/// counts: DeepSpeed's rule (the stable interval of its FP16 optimizers).
class GrowEveryIntervalSinceOverflow : public detail::StepCounter {
 public:
  static constexpr const char* name = "stable_interval";
  constexpr explicit GrowEveryIntervalSinceOverflow(const LossScaleConfig&) noexcept {}

  [[nodiscard]] constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    const std::int64_t stable = counter_;
    counter_ = grads_finite ? detail::one_more(counter_) : 0;
    return grads_finite && stable >= config.growth_interval && stable % config.growth_interval == 0;
  }
};

/// The settings of DeepSpeed's rule, by its names.
struct DelayedShiftConfig {
  LossScaleConfig scale;
  std::int32_t delayed_shift = 1;       ///< overflows before the scale backs off; at least 1
  bool consecutive_hysteresis = false;  ///< whether any finite step refills, or only growth

  constexpr void check() const { detail::check_count("delayed_shift", delayed_shift); }
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("delayed_shift", self.delayed_shift);
    visit("consecutive_hysteresis", self.consecutive_hysteresis);
  }
  friend constexpr bool operator==(const DelayedShiftConfig& a, const DelayedShiftConfig& b) noexcept {
    return a.scale == b.scale && a.delayed_shift == b.delayed_shift && a.consecutive_hysteresis == b.consecutive_hysteresis;
  }
  friend constexpr bool operator!=(const DelayedShiftConfig& a, const DelayedShiftConfig& b) noexcept { return !(a == b); }
};

/// DeepSpeed's hysteresis: an overflow uses up one of `delayed_shift` while more than one is left. With one left it backs off,
/// and that one stays. `consecutive_hysteresis` says which steps refill it.
class BackOffAfterDelayedShift {
 public:
  using Config = DelayedShiftConfig;
  static constexpr const char* name = "delayed_shift";
  constexpr explicit BackOffAfterDelayedShift(const Config& config) noexcept : left_(config.delayed_shift) {}

  /// At least 1.
  [[nodiscard]] constexpr std::int32_t hysteresis_left() const noexcept { return left_; }
  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t, const Config& config) noexcept {
    if (grads_finite) {
      if (config.consecutive_hysteresis) left_ = config.delayed_shift;
      return false;
    }
    if (left_ == 1) return true;
    --left_;
    return false;
  }
  constexpr void grow(const Config& config) noexcept { left_ = config.delayed_shift; }
  constexpr void configure(const Config& config) noexcept { left_ = std::min(left_, config.delayed_shift); }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit, std::int64_t) {
    visit("hysteresis_left", self.left_, 1, self.left_);  // before it is read, the delayed shift itself
  }
  friend constexpr bool operator==(const BackOffAfterDelayedShift& a, const BackOffAfterDelayedShift& b) noexcept {
    return a.left_ == b.left_;
  }

 private:
  std::int32_t left_;
};

/// DeepSpeed's rule: presets::deepspeed and presets::deepspeed_config.
using DeepSpeedLossScale = BasicDynamicLossScale<GrowEveryIntervalSinceOverflow, BackOffAfterDelayedShift>;
/// The rule of older DeepSpeeds: presets::deepspeed_0_16.
using DelayedShiftLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAfterDelayedShift>;

namespace detail {

/// What DeepSpeed's scales of all versions have in common.
template <class Policy>
[[nodiscard]] constexpr Policy delayed_shift(const double& init_scale, const double& scale_factor, std::int64_t scale_window,
                                             const double& min_scale, std::int32_t delayed_shift, bool consecutive_hysteresis) {
  const double factor = factor_argument("scale_factor", scale_factor);
  check_count("scale_window", scale_window);
  const LossScaleConfig scale{1.0F, scale_window, factor, 1.0 / factor, floor_argument("min_scale", min_scale)};
  return starting_anywhere<Policy>(DelayedShiftConfig{scale, delayed_shift, consecutive_hysteresis},
                                   scale_argument("init_scale", init_scale));
}

}  // namespace detail

namespace presets {

/// DeepSpeed's DynamicLossScaler since 0.17.1, and its FP16 optimizers before that: growth comes on clean step `scale_window` +
/// 1, and then every `scale_window` steps. The defaults are the scaler's up to 0.17.0; since then it has none. Training from a
/// configuration file starts from others: see deepspeed_config. At the floor DeepSpeed can end the training
/// (raise_error_at_min_scale); this policy goes on, as DeepSpeed does without that setting.
[[nodiscard]] constexpr DeepSpeedLossScale deepspeed(const double& init_scale = 0x1p32, const double& scale_factor = 2.0,
                                                     std::int64_t scale_window = 1000, const double& min_scale = 1.0,
                                                     std::int32_t delayed_shift = 1, bool consecutive_hysteresis = false) {
  return detail::delayed_shift<DeepSpeedLossScale>(init_scale, scale_factor, scale_window, min_scale, delayed_shift,
                                                   consecutive_hysteresis);
}
/// DeepSpeed's DynamicLossScaler up to 0.17.0, which already grows on clean step `scale_window`.
[[nodiscard]] constexpr DelayedShiftLossScale deepspeed_0_16(const double& init_scale = 0x1p32,
                                                             const double& scale_factor = 2.0, std::int64_t scale_window = 1000,
                                                             const double& min_scale = 1.0, std::int32_t delayed_shift = 1,
                                                             bool consecutive_hysteresis = false) {
  return detail::delayed_shift<DelayedShiftLossScale>(init_scale, scale_factor, scale_window, min_scale, delayed_shift,
                                                      consecutive_hysteresis);
}
/// The scaler made by "fp16" in DeepSpeed's configuration, with the names and defaults it has there: ZeRO's since 0.17.1. Its
/// other FP16 optimizers have no hysteresis (set 1), and the unfused one has a default floor of 0.25.
[[nodiscard]] constexpr DeepSpeedLossScale deepspeed_config(int initial_scale_power = 16, std::int64_t loss_scale_window = 1000,
                                                            std::int32_t hysteresis = 2, bool consecutive_hysteresis = false,
                                                            const double& min_loss_scale = 1.0) {
  if (initial_scale_power < -126 || initial_scale_power > 126) {
    detail::throw_bad_value("initial_scale_power", std::int64_t{initial_scale_power}, "in [-126, 126]");
  }
  detail::check_count("loss_scale_window", loss_scale_window);
  detail::check_count("hysteresis", hysteresis);
  const auto least = static_cast<double>(detail::floor_argument("min_loss_scale", min_loss_scale));
  const auto scale = static_cast<double>(detail::power_of_two(initial_scale_power));
  return deepspeed(scale, 2.0, loss_scale_window, least, hysteresis, consecutive_hysteresis);
}

}  // namespace presets

namespace detail::systems {

struct DeepSpeed : System {
  static constexpr const char* name = "deepspeed";
  [[nodiscard]] static constexpr DeepSpeedLossScale preset() { return presets::deepspeed(); }

  /// The steps are counted from the start and the last overflow remembered, from -1. The state of an FP16 optimizer has only
  /// some settings; a scaler that was pickled by itself has all. By which rule it goes on the settings say.
  static void import_state(StateImport& state) {
    state.scale("cur_scale");
    for (const char* other : {"dynamic_loss_scale", "dynamic", "raise_error_at_min_scale", "dtype"}) state.leave_out(other);
    if (!state.ours().contains("counter")) return state.leave_out("cur_iter");  // the static one has nothing else
    const std::int64_t steps = state.integer("cur_iter", 0);
    const std::int64_t last_overflow = state.integer("last_overflow_iter", -1);
    if (last_overflow >= steps && last_overflow >= 0) {
      throw_bad_value("last_overflow_iter", last_overflow, "below cur_iter");
    }
    if (state.has("scale_factor")) state.both_factors(factor_argument("scale_factor", state.real("scale_factor")));
    if (state.has("scale_window")) state.counter("scale_window", "growth_interval", 1);
    // Since the last overflow; our piece for the older rule counts from the last growth.
    const std::int64_t stable = steps - last_overflow - 1;
    const bool is_older = state.ours().at("policy") == StateValue(DelayedShiftLossScale::policy_name());
    state.ours().set("counter", is_older ? stable % state.setting("growth_interval") : stable);
    if (state.has("min_scale")) state.floor("min_scale");
    if (state.has("delayed_shift")) state.counter("delayed_shift", "delayed_shift", 1, largest_hysteresis);
    if (state.has("cur_hysteresis")) state.counter("cur_hysteresis", "hysteresis_left", 1, state.setting("delayed_shift"));
    if (state.has("consecutive_hysteresis")) state.flag("consecutive_hysteresis");
  }
  [[nodiscard]] static bool is_static(const StateDict& dict) {
    for (const char* key : {"dynamic", "dynamic_loss_scale"}) {
      if (dict.contains(key) && dict.at(key) == StateValue(false)) return true;
    }
    return false;
  }
};
struct DeepSpeed016 : DeepSpeed {
  static constexpr const char* name = "deepspeed_0_16";
  [[nodiscard]] static constexpr DelayedShiftLossScale preset() { return presets::deepspeed_0_16(); }
};
struct DeepSpeedConfig : System {
  static constexpr const char* name = "deepspeed_config";
  [[nodiscard]] static constexpr DeepSpeedLossScale preset() { return presets::deepspeed_config(); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
