#pragma once

#include <headroom/detail/detect.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/policy/amax.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/report.hpp>
#include <headroom/state/fields.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

template <class P>
using from_state_t = decltype(P::from_state_dict(std::declval<const P&>().state_dict()));
template <class P>
using with_settings_t = decltype(std::declval<const P&>().with_settings(StateDict()));

/// The address of this variable identifies a type. It is not const, because linkers may merge equal constants.
template <class>
inline char address_of_type = 0;

}  // namespace detail

/// Holds any policy, chosen at run time: one of headroom's or of your own. If it holds a NoOpLossScale, verbs multiply by 1.
///
/// A policy of your own must meet is_loss_scale_v, and its functions must not throw. The members below need `with_settings`, or
/// `state_dict` and `from_state_dict`, of the held policy. They read settings, counter, scale and name from its state, under
/// the keys of headroom's policies. `==` compares the states; policies without one are never equal. Copies share the held
/// policy, which never changes. Each `adjust` allocates the next one.
class AnyLossScale : public LossScaleVerbs<AnyLossScale> {
 public:
  // Separate conditions, so that copying an AnyLossScale does not ask is_loss_scale_v of an incomplete type.
  template <class Policy = DynamicLossScale, std::enable_if_t<!std::is_same_v<Policy, AnyLossScale>, int> = 0,
            std::enable_if_t<is_loss_scale_v<Policy>, int> = 0>
  AnyLossScale(const Policy& policy = Policy()) : held_(std::make_shared<HeldAs<Policy>>(policy)) {}

  [[nodiscard]] float loss_scale() const noexcept { return held_->loss_scale(); }
  [[nodiscard]] AnyLossScale adjust(bool grads_finite) const noexcept { return held_->adjust(grads_finite); }
  [[nodiscard]] AnyLossScale adjust(const GradientReport& report) const noexcept { return held_->adjust(report); }

  /// Whether the policy has a LossScaleConfig. NoOpLossScale and ConstantLossScale have none.
  [[nodiscard]] bool has_config() const { return held_->state_dict().contains("growth_interval"); }

  // The following members throw std::logic_error naming the policy if it has no settings, counter, or scale to set.

  /// The LossScaleConfig of the policy. For other settings, such as hysteresis, use get<Policy>().config().
  [[nodiscard]] LossScaleConfig config() const {
    LossScaleConfig config;
    detail::StateReader(state_with("config", "growth_interval")).read(config);
    return config;
  }
  [[nodiscard]] std::int64_t counter() const { return state_with("counter", "counter").at("counter").integer(); }
  /// The same policy with another scale. Throws std::invalid_argument if the policy cannot have it.
  [[nodiscard]] AnyLossScale with_loss_scale(const float& scale) const {
    StateDict state = state_with("with_loss_scale", "loss_scale");
    state.set("loss_scale", scale);
    return held_->from_state_dict(state);
  }
  /// The same policy with this LossScaleConfig; the rest stays. Throws std::invalid_argument if a setting is out of range.
  [[nodiscard]] AnyLossScale with_config(const LossScaleConfig& config) const {
    StateDict state = state_with("with_config", "growth_interval");
    detail::write_fields(state, config);
    return held_->from_state_dict(state);
  }
  /// A new policy with some settings changed: see BasicDynamicLossScale::with_settings.
  [[nodiscard]] AnyLossScale with_settings(const StateDict& settings) const { return held_->with_settings(settings); }

  template <class Policy>
  [[nodiscard]] bool holds() const noexcept {
    return held_->type() == &detail::address_of_type<Policy>;
  }
  /// A copy of the held policy. Throws std::invalid_argument if it is of another type.
  template <class Policy>
  [[nodiscard]] Policy get() const {
    if (!holds<Policy>()) detail::throw_invalid_argument({"the policy is '", policy_name(), "', not of the type asked for"});
    return static_cast<const HeldAs<Policy>&>(*held_).policy;
  }

  /// The text under "policy" in its state, or "(of your own)".
  [[nodiscard]] std::string policy_name() const { return name_in(held_->state_dict()); }
  [[nodiscard]] StateDict state_dict() const {
    StateDict state = held_->state_dict();
    if (state.empty()) throw_none("state_dict", state);
    return state;
  }
  /// The digest of the policy's state, or of its scale if it has no state. Ranks compare it.
  [[nodiscard]] std::uint64_t state_digest() const {
    const StateDict state = held_->state_dict();
    return digest(state.empty() ? StateDict{{"loss_scale", loss_scale()}} : state);
  }
  /// Continues from the state of any of headroom's policies, or of a scaler. Use your own policy's from_state_dict for its
  /// states. Throws std::invalid_argument naming key and value if one is missing, unknown, of another type or out of range. A
  /// template, so that only callers compile all policies.
  template <class Table = void>
  [[nodiscard]] static AnyLossScale from_state_dict(const StateDict& dict);

  friend bool operator==(const AnyLossScale& a, const AnyLossScale& b) {
    const StateDict state = a.held_->state_dict();
    return a.held_->type() == b.held_->type() && !state.empty() && state == b.held_->state_dict();
  }
  friend bool operator!=(const AnyLossScale& a, const AnyLossScale& b) { return !(a == b); }

 private:
  /// Functions that the policy lacks throw std::logic_error naming it.
  struct Held {
    virtual ~Held() = default;
    [[nodiscard]] virtual const void* type() const noexcept = 0;
    [[nodiscard]] virtual float loss_scale() const noexcept = 0;
    [[nodiscard]] virtual AnyLossScale adjust(bool grads_finite) const noexcept = 0;
    [[nodiscard]] virtual AnyLossScale adjust(const GradientReport& report) const noexcept = 0;
    [[nodiscard]] virtual StateDict state_dict() const = 0;
    [[nodiscard]] virtual AnyLossScale from_state_dict(const StateDict& dict) const = 0;
    [[nodiscard]] virtual AnyLossScale with_settings(const StateDict& settings) const = 0;
  };
  template <class Policy>
  struct HeldAs final : Held {
    explicit HeldAs(const Policy& held) : policy(held) {}

