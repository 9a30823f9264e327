#pragma once

#include <headroom/policy/any.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/policies.hpp"

namespace support {

/// Sets the fields of a configuration that are not in its LossScaleConfig.
struct SetOwnFields {
  std::int32_t count;
  double share;
  bool flag;

  void set(std::int32_t& field) const { field = count; }
  void set(double& field) const { field = share; }
  void set(float& field) const { field = 40000.0F; }
  void set(bool& field) const { field = flag; }
  template <class Config>
  void operator()(Config& config) const {
    if constexpr (!std::is_same_v<Config, headroom::LossScaleConfig>) {
      Config::fields([&](const char*, auto member, auto...) { set(config.*member); });
    }
  }
};
template <class Policy>
using config_t = typename Policy::Config;
template <class Policy>
Policy adaptive(const headroom::LossScaleConfig& scale, SetOwnFields set) {
  typename Policy::Config config;
  headroom::detail::loss_scale_config(config) = scale;
  set(config);
  return Policy(config);
}

template <class... Types>
struct TypeList {};
/// The types of headroom's policies.
using PolicyTypes =
    TypeList<headroom::NoOpLossScale, headroom::ConstantLossScale, headroom::DynamicLossScale, headroom::HysteresisScale,
             headroom::BasicHysteresisScale<headroom::RefillOnGrowth>,
             headroom::BasicHysteresisScale<headroom::RefillOnBackoff>, headroom::AmaxLossScale, headroom::DeepSpeedLossScale,
             headroom::CerebrasLossScale, headroom::FairseqLossScale, headroom::PaddleLossScale>;

template <class Policy, class... Policies>
constexpr bool is_among(TypeList<Policies...>) {
  return (std::is_same_v<Policy, Policies> || ...);
}

/// Calls `use` with the policy in `any`. Returns false, without a call, if its type is not in the list.
template <class Use, class... Policies>
bool visit(const headroom::AnyLossScale& any, Use use, TypeList<Policies...>) {
  return ((any.holds<Policies>() && (use(any.get<Policies>()), true)) || ...);
}
template <class Use>
void visit(const headroom::AnyLossScale& any, Use use) {
  REQUIRE(visit(any, use, PolicyTypes()));
}

/// Calls `use` with one policy of each type that has a configuration, with these settings.
template <class Use, class... Policies>
void for_each_adaptive(const headroom::LossScaleConfig& scale, SetOwnFields set, Use use, TypeList<Policies...>) {
  std::vector<std::string> used;
  const auto use_one = [&](auto type) {
    using Policy = typename decltype(type)::type;
    if constexpr (headroom::detail::is_detected_v<config_t, Policy>) {
      if (std::find(used.begin(), used.end(), Policy::policy_name()) != used.end()) return;
      used.push_back(Policy::policy_name());
      use(adaptive<Policy>(scale, set));
    }
  };
  (use_one(std::enable_if<true, Policies>()), ...);
}
template <class Use>
void for_each_adaptive(const headroom::LossScaleConfig& scale, SetOwnFields set, Use use) {
  for_each_adaptive(scale, set, use, PolicyTypes());
}

/// One policy of each kind. No setting has its default value, and every counter leaves 0 within a few steps.
inline std::vector<headroom::AnyLossScale> every_policy() {
  headroom::LossScaleConfig scale;
  scale.initial_scale = 1000.0F;
  scale.growth_interval = 5;
  scale.growth_factor = 1.7;
  scale.backoff_factor = 0.3;
  scale.min_scale = 0.0123F;
  scale.max_scale = 12345.678F;
  std::vector<headroom::AnyLossScale> policies = {headroom::NoOpLossScale(), headroom::ConstantLossScale(0.1F)};
  for_each_adaptive(scale, {3, 0.1, true}, [&](const auto& policy) { policies.emplace_back(policy); });
  return policies;
}

}  // namespace support
