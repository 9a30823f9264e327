#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/policy/amax.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/held.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/noop.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/state/fields.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

// ---- the policies that have a name ----

struct NamedLossScale {
  const char* name;
  HeldLossScale (*make)();
};
struct AllSystems;
/// What configuration files may name, each with settings of its own.
template <class>
struct NamedLossScales {
  static constexpr NamedLossScale all[] = {
      {"noop", [] { return held(NoOpLossScale()); }},
      {"constant", [] { return held(ConstantLossScale(LossScaleConfig{}.initial_scale)); }},
      {"dynamic", [] { return held(DynamicLossScale()); }},
      {"hysteresis", [] { return held(HysteresisScale()); }},
      {"hysteresis_refill_on_growth", [] { return held(BasicHysteresisScale<RefillOnGrowth>()); }},
      {"hysteresis_refill_on_backoff", [] { return held(BasicHysteresisScale<RefillOnBackoff>()); }},
      {"amax", [] { return held(AmaxLossScale()); }},
      {"torch", [] { return held(presets::torch()); }},
      {"apex", [] { return held(presets::apex()); }},
      {"megatron", [] { return held(presets::megatron()); }},
      {"deepspeed", [] { return held(presets::deepspeed()); }},
      {"cerebras_fp16", [] { return held(presets::cerebras_fp16()); }},
      {"cerebras_cbfloat16", [] { return held(presets::cerebras_cbfloat16()); }},
      {"fairseq", [] { return held(presets::fairseq()); }},
      {"jmp", [] { return held(presets::jmp()); }},
      {"eformer", [] { return held(presets::eformer()); }},
      {"emily", [] { return held(presets::emily()); }},
      {"flax", [] { return held(presets::flax()); }},
      {"keras", [] { return held(presets::keras()); }},
      {"paddle", [] { return held(presets::paddle()); }},
  };
};

/// The first policy for which is_it(name, policy) is true: headroom's own, then those registered, the latest first. None if its
/// kind is null.
template <class Systems, class IsIt>
[[nodiscard]] HeldLossScale find_loss_scale(IsIt is_it) {
  for (const NamedLossScale& named : NamedLossScales<Systems>::all) {
    const HeldLossScale policy = named.make();
    if (is_it(std::string_view(named.name), policy)) return policy;
  }
  for (const RegisteredLossScale* it = registered_loss_scales.load(std::memory_order_acquire); it != nullptr; it = it->next) {
    if (is_it(std::string_view(it->name), it->policy)) return it->policy;
  }
  return {};
}

/// The name by which a state of this policy finds it again, if it is registered by `name`; empty if it has no states.
[[nodiscard]] inline std::string name_in_states(const std::string& name, const HeldLossScale& policy) {
  if (!policy.kind->has_state) return {};
  const StateDict state = policy.kind->state_dict(policy);
  if (state.contains("policy")) return to_text(state.at("policy"));
  const std::string own = policy.kind->name();
  return concat({"'", own == no_name ? name : own, "'"});
}

/// Throws std::invalid_argument if another policy has the name, be it in its states, or if it is empty.
template <class Systems>
void register_held(const std::string& name, const HeldLossScale& policy) {
  if (name.empty()) throw_invalid_argument({"register_loss_scale: the name is empty"});
  const std::string in_states = name_in_states(name, policy);
  auto added = std::unique_ptr<RegisteredLossScale>(
      new RegisteredLossScale{name, policy, registered_loss_scales.load(std::memory_order_acquire)});
  HeldLossScale same, known;
  do {
    same = find_loss_scale<Systems>([&](std::string_view other_name, const HeldLossScale& other) {
      return !in_states.empty() && other.kind != policy.kind && name_in_states(std::string(other_name), other) == in_states;
    });
    known = find_loss_scale<Systems>([&name](std::string_view other, const HeldLossScale&) { return other == name; });
  } while (same.kind == nullptr && known.kind == nullptr &&
           !registered_loss_scales.compare_exchange_weak(added->next, added.get(), std::memory_order_acq_rel));
  if (same.kind == nullptr && known.kind == nullptr) return (void)added.release();
  if (same.kind != nullptr) throw_invalid_argument({"there are states of another policy ", in_states, " already"});
  if (!known.kind->equal(known, policy)) throw_invalid_argument({"there is a policy '", name, "' already"});
}

// ---- the states of any of them ----

/// The state of a policy, with "version" and "policy" added if it lacks them.
[[nodiscard]] inline StateDict state_of(const HeldLossScale& policy) {
  StateDict own = policy.kind->state_dict(policy);
  if (own.contains("version") && own.contains("policy")) return own;
  StateDict state;
  if (!own.contains("version")) state.add("version", state_version);
  if (!own.contains("policy")) {
    const std::string name = policy.kind->name();
    if (name == no_name) throw_logic_error({"state_dict: a policy of your own needs a name: call register_loss_scale"});
    state.add("policy", name);
  }
  for (const auto& [key, value] : own) state.add(key, value);
  return state;
}

/// The policy of a state. Throws std::invalid_argument listing the kinds if it is of none of them.
template <class Systems>
[[nodiscard]] HeldLossScale load_state(const StateDict& dict) {
  if (!dict.contains("policy")) StateReader::check_version(dict);
  const StateValue& name = dict.at("policy");
  // First by the kinds' names, which nearly all states have, and only then by what is in a state of each.
  HeldLossScale policy = find_loss_scale<Systems>([&](std::string_view, const HeldLossScale& other) {
    return other.kind->has_state && name == StateValue(other.kind->name()) && state_of(other).at("policy") == name;
  });
  std::string known;
  const auto is_it = [&](std::string_view, const HeldLossScale& other) {
    if (!other.kind->has_state) return false;
    const StateValue other_name = state_of(other).at("policy");
    const std::string text = other_name.is_text() ? other_name.text() : to_text(other_name);
    if (concat({", ", known, ", "}).find(concat({", ", text, ", "})) == std::string::npos)
      known += concat({known.empty() ? "" : ", ", text});
    return name == other_name;
  };
  if (policy.kind == nullptr) policy = find_loss_scale<Systems>(is_it);
  if (policy.kind == nullptr) {
    StateReader::check_version(dict);
    throw_invalid_argument({"policy is ", to_text(name), "; it must be one of ", known});
  }
  // It gets only the entries that its own states have.
  const StateDict own = policy.kind->state_dict(policy);
  StateDict state = dict;
  if (!own.contains("version")) StateReader::check_version(dict);
  if (!own.contains("main_scale")) StateReader::check_main_scale(dict);
  for (const auto& [key, value] : dict) {
    const bool is_not_its_own = key == "version" || key == "policy" || key == "main_scale" || is_of_spike_guard(key);
    if (is_not_its_own && !own.contains(key)) (void)state.erase(key);
  }
  policy.kind->load_state_dict(policy, state);
  return policy;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
