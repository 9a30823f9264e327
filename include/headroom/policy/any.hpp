#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/policy/held.hpp>
#include <headroom/policy/registry.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/report.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

template <class Policy, class Any>
inline constexpr bool can_be_held = is_loss_scale_v<Policy>;
template <class Any>
inline constexpr bool can_be_held<Any, Any> = false;
struct AnyAccess;

}  // namespace detail

/// Any policy, chosen at run time: one of headroom's, or one of your own that is trivially copyable and has at most 128 bytes.
/// It holds a DynamicLossScale by default. With a NoOpLossScale in it, scaling multiplies by 1, while NoOpLossScale by itself
/// does nothing.
///
/// A policy of your own only has to be one (is_loss_scale_v). Whatever else it has is used: `==` (otherwise two are equal if
/// their bytes are), `config()` returning a LossScaleConfig or a struct with one in it, `with_config`, `counter()`,
/// `with_loss_scale`, `with_settings`, and `state_dict()` with a static `from_state_dict`; to load states it has to be
/// registered, see register_loss_scale.
class AnyLossScale : public LossScaleVerbs<AnyLossScale> {
 public:
  /// The policies of headroom's own.
  using Variant = detail::VariantLossScale;

  constexpr AnyLossScale() : AnyLossScale(DynamicLossScale()) {}
  template <class Policy, std::enable_if_t<detail::can_be_held<Policy, AnyLossScale>, int> = 0>
  constexpr AnyLossScale(const Policy& policy) {
    detail::Held<Policy>::put(held_, policy);
  }

  [[nodiscard]] constexpr float loss_scale() const noexcept { return held_.kind->loss_scale(held_); }
  [[nodiscard]] constexpr float inv_scale() const noexcept { return 1.0F / loss_scale(); }
  [[nodiscard]] constexpr AnyLossScale adjust(bool grads_finite) const noexcept {
    return changed(held_.kind->adjust, grads_finite);
  }
  [[nodiscard]] constexpr AnyLossScale adjust(const GradientReport& report) const noexcept {
    return changed(held_.kind->adjust_by_report, report);
  }

  /// Whether it holds a policy with settings, as all that adapt have. NoOpLossScale and ConstantLossScale have none.
  [[nodiscard]] constexpr bool has_config() const noexcept { return held_.kind->has_config; }

  // The following members ask the policy itself, and throw std::logic_error naming the policy if it has no such thing.

  /// The settings that all policies share. Others, a hysteresis say, are in get<Policy>().config().
  [[nodiscard]] constexpr LossScaleConfig config() const { return held_.kind->config(held_); }
  [[nodiscard]] constexpr std::int64_t counter() const { return held_.kind->counter(held_); }
  /// The same policy with another scale. Throws std::invalid_argument if the policy cannot have it.
  [[nodiscard]] constexpr AnyLossScale with_loss_scale(const float& scale) const {
    return changed(held_.kind->set_loss_scale, scale);
  }
  /// The same policy with other settings: either the shared ones, in which case the rest stays, or the whole configuration of
  /// one of headroom's policies, HysteresisConfig say. Throws std::invalid_argument if one is out of range, or the policy has
  /// another kind of configuration.
  [[nodiscard]] constexpr AnyLossScale with_config(const LossScaleConfig& config) const {
    return changed(held_.kind->set_config, config);
  }
  template <class Config>
  [[nodiscard]] constexpr auto with_config(const Config& config) const
      -> std::enable_if_t<std::is_same_v<std::decay_t<decltype(config.scale)>, LossScaleConfig>, AnyLossScale> {
    if (!has_config()) detail::throw_none("with_config", policy_name());
    return std::visit(
        [&config](const auto& policy) -> AnyLossScale {
          using Policy = std::decay_t<decltype(policy)>;
          if constexpr (detail::is_detected_v<detail::config_t, Policy>) {
            if constexpr (std::is_same_v<typename Policy::Config, Config>) return policy.with_config(config);
          }
          detail::throw_invalid_argument("with_config: the policy '" + policy.policy_name() +
                                         "' has another kind of configuration");
        },
        policy());
  }
  /// The policy as it starts with other settings, by name: see BasicDynamicLossScale::with_settings. For a policy of your own
  /// without `with_settings` they are entries of its state.
  [[nodiscard]] AnyLossScale with_settings(const StateDict& settings) const {
    return changed(held_.kind->set_settings, settings);
  }

  /// The policy itself. Throws std::invalid_argument if it is of another kind.
  template <class Policy>
  [[nodiscard]] Policy get() const {
    using Held = detail::Held<Policy>;
    if (!Held::is_in(held_))
      detail::throw_invalid_argument("the policy is '" + policy_name() + "', not '" + Held::name() + "'");
    return Held::of(held_);
  }
  /// For std::visit, std::get_if and std::holds_alternative. Throws std::logic_error if the policy is one of your own;
  /// get<Policy> returns those.
  [[nodiscard]] constexpr const Variant& policy() const& { return held_.is_own ? throw_own() : held_.policy; }
  [[nodiscard]] constexpr Variant policy() && { return held_.is_own ? throw_own() : held_.policy; }

  /// The name in its states; for a policy of your own its `policy_name()`, or the name it is registered by.
  [[nodiscard]] std::string policy_name() const { return held_.kind->name(); }
  /// The policy's own state, with "version" and "policy" added if it lacks them.
  [[nodiscard]] StateDict state_dict() const { return held_.is_own ? detail::own_state(held_) : held_.kind->state_dict(held_); }
  /// The policy of this state, of whatever kind; a scaler's state will do. Throws std::invalid_argument naming key and value if
  /// one is missing, unknown, of another type or out of range.
  [[nodiscard]] static AnyLossScale from_state_dict(const StateDict& dict) {
    AnyLossScale loaded;
    detail::load_any_state(loaded.held_, dict, Variant());
    return loaded;
  }

  friend constexpr bool operator==(const AnyLossScale& a, const AnyLossScale& b) noexcept {
    return a.held_.kind->equal(a.held_, b.held_);
  }
  friend constexpr bool operator!=(const AnyLossScale& a, const AnyLossScale& b) noexcept { return !(a == b); }

 private:
  friend struct detail::AnyAccess;

  template <class Change, class Argument>
  [[nodiscard]] constexpr AnyLossScale changed(Change change, const Argument& argument) const {
    AnyLossScale next = *this;
    change(next.held_, argument);
    return next;
  }
  [[noreturn]] const Variant& throw_own() const {
    detail::throw_logic_error("policy: the policy '" + policy_name() + "' is of your own: get<Policy>() has it");
  }

  detail::HeldLossScale held_;
};

namespace detail {

/// For the registry, which knows no AnyLossScale.
struct AnyAccess {
  [[nodiscard]] static AnyLossScale make(const HeldLossScale& held) {
    AnyLossScale any;
    any.held_ = held;
    return any;
  }
};

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
