#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/noop.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/report.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// A std::variant with the policies of these systems as well, each once.
template <class Variant, class Systems>
struct with_systems {
  using type = Variant;
};
template <class... Policies, class System, class... More>
struct with_systems<std::variant<Policies...>, systems::List<System, More...>> {
  using Policy = decltype(System::preset());
  using Variant = std::conditional_t<(std::is_same_v<Policies, Policy> || ...), std::variant<Policies...>,
                                     std::variant<Policies..., Policy>>;
  using type = typename with_systems<Variant, systems::List<More...>>::type;
};
using VariantLossScale = with_systems<std::variant<NoOpLossScale, ConstantLossScale, DynamicLossScale, HysteresisScale,
                                                   BasicHysteresisScale<RefillOnGrowth>, BasicHysteresisScale<RefillOnBackoff>>,
                                      systems::All>::type;

struct HeldLossScale;

/// What is done with a policy that is held, by its kind: the members of Held.
struct HeldKind {
  float (*loss_scale)(const HeldLossScale&);
  void (*adjust)(HeldLossScale&, bool);
  void (*adjust_by_report)(HeldLossScale&, const GradientReport&);
  bool (*equal)(const HeldLossScale&, const HeldLossScale&);
  bool has_config, has_state;
  LossScaleConfig (*config)(const HeldLossScale&);
  std::int64_t (*counter)(const HeldLossScale&);
  void (*set_loss_scale)(HeldLossScale&, const float&);
  void (*set_config)(HeldLossScale&, const LossScaleConfig&);
  void (*set_settings)(HeldLossScale&, const StateDict&);
  std::string (*name)();
  StateDict (*state_dict)(const HeldLossScale&);
  void (*load_state_dict)(HeldLossScale&, const StateDict&);
};

/// A policy of any kind: one of headroom's in the variant, one of the user's in the bytes.
struct HeldLossScale {
  const HeldKind* kind = nullptr;
  bool is_own = false;
  VariantLossScale policy{};
  alignas(8) unsigned char own[128] = {};
};

/// The name that a kind of policy of the user's is registered by: see registry.hpp.
[[nodiscard]] std::string registered_name(const HeldKind& kind);

template <class P>
using equal_t = decltype(std::declval<const P&>() == std::declval<const P&>());
template <class P>
using config_t = decltype(loss_scale_config(std::declval<const P&>().config()));
template <class P>
using counter_t = decltype(std::declval<const P&>().counter());
template <class P>
using with_loss_scale_t = decltype(std::declval<const P&>().with_loss_scale(1.0F));
template <class P>
using with_config_t = decltype(std::declval<const P&>().with_config(std::declval<const P&>().config()));
template <class P>
using with_settings_t = decltype(std::declval<const P&>().with_settings(StateDict()));
template <class P>
using name_t = decltype(P::policy_name());
template <class P>
using state_t = decltype(P::from_state_dict(std::declval<const P&>().state_dict()));

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_none(const char* member, const std::string& policy) {
  throw_logic_error(std::string(member) + ": the policy '" + policy + "' has none");
}
/// A state with some of its entries changed. Throws std::invalid_argument if there is none of that name.
[[nodiscard]] inline StateDict changed_state(StateDict state, const StateDict& settings) {
  for (const auto& [key, value] : settings) {
    const StateValue* now = state.find(key);
    if (now == nullptr || key == "version" || key == "policy") {
      throw_invalid_argument("the key '" + key + "' is unknown; its value is " + to_text(value));
    }
    const auto* whole = std::get_if<std::int64_t>(&value);
    state.set(key, now->is_real() && whole != nullptr ? StateValue(static_cast<double>(*whole)) : value);
  }
  return state;
}

/// What a kind of policy has of HeldKind. Throws std::logic_error naming the policy if it has no such member.
template <class Policy>
struct Held {
  static constexpr bool is_own = !std::is_constructible_v<VariantLossScale, std::in_place_type_t<Policy>, const Policy&>;

