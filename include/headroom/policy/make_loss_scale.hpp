#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/any.hpp>

#include <string>
#include <string_view>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

struct NamedPolicy {
  const char* name;
  AnyLossScale policy;
};

/// What configuration files may name, with the settings each has of its own.
inline constexpr NamedPolicy named_policies[] = {
    {"noop", NoOpLossScale()},
    {"constant", ConstantLossScale(LossScaleConfig{}.initial_scale)},
    {"dynamic", DynamicLossScale()},
    {"hysteresis", HysteresisScale()},
    {"hysteresis_refill_on_growth", BasicHysteresisScale<RefillOnGrowth>()},
    {"hysteresis_refill_on_backoff", BasicHysteresisScale<RefillOnBackoff>()},
    {"jmp", presets::jmp()},
    {"eformer", presets::eformer()},
    {"emily", presets::emily()},
    {"torch", presets::torch()},
    {"megatron", presets::megatron()},
    {"apex", presets::apex()},
    {"deepspeed", presets::deepspeed()},
    {"deepspeed_0_16", presets::deepspeed_0_16()},
    {"deepspeed_config", presets::deepspeed_config()},
    {"cerebras_fp16", presets::cerebras_fp16()},
    {"cerebras_cbfloat16", presets::cerebras_cbfloat16()},
    {"fairseq", presets::fairseq()},
    {"metaseq", presets::metaseq()},
};

/// `policy` with another configuration: the whole of it, or the part that all policies have.
template <class Config>
struct Reconfigure {
  std::string_view name;
  const Config& config;

  template <class Growth, class Backoff>
  AnyLossScale operator()(const BasicDynamicLossScale<Growth, Backoff>& policy) const {
    auto changed = policy.config();
    if constexpr (std::is_assignable_v<decltype(changed)&, const Config&>) {
      changed = config;
    } else if constexpr (std::is_same_v<Config, LossScaleConfig>) {
      changed.scale = config;
    } else {
      throw_invalid_argument("the policy '" + std::string(name) + "' has another kind of configuration");
    }
    return BasicDynamicLossScale<Growth, Backoff>(changed);
  }
  AnyLossScale operator()(const ConstantLossScale&) const {
    check(config);
    return ConstantLossScale(loss_scale_config(config).initial_scale);
  }
  AnyLossScale operator()(const NoOpLossScale& policy) const {
    check(config);
    return policy;
  }
};

/// `policy` with some of its settings changed.
struct ChangeSettings {
  const StateDict& settings;

  template <class Growth, class Backoff>
  AnyLossScale operator()(const BasicDynamicLossScale<Growth, Backoff>& policy) const {
    auto config = policy.config();
    StateReader read(settings, false);
    visit_config(config, read);
    read.finish();
    return BasicDynamicLossScale<Growth, Backoff>(config);
  }
  AnyLossScale operator()(const ConstantLossScale& policy) const {
    float scale = policy.loss_scale();
    StateReader read(settings, false);
    read("initial_scale", scale);
    read.finish();
    check_loss_scale("initial_scale", scale);
    return ConstantLossScale(scale);
  }
  AnyLossScale operator()(const NoOpLossScale& policy) const {
    StateReader(settings, false).finish();
    return policy;
  }
};

}  // namespace detail

/// A policy by name, for configuration files: "noop", "constant", "dynamic", "hysteresis", "hysteresis_refill_on_growth",
/// "hysteresis_refill_on_backoff", and every preset, with its own settings. Throws std::invalid_argument that lists the names
/// where `name` is none of them.
[[nodiscard]] inline AnyLossScale make_loss_scale(std::string_view name) {
  std::string known;
  for (const auto& [known_name, policy] : detail::named_policies) {
    if (name == known_name) return policy;
    known += (known.empty() ? "" : ", ") + std::string(known_name);
  }
  detail::throw_invalid_argument("there is no policy '" + std::string(name) + "'; known are " + known);
}

/// The same with a configuration of one's own in place of the preset's: LossScaleConfig for any of them ("constant" takes its
/// initial_scale), or the kind that the policy itself has, HysteresisConfig say.
template <class Config>
[[nodiscard]] auto make_loss_scale(std::string_view name, const Config& config)
    -> std::enable_if_t<std::is_same_v<decltype(detail::loss_scale_config(config)), const LossScaleConfig&>, AnyLossScale> {
  return std::visit(detail::Reconfigure<Config>{name, config}, make_loss_scale(name).policy());
}

/// The same with some settings changed, by the names they have in the configuration: {{"growth_interval", 500}}. Throws
/// std::invalid_argument that names the key and its value where the policy has no such setting or it is out of range.
[[nodiscard]] inline AnyLossScale make_loss_scale(std::string_view name, const StateDict& settings) {
  return std::visit(detail::ChangeSettings{settings}, make_loss_scale(name).policy());
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
