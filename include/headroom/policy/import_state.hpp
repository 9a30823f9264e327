#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/policy/make_loss_scale.hpp>

#include <string>
#include <string_view>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

struct StateFormat {
  const char* system;
  void (*import)(StateImport&);
  bool (*is_static)(const StateDict&);
};
template <class List>
struct StateFormats;
template <class... Systems>
struct StateFormats<systems::List<Systems...>> {
  static constexpr StateFormat all[] = {{Systems::name, Systems::import_state, Systems::is_static}...};
};

[[nodiscard]] inline const StateFormat& state_format(std::string_view system) {
  std::string known;
  for (const StateFormat& format : StateFormats<systems::All>::all) {
    if (format.import == nullptr) continue;
    if (system == format.system) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.system);
  }
  throw_invalid_argument({"no state of '", system, "' can be imported; known are ", known});
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
