#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/held.hpp>
#include <headroom/policy/registry.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/report.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {

class AnyLossScale;

namespace detail {

[[nodiscard]] inline AnyLossScale any_of(const HeldLossScale& held) noexcept;

template <class Policy, class Any>
inline constexpr bool can_be_held = is_loss_scale_v<Policy>;
template <class Any>
inline constexpr bool can_be_held<Any, Any> = false;

}  // namespace detail

/// Any policy, chosen at run time: one of headroom's or of your own, trivially copyable and of at most 248 bytes. With a
/// NoOpLossScale in it, scaling multiplies by 1, while NoOpLossScale by itself does nothing.
///
/// A policy of your own only has to be one (is_loss_scale_v) whose functions throw nothing. Whatever else it has is used: `==`
/// (otherwise two are equal if their bytes are; clang counts padding, so there a struct with gaps needs one), `config()`
/// returning a LossScaleConfig or a struct with one in it, `with_config`, `counter()`, `with_loss_scale`, `with_settings`, and
/// `state_dict()` with a static `from_state_dict`; to load states it has to be registered, see register_loss_scale. A shared
/// library that hides its symbols does not recognise the types of policies made elsewhere: they work there, but `get` throws
/// and `==` is false.
class AnyLossScale : public LossScaleVerbs<AnyLossScale> {
 public:
  template <class Policy = DynamicLossScale, std::enable_if_t<detail::can_be_held<Policy, AnyLossScale>, int> = 0>
  AnyLossScale(const Policy& policy = Policy()) : held_(detail::held(policy)) {}

  [[nodiscard]] float loss_scale() const noexcept { return held_.kind->loss_scale(held_); }
  [[nodiscard]] float inv_scale() const noexcept { return 1.0F / loss_scale(); }
  [[nodiscard]] AnyLossScale adjust(bool grads_finite) const noexcept {
    return changed(held_.kind->adjust, held_, grads_finite);
  }
  [[nodiscard]] AnyLossScale adjust(const GradientReport& report) const noexcept {
    return changed(held_.kind->adjust_by_report, held_, report);
  }

  /// Whether it holds a policy with settings, as all that adapt have. NoOpLossScale and ConstantLossScale have none.
  [[nodiscard]] bool has_config() const noexcept { return held_.kind->has_config; }

  // The following members ask the policy itself, and throw std::logic_error naming the policy if it has no such thing.

  /// The settings that all policies share. Others, a hysteresis say, are in get<Policy>().config().
  [[nodiscard]] LossScaleConfig config() const { return held_.kind->config(held_); }
  [[nodiscard]] std::int64_t counter() const { return held_.kind->counter(held_); }
  /// The same policy with another scale. Throws std::invalid_argument if the policy cannot have it.
  [[nodiscard]] AnyLossScale with_loss_scale(const float& scale) const { return changed(held_.kind->set_loss_scale, scale); }
  /// The same policy with other settings: either the shared ones, in which case the rest stays, or the whole configuration of
  /// the policy, HysteresisConfig say. Throws std::invalid_argument if one is out of range, or the policy has another kind of
  /// configuration.
  [[nodiscard]] AnyLossScale with_config(const LossScaleConfig& config) const {
    return changed(held_.kind->set_config, &config, &detail::address_of_type<LossScaleConfig>);
  }
  template <class Config>
  [[nodiscard]] auto with_config(const Config& config) const
      -> std::enable_if_t<std::is_same_v<std::decay_t<decltype(config.scale)>, LossScaleConfig>, AnyLossScale> {
    return changed(held_.kind->set_config, &config, &detail::address_of_type<Config>);
  }
  /// The policy as it starts with other settings, by name: see BasicDynamicLossScale::with_settings. For a policy of your own
  /// without `with_settings` they are entries of its state.
  [[nodiscard]] AnyLossScale with_settings(const StateDict& settings) const {
    return changed(held_.kind->set_settings, settings);
  }

  /// Whether the policy is of this type.
  template <class Policy>
  [[nodiscard]] bool holds() const noexcept {
    return detail::Held<Policy>::is_in(held_);
  }
  /// The policy itself. Throws std::invalid_argument if it is of another type.
  template <class Policy>
  [[nodiscard]] Policy get() const {
    using Held = detail::Held<Policy>;
    if (!holds<Policy>()) detail::throw_invalid_argument({"the policy is '", policy_name(), "', not '", Held::name(), "'"});
    return Held::of(held_);
  }

  /// The name in its states; for a policy of your own its `policy_name()`, or the name it is registered by.
  [[nodiscard]] std::string policy_name() const { return held_.kind->name(); }
  /// The policy's own state, with "version" and "policy" added if it lacks them.
  [[nodiscard]] StateDict state_dict() const { return detail::state_of(held_); }
  /// Of the policy's own state, or of its scale if it has none: what ranks compare.
  [[nodiscard]] std::uint64_t state_digest() const { return held_.kind->state_digest(held_); }
  /// The policy of this state, of whatever kind; a scaler's state will do; its SpikeGuards are ignored. Throws
  /// std::invalid_argument naming key and value if one is missing, unknown, of another type or out of range. (A template, so
  /// that only its callers compile all policies.)
  template <class Systems = detail::AllSystems>
  [[nodiscard]] static AnyLossScale from_state_dict(const StateDict& dict) {
    return AnyLossScale(detail::load_state<Systems>(dict));
  }

  friend bool operator==(const AnyLossScale& a, const AnyLossScale& b) noexcept {
    return a.held_.kind->equal(a.held_, b.held_);
  }
  friend bool operator!=(const AnyLossScale& a, const AnyLossScale& b) noexcept { return !(a == b); }

 private:
  friend AnyLossScale detail::any_of(const detail::HeldLossScale& held) noexcept;

  explicit AnyLossScale(const detail::HeldLossScale& held) noexcept : held_(held) {}

  template <class Change, class... Args>
  [[nodiscard]] AnyLossScale changed(Change change, const Args&... args) const {
    AnyLossScale next = *this;
    change(next.held_, args...);
    return next;
  }

  detail::HeldLossScale held_;
};

namespace detail {

inline AnyLossScale any_of(const HeldLossScale& held) noexcept { return AnyLossScale(held); }

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
