#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/any.hpp>

#include <string>
#include <string_view>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// Reads a state of another system, by its keys, into a state of ours. Every key must be known; those marked optional may be
/// missing, because the system itself does not always write them.
class StateImport {
 public:
  StateImport(const StateDict& theirs, StateDict ours) : theirs_(theirs), read_(theirs, true), ours_(std::move(ours)) {}

  void scale(const char* key) {
    float value = 0.0F;
    read_(key, value);
    check_loss_scale(key, value);
    ours_.set("loss_scale", value);
  }
  /// 0 is no floor.
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
  /// Whatever its value.
  void leave_out(const char* key) {
    if (has(key)) read_.leave_out(key);
  }
  [[nodiscard]] bool has(const char* key) const { return theirs_.contains(key); }
  [[nodiscard]] StateDict& ours() { return ours_; }

  /// One of our settings that is a whole number; the largest there is where we have none of that name.
  [[nodiscard]] std::int64_t setting(const char* ours) const {
    const StateValue* value = ours_.find(ours);
    return value == nullptr ? largest_counter : std::get<std::int64_t>(*value);
  }

  [[nodiscard]] StateDict finish() {
    read_.finish();
    // Where the training began is not in the state. It was not below the floor, or it does not matter any more.
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

inline void import_torch(StateImport& state) {
  state.scale("scale");
  state.factor("growth_factor");
  state.factor("backoff_factor");
  state.counter("growth_interval", "growth_interval", 1);
  state.counter("_growth_tracker", "counter");
}
/// Its hysteresis tracker goes below 0, overflow by overflow, where ours stays at 0.
inline void import_megatron(StateImport& state) {
  state.scale("scale");
  state.counter("growth_tracker", "counter");
  const std::int64_t left = state.integer("hysteresis_tracker", -largest_counter, state.setting("hysteresis"));
  state.ours().set("hysteresis_left", left < 0 ? std::int64_t{0} : left);
}
inline void import_cerebras(StateImport& state) {
  state.scale("loss_scale");
  if (!state.ours().contains("counter")) return;  // the static one has nothing else
  state.counter("steps_since_rescale", "counter");
  // Its scale never ends a step below the floor, where ours can be. It can begin there: as in the preset, at the floor.
  const double scale = std::get<double>(state.ours().at("loss_scale")), least = std::get<double>(state.ours().at("min_scale"));
  if (scale < least) {
    const bool is_new = std::get<std::int64_t>(state.ours().at("counter")) == 0;
    if (!is_new) throw_bad_value("loss_scale", scale, ("at least the min_scale, " + to_text(least)).c_str());
    state.ours().set("loss_scale", least);
  }
  state.counter("overflows_since_rescale", "overflows", 0, std::get<std::int64_t>(state.ours().at("counter")));
  state.leave_out("num_skipped_steps");  // a statistic
}
inline void import_emily(StateImport& state) {
  state.scale("scale");
  state.factor("growth_factor");
  state.factor("backoff_factor");
  state.counter("growth_interval", "growth_interval", 1);
  state.floor("min_scale");
  state.counter("counter", "counter");
}
/// jmp's own flattening forgets min_loss_scale. Its factor is a float.
inline void import_jmp(StateImport& state) {
  state.scale("loss_scale");
  state.counter("counter", "counter");
  state.counter("period", "growth_interval", 1);
  state.both_factors(float_factor_argument("factor", state.real("factor")));
  if (state.has("min_loss_scale")) state.floor("min_loss_scale");
}
/// The steps are counted from the start and the last overflow remembered, from -1. The state of an FP16 optimizer has only some
/// settings; a scaler that was pickled by itself has all. By which rule it goes on the settings say.
inline void import_deepspeed(StateImport& state) {
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

/// Whether a state is that of a scale that never changes, as Cerebras and DeepSpeed have one.
[[nodiscard]] inline bool is_static(const StateDict& dict) {
  const auto is_false = [&dict](const char* key) {
    const StateValue* value = dict.find(key);
    return value != nullptr && *value == StateValue(false);
  };
  return is_false("dynamic") || is_false("dynamic_loss_scale") || (dict.size() == 1 && dict.contains("loss_scale"));
}

struct StateFormat {
  const char* system;
  void (*import)(StateImport&);
  AnyLossScale (*preset)();
};
inline constexpr StateFormat state_formats[] = {
    {"torch", import_torch, [] { return AnyLossScale(presets::torch()); }},
    {"megatron", import_megatron, [] { return AnyLossScale(presets::megatron()); }},
    {"cerebras", import_cerebras, [] { return AnyLossScale(presets::cerebras_fp16()); }},
    {"emily", import_emily, [] { return AnyLossScale(presets::emily()); }},
    {"jmp", import_jmp, [] { return AnyLossScale(presets::jmp()); }},
    {"eformer", import_jmp, [] { return AnyLossScale(presets::eformer()); }},
    {"deepspeed", import_deepspeed, [] { return AnyLossScale(presets::deepspeed()); }},
    {"deepspeed_0_16", import_deepspeed, [] { return AnyLossScale(presets::deepspeed_0_16()); }},
};

[[nodiscard]] inline const StateFormat& state_format(std::string_view system) {
  std::string known;
  for (const StateFormat& format : state_formats) {
    if (system == format.system) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.system);
  }
  throw_invalid_argument("no state of '" + std::string(system) + "' can be imported; known are " + known);
}

}  // namespace detail

/// The policy that goes on where another system's state, by that system's own keys, left off: "torch", "megatron", "cerebras",
/// "emily", "jmp", "eformer", "deepspeed" or "deepspeed_0_16" (for a DynamicLossScaler of 0.17.0 and older). What the state
/// does not have is taken from `settings`, a policy as it was when the training began: Megatron and Cerebras save no setting,
/// jmp no floor. Throws std::invalid_argument that names the system's key and the value where something is missing, unknown or
/// out of range, and lists the systems where `system` is none of them.
template <class Policy>
[[nodiscard]] Policy import_state(std::string_view system, const StateDict& dict, const Policy& settings) {
  detail::StateImport state(dict, settings.state_dict());
  detail::state_format(system).import(state);
  return Policy::from_state_dict(state.finish());
}
/// The same with the settings of the system's preset, where the state has none; for Cerebras, of presets::cerebras_fp16.
/// ConstantLossScale where the state is Cerebras' or DeepSpeed's of a static scale.
[[nodiscard]] inline AnyLossScale import_state(std::string_view system, const StateDict& dict) {
  const detail::StateFormat& format = detail::state_format(system);
  return import_state(system, dict, detail::is_static(dict) ? AnyLossScale(ConstantLossScale(1.0F)) : format.preset());
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
