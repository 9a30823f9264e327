#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/noop.hpp>
#include <headroom/policy/presets.hpp>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Any of headroom's policies, chosen at run time, with the members that all of them have. DynamicLossScale unless said
/// otherwise. Where it holds a NoOpLossScale, scaling is a multiplication by 1, where NoOpLossScale by itself does nothing.
class AnyLossScale : public LossScaleVerbs<AnyLossScale> {
 public:
  using Variant = std::variant<NoOpLossScale, ConstantLossScale, DynamicLossScale, HysteresisScale,
                               BasicHysteresisScale<RefillOnGrowth>, BasicHysteresisScale<RefillOnBackoff>, DeepSpeedLossScale,
                               CerebrasLossScale, FairseqLossScale, MetaseqLossScale>;

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
