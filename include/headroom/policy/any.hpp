#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/noop.hpp>
#include <headroom/policy/presets.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// Whether a policy has settings and counts steps.
template <class Policy>
inline constexpr bool is_adaptive_v = false;
template <class Growth, class Backoff>
inline constexpr bool is_adaptive_v<BasicDynamicLossScale<Growth, Backoff>> = true;

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_none(const char* member, const std::string& policy) {
  throw_logic_error(std::string(member) + ": the policy '" + policy + "' has none");
}

/// What `use` returns of the policy in a variant. Throws std::logic_error naming the policy where that does not adapt.
template <class Result, class Variant, class Use>
[[nodiscard]] constexpr Result of_adaptive(const char* member, const Variant& variant, Use use) {
  return std::visit(
      [&](const auto& policy) -> Result {
        if constexpr (is_adaptive_v<std::decay_t<decltype(policy)>>) {
          return use(policy);
        } else {
          throw_none(member, policy.policy_name());
        }
      },
      variant);
}

}  // namespace detail

/// Any of headroom's policies, chosen at run time, with the members that all of them have. DynamicLossScale unless said
/// otherwise. Where it holds a NoOpLossScale, scaling is a multiplication by 1, where NoOpLossScale by itself does nothing.
class AnyLossScale : public LossScaleVerbs<AnyLossScale> {
 public:
  using Variant = std::variant<NoOpLossScale, ConstantLossScale, DynamicLossScale, HysteresisScale,
                               BasicHysteresisScale<RefillOnGrowth>, BasicHysteresisScale<RefillOnBackoff>, DeepSpeedLossScale,
                               DelayedShiftLossScale, CerebrasLossScale, FairseqLossScale, MetaseqLossScale>;

  constexpr AnyLossScale() : policy_(DynamicLossScale()) {}
  template <class Policy, std::enable_if_t<!std::is_same_v<Policy, AnyLossScale> &&
                                               std::is_constructible_v<Variant, std::in_place_type_t<Policy>, const Policy&>,
                                           int> = 0>
  constexpr AnyLossScale(const Policy& policy) : policy_(std::in_place_type<Policy>, policy) {}

  [[nodiscard]] constexpr float loss_scale() const noexcept {
    return std::visit([](const auto& policy) { return policy.loss_scale(); }, policy_);
  }
  [[nodiscard]] constexpr float inv_scale() const noexcept {
    return std::visit([](const auto& policy) { return policy.inv_scale(); }, policy_);
  }
  [[nodiscard]] constexpr AnyLossScale adjust(bool grads_finite) const noexcept {
    AnyLossScale next = *this;
    std::visit([grads_finite](auto& policy) { policy = policy.adjust(grads_finite); }, next.policy_);
    return next;
  }
  [[nodiscard]] constexpr AnyLossScale adjust(const GradientReport& report) const noexcept { return adjust(report.finite); }

  /// Whether it holds a policy that adapts: one with settings and a counter. NoOpLossScale and ConstantLossScale do not.
  [[nodiscard]] constexpr bool has_config() const noexcept {
    return std::visit([](const auto& policy) { return detail::is_adaptive_v<std::decay_t<decltype(policy)>>; }, policy_);
  }
  // What follows is what the policy itself says, and throws std::logic_error naming the policy where that has no such thing.

