#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/policy/registry.hpp>
#include <headroom/state/fields.hpp>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The names make_loss_scale knows: "noop", "constant", "dynamic", "hysteresis", "hysteresis_refill_on_growth",
/// "hysteresis_refill_on_backoff", "amax", the presets, and those that are registered.
template <class Systems = detail::AllSystems>
[[nodiscard]] std::vector<std::string> loss_scale_names() {
  std::vector<std::string> names;
  (void)detail::find_loss_scale<Systems>([&names](std::string_view name, const detail::HeldLossScale&) {
    names.emplace_back(name);
    return false;
  });
  return names;
}

/// A policy by name, for configuration files, with its own settings: see loss_scale_names. Throws std::invalid_argument listing
/// the names if `name` is none of them.
template <class Systems = detail::AllSystems>
[[nodiscard]] AnyLossScale make_loss_scale(std::string_view name) {
  std::string known;
  const auto found = detail::find_loss_scale<Systems>([&](std::string_view other, const detail::HeldLossScale&) {
    known += detail::concat({known.empty() ? "" : ", ", other});
    return name == other;
  });
  if (found.kind == nullptr) detail::throw_invalid_argument({"there is no policy '", name, "'; known are ", known});
  return detail::any_of(found);
}

/// The same with some settings changed, by their names in the configuration: {{"growth_interval", 500}}. Throws
/// std::invalid_argument naming the key and its value if the policy has no such setting or it is out of range.
template <class Systems = detail::AllSystems>
[[nodiscard]] AnyLossScale make_loss_scale(std::string_view name, const StateDict& settings) {
  return make_loss_scale<Systems>(name).with_settings(settings);
}
/// The same with your own configuration in place of the preset's: a LossScaleConfig for any of them ("constant" takes its
/// initial_scale), or the kind the policy itself has, HysteresisConfig say.
template <class Config>
[[nodiscard]] auto make_loss_scale(std::string_view name, const Config& config)
    -> std::enable_if_t<std::is_same_v<decltype(detail::loss_scale_config(config)), const LossScaleConfig&>, AnyLossScale> {
  detail::check(config);
  const LossScaleConfig& common = detail::loss_scale_config(config);
  const AnyLossScale policy = make_loss_scale(name);
  if (policy == AnyLossScale(NoOpLossScale())) return policy;
  if (!policy.has_config()) return policy.with_settings({{"initial_scale", common.initial_scale}});
  detail::StateWriter write;
  detail::visit_config(config, write);
  StateDict settings = write.take();
  settings.set("refuse_infinite_growth", common.refuse_infinite_growth);
  const StateDict state = policy.state_dict();
  for (const auto& [key, value] : settings) {
    if (!state.contains(key) && key != "refuse_infinite_growth") {
      detail::throw_invalid_argument({"the policy '", name, "' has another kind of configuration"});
    }
  }
  return policy.with_settings(settings);
}

/// Makes a policy of your own known to make_loss_scale and AnyLossScale::from_state_dict, by any thread, for the rest of the
/// program: `register_loss_scale<MyPolicy>("mine")`, or with settings of its own, `register_loss_scale("mine", MyPolicy(3))`.
/// See AnyLossScale for what it uses of such a policy. Translation units built with different flags know only their own. Throws
/// std::invalid_argument if another policy has the name.
template <class Policy>
void register_loss_scale(const std::string& name, const Policy& policy = Policy()) {
  detail::register_held<detail::AllSystems>(name, detail::held(policy));
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
