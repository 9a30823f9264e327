#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/report.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/state/state_dict.hpp>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define HEADROOM_DETAIL_CLEARS_PADDING 1
#endif
#endif
#ifndef HEADROOM_DETAIL_CLEARS_PADDING
#define HEADROOM_DETAIL_CLEARS_PADDING 0
#endif

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

struct HeldLossScale;

/// What is done with a policy that is held, by its kind: the members of Held.
struct HeldKind {
  float (*loss_scale)(const HeldLossScale&);
  void (*adjust)(HeldLossScale& next, const HeldLossScale&, bool);
  void (*adjust_by_report)(HeldLossScale& next, const HeldLossScale&, const GradientReport&);
  bool (*equal)(const HeldLossScale&, const HeldLossScale&);
  bool has_config, has_state;
  LossScaleConfig (*config)(const HeldLossScale&);
  std::int64_t (*counter)(const HeldLossScale&);
  void (*set_loss_scale)(HeldLossScale&, const float&);
  void (*set_config)(HeldLossScale&, const void* config, const void* type);
  void (*set_settings)(HeldLossScale&, const StateDict&);
  std::string (*name)();
  StateDict (*state_dict)(const HeldLossScale&);
  std::uint64_t (*state_digest)(const HeldLossScale&);
  void (*load_state_dict)(HeldLossScale&, const StateDict&);
};

/// A policy of any kind, as its bytes. 256 in all: anything larger g++ copies by `rep movsq`, which takes as long again as an
/// adjust.
struct HeldLossScale {
  const HeldKind* kind = nullptr;
  alignas(8) unsigned char bytes[248] = {};
};

/// One of a list to which any thread may add, and from which nothing is removed.
struct RegisteredLossScale {
  std::string name;
  HeldLossScale policy;
  const RegisteredLossScale* next;
};
inline std::atomic<const RegisteredLossScale*> registered_loss_scales{nullptr};

inline constexpr const char* no_name = "(not registered)";
/// The name that a kind of policy is registered by, or no_name.
[[nodiscard]] inline std::string registered_name(const HeldKind& kind) {
  std::string name = no_name;
  for (const RegisteredLossScale* it = registered_loss_scales.load(std::memory_order_acquire); it != nullptr; it = it->next) {
    if (it->policy.kind == &kind) name = it->name;  // the last that is seen is the one registered first
  }
  return name;
}

template <class P>
using equal_t = decltype(std::declval<const P&>() == std::declval<const P&>());
template <class P>
using config_t = decltype(detail::loss_scale_config(std::declval<const P&>().config()));
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
  throw_logic_error({member, ": the policy '", policy, "' has none"});
}
/// A state with some of its entries changed. Throws std::invalid_argument if there is none of that name.
[[nodiscard]] inline StateDict changed_state(StateDict state, const StateDict& settings) {
  for (const auto& [key, value] : settings) {
    const StateValue* now = state.find(key);
    if (now == nullptr || key == "version" || key == "policy") {
      throw_invalid_argument({"the key '", key, "' is unknown; its value is ", to_text(value)});
    }
    state.set(key, now->is_real() && value.is_integer() ? StateValue(static_cast<double>(value.integer())) : value);
  }
  return state;
}

/// What a kind of policy has of HeldKind. Throws std::logic_error naming the policy if it has no such member.
template <class Policy>
struct Held {
  static_assert(std::is_trivially_copyable_v<Policy> && sizeof(Policy) <= sizeof HeldLossScale::bytes && alignof(Policy) <= 8,
                "headroom: a policy of your own in an AnyLossScale has to be trivially copyable and of at most 248 bytes");

  static bool is_in(const HeldLossScale& held) noexcept { return held.kind == &kind; }
  static const Policy& of(const HeldLossScale& held) { return *std::launder(reinterpret_cast<const Policy*>(held.bytes)); }
  static void put(HeldLossScale& held, const Policy& policy) {
    held.kind = &kind;
    clear_padding(::new (static_cast<void*>(held.bytes)) Policy(policy));
  }
  static void clear_padding([[maybe_unused]] Policy* policy) {
#if HEADROOM_DETAIL_CLEARS_PADDING
    if constexpr (!is_detected_v<equal_t, Policy>) __builtin_clear_padding(policy);  // its bytes will be compared
#endif
  }

  static float loss_scale(const HeldLossScale& held) { return of(held).loss_scale(); }
  // `next` is a copy, in which the policy is made where it stays.
  template <class Outcome>
  static void adjust(HeldLossScale& next, const HeldLossScale& held, Outcome outcome) {
    clear_padding(::new (static_cast<void*>(next.bytes)) Policy(of(held).adjust(outcome)));
  }
  static bool equal(const HeldLossScale& held, const HeldLossScale& other) {
    if (!is_in(other)) return false;
    if constexpr (is_detected_v<equal_t, Policy>) return of(held) == of(other);
    return std::is_empty_v<Policy> || std::memcmp(held.bytes, other.bytes, sizeof(Policy)) == 0;
  }
  static LossScaleConfig config(const HeldLossScale& held) {
    if constexpr (is_detected_v<config_t, Policy>) return detail::loss_scale_config(of(held).config());
    throw_none("config", name());
  }
  static std::int64_t counter(const HeldLossScale& held) {
    if constexpr (is_detected_v<counter_t, Policy>) return of(held).counter();
    throw_none("counter", name());
  }
  static void set_loss_scale(HeldLossScale& held, const float& scale) {
    if constexpr (is_detected_v<with_loss_scale_t, Policy>) return put(held, of(held).with_loss_scale(scale));
    throw_none("with_loss_scale", name());
  }
  static void set_config(HeldLossScale& held, const void* config, const void* type) {
    if constexpr (is_detected_v<with_config_t, Policy>) {
      auto changed = of(held).config();
      if (type == &address_of_type<decltype(changed)>) {
        changed = *static_cast<const decltype(changed)*>(config);
      } else if (type == &address_of_type<LossScaleConfig>) {
        detail::loss_scale_config(changed) = *static_cast<const LossScaleConfig*>(config);
      } else {
        throw_invalid_argument({"with_config: the policy '", name(), "' has another kind of configuration"});
      }
      return put(held, of(held).with_config(changed));
    }
    throw_none("with_config", name());
  }
  static void set_settings(HeldLossScale& held, const StateDict& settings) {
    if constexpr (is_detected_v<with_settings_t, Policy>) {
      return put(held, of(held).with_settings(settings));
    } else if constexpr (is_detected_v<state_t, Policy>) {
      return put(held, Policy::from_state_dict(detail::changed_state(of(held).state_dict(), settings)));
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
  static std::uint64_t state_digest(const HeldLossScale& held) { return detail::state_digest(of(held)); }
  static void load_state_dict(HeldLossScale& held, const StateDict& dict) {
    if constexpr (is_detected_v<state_t, Policy>) return put(held, Policy::from_state_dict(dict));
    throw_none("from_state_dict", name());
  }

  // Not constant, for linkers may fold equal constants into one.
  static inline HeldKind kind = {loss_scale,
                                 adjust<bool>,
                                 adjust<const GradientReport&>,
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
                                 state_digest,
                                 load_state_dict};
};

template <class Policy>
[[nodiscard]] HeldLossScale held(const Policy& policy) {
  HeldLossScale result;
  Held<Policy>::put(result, policy);
  return result;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
