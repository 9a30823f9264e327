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
/// DynamicLossScale unless said otherwise. Where it holds a NoOpLossScale, scaling is a multiplication by 1, where
/// NoOpLossScale by itself does nothing.
///
/// A policy of your own need only be one (is_loss_scale_v). What it has besides is used: `==` (else two are equal where their
/// bytes are), `config()` of a LossScaleConfig or with one in it, `with_config`, `counter()`, `with_loss_scale`,
/// `with_settings`, and `state_dict()` with a static `from_state_dict`, for which it is registered: see register_loss_scale.
class AnyLossScale : public LossScaleVerbs<AnyLossScale> {
 public:
  /// Those of headroom's own.
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

  /// Whether it holds a policy with settings, as those that adapt are. NoOpLossScale and ConstantLossScale have none.
  [[nodiscard]] constexpr bool has_config() const noexcept { return held_.kind->has_config; }

  // What follows is what the policy says itself. It throws std::logic_error naming the policy where that has no such thing.

  /// The settings that all of them share. What else the policy has, a hysteresis say, is in get<Policy>().config().
  [[nodiscard]] constexpr LossScaleConfig config() const { return held_.kind->config(held_); }
  [[nodiscard]] constexpr std::int64_t counter() const { return held_.kind->counter(held_); }
  /// The same policy with another scale. Throws std::invalid_argument where the policy cannot have that.
  [[nodiscard]] constexpr AnyLossScale with_loss_scale(const float& scale) const {
    return changed(held_.kind->set_loss_scale, scale);
  }
  /// The same policy with other settings: those that all of them share, where the rest stays, or all that one of headroom's
  /// has, HysteresisConfig say. Throws std::invalid_argument where one is out of range, or the policy has another kind of
  /// configuration.
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
  /// The policy as it starts with other settings, by name: see BasicDynamicLossScale::with_settings. Of a policy of your own
  /// that has no `with_settings`, they are entries of its state.
  [[nodiscard]] AnyLossScale with_settings(const StateDict& settings) const {
    return changed(held_.kind->set_settings, settings);
  }

  /// The policy itself. Throws std::invalid_argument where it is of another kind.
  template <class Policy>
  [[nodiscard]] Policy get() const {
    using Held = detail::Held<Policy>;
    if (!Held::is_in(held_))
      detail::throw_invalid_argument("the policy is '" + policy_name() + "', not '" + Held::name() + "'");
    return Held::of(held_);
  }
  /// For std::visit, std::get_if and std::holds_alternative. Throws std::logic_error where the policy is of your own, which
  /// get<Policy> returns.
  [[nodiscard]] constexpr const Variant& policy() const& { return held_.is_own ? throw_own() : held_.policy; }
  [[nodiscard]] constexpr Variant policy() && { return held_.is_own ? throw_own() : held_.policy; }

  /// What its states say of themselves; of a policy of your own its `policy_name()`, or the name it is registered by.
  [[nodiscard]] std::string policy_name() const { return held_.kind->name(); }
  /// The policy's own, and "version" and "policy", where it has none of these.
  [[nodiscard]] StateDict state_dict() const { return held_.is_own ? detail::own_state(held_) : held_.kind->state_dict(held_); }
  /// The policy whose state this is, of whichever kind; that of a scaler will do. Throws std::invalid_argument that names key
  /// and value where one is missing, unknown, of another type or out of range.
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