  /// The settings that all of them share. What else the policy has, a hysteresis say, is in get<Policy>().config().
  [[nodiscard]] constexpr LossScaleConfig config() const {
    return detail::of_adaptive<LossScaleConfig>("config", policy_,
                                                [](const auto& policy) { return detail::loss_scale_config(policy.config()); });
  }
  [[nodiscard]] constexpr std::int64_t counter() const {
    return detail::of_adaptive<std::int64_t>("counter", policy_, [](const auto& policy) { return policy.counter(); });
  }
  /// The same policy with another scale. Throws std::invalid_argument where the policy cannot have that.
  [[nodiscard]] constexpr AnyLossScale with_loss_scale(const float& scale) const {
    return std::visit(
        [&](const auto& policy) -> AnyLossScale {
          if constexpr (std::is_same_v<std::decay_t<decltype(policy)>, NoOpLossScale>) {
            detail::throw_none("with_loss_scale", policy.policy_name());
          } else {
            return policy.with_loss_scale(scale);
          }
        },
        policy_);
  }
  /// The same policy with other settings: those that all of them share, where the rest stays, or all of its own,
  /// HysteresisConfig say. Throws std::invalid_argument where one is out of range, or the policy has another kind of
  /// configuration.
  [[nodiscard]] constexpr AnyLossScale with_config(const LossScaleConfig& config) const {
    return detail::of_adaptive<AnyLossScale>("with_config", policy_, [&](const auto& policy) {
      auto changed = policy.config();
      detail::loss_scale_config(changed) = config;
      return policy.with_config(changed);
    });
  }
  template <class Config>
  [[nodiscard]] constexpr auto with_config(const Config& config) const
      -> std::enable_if_t<std::is_same_v<decltype(config.scale), LossScaleConfig>, AnyLossScale> {
    return detail::of_adaptive<AnyLossScale>("with_config", policy_, [&](const auto& policy) -> AnyLossScale {
      if constexpr (std::is_same_v<std::decay_t<decltype(policy.config())>, Config>) {
        return policy.with_config(config);
      } else {
        detail::throw_invalid_argument("with_config: the policy '" + policy.policy_name() +
                                       "' has another kind of configuration");
      }
    });
  }

  /// The policy itself. Throws std::invalid_argument where it is of another kind.
  template <class Policy>
  [[nodiscard]] Policy get() const {
    const Policy* policy = std::get_if<Policy>(&policy_);
    if (policy == nullptr)
      detail::throw_invalid_argument("the policy is '" + policy_name() + "', not '" + Policy::policy_name() + "'");
    return *policy;
  }
  /// For std::visit, std::get_if and std::holds_alternative.
  [[nodiscard]] constexpr const Variant& policy() const& noexcept { return policy_; }
  [[nodiscard]] constexpr Variant policy() && noexcept { return policy_; }

  [[nodiscard]] std::string policy_name() const {
    return std::visit([](const auto& policy) { return policy.policy_name(); }, policy_);
  }
  [[nodiscard]] StateDict state_dict() const {
    return std::visit([](const auto& policy) { return policy.state_dict(); }, policy_);
  }
  /// The policy whose state this is, of whichever kind; that of a scaler will do. Throws std::invalid_argument that names key
  /// and value where one is missing, unknown, of another type or out of range.
  [[nodiscard]] static AnyLossScale from_state_dict(const StateDict& dict) {
    return from_state_dict(dict, static_cast<const Variant*>(nullptr));
  }

  friend constexpr bool operator==(const AnyLossScale& a, const AnyLossScale& b) noexcept { return a.policy_ == b.policy_; }
  friend constexpr bool operator!=(const AnyLossScale& a, const AnyLossScale& b) noexcept { return !(a == b); }

 private:
  template <class... Policies>
  static AnyLossScale from_state_dict(const StateDict& dict, const std::variant<Policies...>*) {
    detail::StateReader::check_version(dict);
    const StateValue& name = dict.at("policy");
    AnyLossScale loaded;
    std::string known;
    const auto load = [&](auto type) {
      using Policy = typename decltype(type)::type;
      known += (known.empty() ? "" : ", ") + Policy::policy_name();
      if (name != StateValue(Policy::policy_name())) return false;
      loaded = Policy::from_state_dict(dict);
      return true;
    };
    if (!(load(std::enable_if<true, Policies>()) || ...)) {
      detail::throw_invalid_argument("policy is " + detail::to_text(name) + "; it must be one of " + known);
    }
    return loaded;
  }

  Variant policy_;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