    const void* type() const noexcept override { return &detail::address_of_type<Policy>; }
    float loss_scale() const noexcept override { return policy.loss_scale(); }
    AnyLossScale adjust(bool grads_finite) const noexcept override { return policy.adjust(grads_finite); }
    AnyLossScale adjust(const GradientReport& report) const noexcept override { return policy.adjust(report); }
    StateDict state_dict() const override {
      if constexpr (detail::is_detected_v<detail::from_state_t, Policy>) return policy.state_dict();
      return {};
    }
    AnyLossScale from_state_dict([[maybe_unused]] const StateDict& dict) const override {
      if constexpr (detail::is_detected_v<detail::from_state_t, Policy>) return Policy::from_state_dict(dict);
      throw_none("from_state_dict", {});
    }
    AnyLossScale with_settings([[maybe_unused]] const StateDict& settings) const override {
      if constexpr (detail::is_detected_v<detail::with_settings_t, Policy>) return policy.with_settings(settings);
      throw_none("with_settings", state_dict());
    }

    const Policy policy;
  };

  [[nodiscard]] static std::string name_in(const StateDict& state) {
    const StateValue* name = state.find("policy");
    return name != nullptr && name->is_text() ? name->text() : "(of your own)";
  }
  [[noreturn]] static void throw_none(const char* member, const StateDict& state) {
    detail::throw_logic_error({member, ": the policy '", name_in(state), "' has none"});
  }
  [[nodiscard]] StateDict state_with(const char* member, const char* key) const {
    StateDict state = held_->state_dict();
    if (!state.contains(key)) throw_none(member, state);
    return state;
  }

  std::shared_ptr<const Held> held_;
};

namespace detail {

struct NamedLossScale {
  const char* name;
  AnyLossScale (*make)();
};
/// The policies that make_loss_scale knows. A template for the reason given at from_state_dict.
template <class>
inline constexpr NamedLossScale named_loss_scales[] = {
    {"noop", [] { return AnyLossScale(NoOpLossScale()); }},
    {"constant", [] { return AnyLossScale(ConstantLossScale(LossScaleConfig{}.initial_scale)); }},
    {"dynamic", [] { return AnyLossScale(DynamicLossScale()); }},
    {"hysteresis", [] { return AnyLossScale(HysteresisScale()); }},
    {"hysteresis_refill_on_growth", [] { return AnyLossScale(BasicHysteresisScale<RefillOnGrowth>()); }},
    {"hysteresis_refill_on_backoff", [] { return AnyLossScale(BasicHysteresisScale<RefillOnBackoff>()); }},
    {"amax", [] { return AnyLossScale(AmaxLossScale()); }},
    {"torch", [] { return AnyLossScale(presets::torch()); }},
    {"apex", [] { return AnyLossScale(presets::apex()); }},
    {"megatron", [] { return AnyLossScale(presets::megatron()); }},
    {"deepspeed", [] { return AnyLossScale(presets::deepspeed()); }},
    {"cerebras_fp16", [] { return AnyLossScale(presets::cerebras_fp16()); }},
    {"cerebras_cbfloat16", [] { return AnyLossScale(presets::cerebras_cbfloat16()); }},
    {"fairseq", [] { return AnyLossScale(presets::fairseq()); }},
    {"jmp", [] { return AnyLossScale(presets::jmp()); }},
    {"eformer", [] { return AnyLossScale(presets::eformer()); }},
    {"emily", [] { return AnyLossScale(presets::emily()); }},
    {"flax", [] { return AnyLossScale(presets::flax()); }},
    {"keras", [] { return AnyLossScale(presets::keras()); }},
    {"paddle", [] { return AnyLossScale(presets::paddle()); }},
};

}  // namespace detail

/// The names that make_loss_scale knows: headroom's own policies and the presets.
template <class Table = void>
[[nodiscard]] std::vector<std::string> loss_scale_names() {
  std::vector<std::string> names;
  for (const auto& named : detail::named_loss_scales<Table>) names.emplace_back(named.name);
  return names;
}

/// A policy by name, with some of its settings changed: make_loss_scale("deepspeed", {{"growth_interval", 500}}). Throws
/// std::invalid_argument listing all names if `name` is unknown, or naming a setting that is unknown or out of range.
template <class Table = void>
[[nodiscard]] AnyLossScale make_loss_scale(std::string_view name, const StateDict& settings = StateDict()) {
  std::string known;
  for (const auto& named : detail::named_loss_scales<Table>) {
    if (name == named.name) return settings.empty() ? named.make() : named.make().with_settings(settings);
    known += detail::concat({known.empty() ? "" : ", ", named.name});
  }
  detail::throw_invalid_argument({"there is no policy '", name, "'; known are ", known});
}

template <class Table>
AnyLossScale AnyLossScale::from_state_dict(const StateDict& dict) {
  const StateValue* found = dict.find("policy");
  if (found == nullptr) return DynamicLossScale::from_state_dict(dict);  // throws: the key is missing
  for (const auto& named : detail::named_loss_scales<Table>) {
    const AnyLossScale policy = named.make();
    if (*found == StateValue(policy.policy_name())) return policy.held_->from_state_dict(dict);
  }
  (void)detail::StateReader(dict, name_in(dict));  // throws if the version is wrong
  detail::throw_invalid_argument({"policy is ", detail::to_text(*found), ", which is none of headroom's"});
}

HEADROOM_DETAIL_END_NAMESPACE
