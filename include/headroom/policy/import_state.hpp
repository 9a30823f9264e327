#pragma once

#include <headroom/policy/any.hpp>

#include <string>
#include <string_view>

namespace headroom {

namespace detail {

/// Reads a state of another system, by its keys, into a state of ours. Every key must be known; those marked optional may be
/// missing, because the system itself does not always write them.
class StateImport {
 public:
  StateImport(const StateDict& theirs, StateDict ours) : theirs_(theirs), read_(theirs, true), ours_(std::move(ours)) {}

  void scale(const char* key, const char* ours) {
    float value = 0.0F;
    read_(key, value);
    check_loss_scale(key, value);
    ours_.set(ours, value);
  }
  /// 0 is no floor.
  void floor(const char* key) {
    double value = 0.0;
    read_(key, value);
    ours_.set("min_scale", floor_argument(key, value));
  }
  void factor(const char* key, const char* ours) { ours_.set(ours, real(key)); }
  /// One factor for both: growth multiplies by it and backoff divides.
  void both_factors(const char* key) {
    const double value = real(key);
    if (!positive_in(value, 0x1.0000000000001p0, 0x1.fffffffffffffp1023)) throw_bad_value(key, value, "above 1 and finite");
    ours_.set("growth_factor", value);
    ours_.set("backoff_factor", 1.0 / value);
  }
  void counter(const char* key, const char* ours, std::int64_t low = 0) { ours_.set(ours, integer(key, low)); }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t low) {
    std::int64_t value = 0;
    read_(key, value, low, largest_counter);
    return value;
  }
  [[nodiscard]] bool has(const char* key) const { return theirs_.contains(key); }
  [[nodiscard]] StateDict& ours() { return ours_; }

  [[nodiscard]] StateDict finish() {
    read_.finish();
    return std::move(ours_);
  }

 private:
  double real(const char* key) {
    double value = 0.0;
    read_(key, value);
    return value;
  }

  const StateDict& theirs_;
  StateReader read_;
  StateDict ours_;
};

inline void import_torch(StateImport& state) {
  state.scale("scale", "loss_scale");
  state.factor("growth_factor", "growth_factor");
  state.factor("backoff_factor", "backoff_factor");
  state.counter("growth_interval", "growth_interval", 1);
  state.counter("_growth_tracker", "counter");
}
/// Its hysteresis tracker goes below 0, overflow by overflow, where ours stays at 0.
inline void import_megatron(StateImport& state) {
  state.scale("scale", "loss_scale");
  state.counter("growth_tracker", "counter");
  const std::int64_t left = state.integer("hysteresis_tracker", -largest_counter);
  state.ours().set("hysteresis_left", left < 0 ? std::int64_t{0} : left);
}
inline void import_cerebras(StateImport& state) {
  state.scale("loss_scale", "loss_scale");
  if (!state.ours().contains("counter")) return;  // the static one has nothing else
  state.counter("steps_since_rescale", "counter");
  state.counter("overflows_since_rescale", "overflows");
  if (state.has("num_skipped_steps")) (void)state.integer("num_skipped_steps", 0);  // a statistic
}
inline void import_emily(StateImport& state) {
  state.scale("scale", "loss_scale");
  state.factor("growth_factor", "growth_factor");
  state.factor("backoff_factor", "backoff_factor");
  state.counter("growth_interval", "growth_interval", 1);
  state.floor("min_scale");
  state.counter("counter", "counter");
}
/// jmp's own flattening forgets min_loss_scale.
inline void import_jmp(StateImport& state) {
  state.scale("loss_scale", "loss_scale");
  state.counter("counter", "counter");
  state.counter("period", "growth_interval", 1);
  state.both_factors("factor");
  if (state.has("min_loss_scale")) state.floor("min_loss_scale");
}
/// The steps are counted from the start and the last overflow remembered, from -1; a pickled scaler has the settings too, the
/// state of an FP16 optimizer only some.
inline void import_deepspeed(StateImport& state) {
  state.scale("cur_scale", "loss_scale");
  const std::int64_t steps = state.integer("cur_iter", 0);
  const std::int64_t last_overflow = state.integer("last_overflow_iter", -1);
  if (last_overflow >= steps && last_overflow >= 0) {
    throw_bad_value("last_overflow_iter", static_cast<double>(last_overflow), "below cur_iter");
  }
  state.ours().set("counter", steps - last_overflow - 1);
  if (state.has("scale_factor")) state.both_factors("scale_factor");
  if (state.has("scale_window")) state.counter("scale_window", "growth_interval", 1);
  if (state.has("min_scale")) state.floor("min_scale");
  if (state.has("delayed_shift")) state.counter("delayed_shift", "delayed_shift", 1);
  if (state.has("cur_hysteresis")) state.counter("cur_hysteresis", "hysteresis_left", 1);
  if (state.has("consecutive_hysteresis")) state.counter("consecutive_hysteresis", "consecutive_hysteresis");
  for (const char* other : {"dynamic_loss_scale", "dynamic", "raise_error_at_min_scale"}) {
    if (state.has(other)) (void)state.integer(other, 0);
  }
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
/// "emily", "jmp", "eformer" or "deepspeed". What the state does not have is taken from `settings`, a policy as it was when the
/// training began: Megatron and Cerebras save no setting, jmp no floor. Throws std::invalid_argument that names system, key and
/// value where something is missing, unknown or out of range, and lists the systems where it is none of them.
template <class Policy>
[[nodiscard]] Policy import_state(std::string_view system, const StateDict& dict, const Policy& settings) {
  detail::StateImport state(dict, settings.state_dict());
  detail::state_format(system).import(state);
  return Policy::from_state_dict(state.finish());
}
/// The same with the settings of the system's preset, where the state has none; for Cerebras, of presets::cerebras_fp16, and
/// ConstantLossScale where the state has nothing but a scale.
[[nodiscard]] inline AnyLossScale import_state(std::string_view system, const StateDict& dict) {
  const detail::StateFormat& format = detail::state_format(system);
  const bool is_constant = system == "cerebras" && dict.size() == 1;
  return import_state(system, dict, is_constant ? AnyLossScale(ConstantLossScale(1.0F)) : format.preset());
}

}  // namespace headroom
