#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/make_loss_scale.hpp>
#include <headroom/state/fields.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

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

struct StateFormat {
  const char* system;
  void (*import)(StateImport&);
  bool (*is_static)(const StateDict&);
};
template <class System>
using import_t = decltype(System::import_state(std::declval<StateImport&>()));
template <class System>
constexpr StateFormat state_format_of() {
  if constexpr (is_detected_v<import_t, System>) {
    return {System::name, &System::template import_state<StateImport>, &System::is_static};
  } else {
    return {System::name, nullptr, &System::is_static};
  }
}
template <class List>
struct StateFormats;
template <class... Systems>
struct StateFormats<systems::List<Systems...>> {
  static constexpr StateFormat all[] = {state_format_of<Systems>()...};
};

template <class Systems = systems::All>
[[nodiscard]] const StateFormat& state_format(std::string_view system) {
  std::string known;
  for (const StateFormat& format : StateFormats<Systems>::all) {
    if (format.import == nullptr) continue;
    if (system == format.system) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.system);
  }
  throw_invalid_argument("no state of '" + std::string(system) + "' can be imported; known are " + known);
}

}  // namespace detail

/// A policy that continues from the state of another system, given under that system's own keys: "torch", "megatron",
/// "cerebras", "emily", "jmp", "eformer", "deepspeed" or "deepspeed_0_16" (for a DynamicLossScaler of 0.17.0 and older),
/// "flax", "keras", "mindformers_adaptive", "onnxruntime", "openseq2seq_backoff", "paddle" or "paddle_2_4". What the state
/// lacks is taken from `settings`, the policy as it was when training began: Megatron, Cerebras, flax, MindFormers, ONNX
/// Runtime and OpenSeq2Seq save no settings, and jmp no floor. Throws std::invalid_argument naming the system's key and the
/// value if something is missing, unknown or out of range, and listing the systems if `system` is none of them.
template <class Policy>
[[nodiscard]] Policy import_state(std::string_view system, const StateDict& dict, const Policy& settings) {
  detail::StateImport state(dict, settings.state_dict());
  detail::state_format(system).import(state);
  return Policy::from_state_dict(state.finish());
}
/// The same with the settings of the system's preset for those the state lacks; for Cerebras, of presets::cerebras_fp16.
/// Returns a ConstantLossScale if the state is that of a static scale of Cerebras, DeepSpeed or Paddle.
[[nodiscard]] inline AnyLossScale import_state(std::string_view system, const StateDict& dict) {
  const bool is_static = detail::state_format(system).is_static(dict);
  return import_state(system, dict, is_static ? AnyLossScale(ConstantLossScale(1.0F)) : make_loss_scale(system));
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
