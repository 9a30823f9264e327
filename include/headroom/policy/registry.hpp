#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/held.hpp>
#include <headroom/state/fields.hpp>

#include <atomic>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// A policy that is known by a name: an entry of a list to which any thread may add, and from which nothing is removed.
struct RegisteredLossScale {
  std::string name;
  HeldLossScale policy;
  const RegisteredLossScale* next;
};
inline std::atomic<const RegisteredLossScale*> registered_loss_scales{nullptr};

/// The first of them, from the last registered on, for which `is_it` is true; null if there is none.
template <class IsIt>
[[nodiscard]] const RegisteredLossScale* find_registered(IsIt is_it) {
  const RegisteredLossScale* it = registered_loss_scales.load(std::memory_order_acquire);
  while (it != nullptr && !is_it(*it)) it = it->next;
  return it;
}

/// Throws std::invalid_argument if another policy has the name.
inline void register_held(const std::string& name, const HeldLossScale& policy) {
  auto* added = new RegisteredLossScale{name, policy, registered_loss_scales.load(std::memory_order_acquire)};
  const RegisteredLossScale* known = nullptr;
  do {
    known = find_registered([&name](const auto& it) { return it.name == name; });
  } while (known == nullptr && !registered_loss_scales.compare_exchange_weak(added->next, added, std::memory_order_acq_rel));
  if (known == nullptr) return;
  delete added;
  if (!known->policy.kind->equal(known->policy, policy)) throw_invalid_argument("there is a policy '" + name + "' already");
}

inline constexpr const char* no_name = "(not registered)";
inline std::string registered_name(const HeldKind& kind) {
  std::string name = no_name;
  (void)find_registered([&](const auto& it) {
    if (it.policy.kind == &kind) name = it.name;  // the last that is seen is the one registered first
    return false;
  });
  return name;
}

/// The state of a user's policy, with "version" and "policy" added if it lacks them.
[[nodiscard]] inline StateDict own_state(const HeldLossScale& held) {
  const StateDict own = held.kind->state_dict(held);
  StateDict state;
  if (!own.contains("version")) state.add("version", state_version);
  if (!own.contains("policy")) {
    const std::string name = held.kind->name();
    if (name == no_name) throw_logic_error("state_dict: a policy of your own needs a name: call register_loss_scale");
    state.add("policy", name);
  }
  for (const auto& [key, value] : own) state.add(key, value);
  return state;
}
/// Loads such a state into a policy of the kind of `like`, which gets only the entries that its own states have.
inline void load_own_state(HeldLossScale& held, const HeldLossScale& like, const StateDict& dict) {
  const StateDict own = like.kind->state_dict(like);
  StateDict state = dict;
  if (!own.contains("version")) StateReader::check_version(dict);
  if (!own.contains("main_scale")) StateReader::check_main_scale(dict);
  for (const char* key : {"version", "policy", "main_scale"}) {
    if (!own.contains(key)) (void)state.erase(key);
  }
  like.kind->load_state_dict(held, state);
}

/// Loads the state of a policy of any kind. Throws std::invalid_argument listing the kinds if it is none of them.
template <class... Policies>
void load_any_state(HeldLossScale& held, const StateDict& dict, const std::variant<Policies...>&) {
  if (!dict.contains("policy")) StateReader::check_version(dict);
  const StateValue& name = dict.at("policy");
  std::string known;
  const auto is_name = [&](const StateValue& other) {
    known += (known.empty() ? "" : ", ") + (other.is_text() ? std::get<std::string>(other) : to_text(other));
    return name == other;
  };
  if (((is_name(Policies::policy_name()) && (Held<Policies>::load_state_dict(held, dict), true)) || ...)) return;
  const RegisteredLossScale* own = find_registered([&](const auto& it) {
    return it.policy.is_own && it.policy.kind->has_state && is_name(own_state(it.policy).at("policy"));
  });
  if (own != nullptr) return load_own_state(held, own->policy, dict);
  StateReader::check_version(dict);
  throw_invalid_argument("policy is " + to_text(name) + "; it must be one of " + known);
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