  static constexpr bool is_in(const HeldLossScale& held) {
    if constexpr (is_own) {
      return held.kind == &kind;
    } else {
      return !held.is_own && std::holds_alternative<Policy>(held.policy);
    }
  }
  static constexpr const Policy& of(const HeldLossScale& held) {
    if constexpr (is_own) {
      return *std::launder(reinterpret_cast<const Policy*>(held.own));
    } else {
      return std::get<Policy>(held.policy);  // not get_if: for g++ 12 no comparison of a temporary's address is constant
    }
  }
  static constexpr void put(HeldLossScale& held, const Policy& policy) {
    held.kind = &kind;
    held.is_own = is_own;
    if constexpr (is_own) {
      static_assert(std::is_trivially_copyable_v<Policy> && sizeof(Policy) <= sizeof held.own && alignof(Policy) <= 8,
                    "headroom: a policy of your own in an AnyLossScale has to be trivially copyable and of at most 128 bytes");
      std::memcpy(held.own, &policy, sizeof(Policy));
    } else {
      held.policy = VariantLossScale(std::in_place_type<Policy>, policy);
    }
  }

  static constexpr float loss_scale(const HeldLossScale& held) { return of(held).loss_scale(); }
  static constexpr void adjust(HeldLossScale& held, bool grads_finite) { put(held, of(held).adjust(grads_finite)); }
  static constexpr void adjust_by_report(HeldLossScale& held, const GradientReport& report) {
    put(held, of(held).adjust(report));
  }
  static constexpr bool equal(const HeldLossScale& held, const HeldLossScale& other) {
    if (!is_in(other)) return false;
    if constexpr (is_detected_v<equal_t, Policy>) return of(held) == of(other);
    return std::is_empty_v<Policy> || std::memcmp(held.own, other.own, sizeof(Policy)) == 0;
  }
  static constexpr LossScaleConfig config(const HeldLossScale& held) {
    if constexpr (is_detected_v<config_t, Policy>) return loss_scale_config(of(held).config());
    throw_none("config", name());
  }
  static constexpr std::int64_t counter(const HeldLossScale& held) {
    if constexpr (is_detected_v<counter_t, Policy>) return of(held).counter();
    throw_none("counter", name());
  }
  static constexpr void set_loss_scale(HeldLossScale& held, const float& scale) {
    if constexpr (is_detected_v<with_loss_scale_t, Policy>) return put(held, of(held).with_loss_scale(scale));
    throw_none("with_loss_scale", name());
  }
  static constexpr void set_config(HeldLossScale& held, const LossScaleConfig& config) {
    if constexpr (is_detected_v<with_config_t, Policy>) {
      auto changed = of(held).config();
      loss_scale_config(changed) = config;
      return put(held, of(held).with_config(changed));
    }
    throw_none("with_config", name());
  }
  static void set_settings(HeldLossScale& held, const StateDict& settings) {
    if constexpr (is_detected_v<with_settings_t, Policy>) {
      return put(held, of(held).with_settings(settings));
    } else if constexpr (is_detected_v<state_t, Policy>) {
      return put(held, Policy::from_state_dict(changed_state(of(held).state_dict(), settings)));
    }
    throw_none("with_settings", name());
  }
  static std::string name() {
    if constexpr (is_detected_v<name_t, Policy>) return Policy::policy_name();
    return registered_name(kind);
  }
  static StateDict state_dict(const HeldLossScale& held) {
    if constexpr (is_detected_v<state_t, Policy>) return of(held).state_dict();
    throw_none("state_dict", name());
  }
  static void load_state_dict(HeldLossScale& held, const StateDict& dict) {
    if constexpr (is_detected_v<state_t, Policy>) return put(held, Policy::from_state_dict(dict));
    throw_none("from_state_dict", name());
  }

  static constexpr HeldKind kind = {loss_scale,
                                    adjust,
                                    adjust_by_report,
                                    equal,
                                    is_detected_v<config_t, Policy>,
                                    is_detected_v<state_t, Policy>,
                                    config,
                                    counter,
                                    set_loss_scale,
                                    set_config,
                                    set_settings,
                                    name,
                                    state_dict,
                                    load_state_dict};
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
