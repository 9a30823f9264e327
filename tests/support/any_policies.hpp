#pragma once

#include <headroom/policy/any.hpp>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

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

template <class... Types>
struct TypeList {};
/// The types of headroom's policies.
using PolicyTypes =
    TypeList<headroom::NoOpLossScale, headroom::ConstantLossScale, headroom::DynamicLossScale,
             headroom::HysteresisScale, headroom::BasicHysteresisScale<headroom::RefillOnGrowth>,
             headroom::BasicHysteresisScale<headroom::RefillOnBackoff>, headroom::AmaxLossScale,
             headroom::DeepSpeedLossScale, headroom::CerebrasLossScale, headroom::FairseqLossScale,
             headroom::PaddleLossScale>;

/// Calls `use` with the policy in `any`, which is one of headroom's.
template <class Use, class... Policies>
void visit(const headroom::AnyLossScale& any, Use use, TypeList<Policies...>) {
  REQUIRE(((any.holds<Policies>() && (use(any.get<Policies>()), true)) || ...));
}
template <class Use>
void visit(const headroom::AnyLossScale& any, Use use) {
  visit(any, use, PolicyTypes());
}

/// Calls `use` with one policy of each type that has a configuration, with these settings.
template <class Use, class... Policies>
void for_each_adaptive(const headroom::LossScaleConfig& scale, SetOwnFields set, Use use,
                       TypeList<Policies...>) {
  const auto use_one = [&](auto type) {
    using Policy = typename decltype(type)::type;
    if constexpr (headroom::detail::is_detected_v<config_t, Policy>) {
      typename Policy::Config config;
      headroom::detail::loss_scale_config(config) = scale;
      set(config);
      use(Policy(config));
    }
  };
  (use_one(std::enable_if<true, Policies>()), ...);
}
template <class Use>
void for_each_adaptive(const headroom::LossScaleConfig& scale, SetOwnFields set, Use use) {
  for_each_adaptive(scale, set, use, PolicyTypes());
}

/// One policy of each kind. No setting has its default value, and every counter leaves 0 within a
/// few steps.
inline std::vector<headroom::AnyLossScale> every_policy() {
  const headroom::LossScaleConfig scale{1000.0F, 5, 1.7, 0.3, 0.0123F, 12345.678F};
  std::vector<headroom::AnyLossScale> policies = {headroom::NoOpLossScale(),
                                                  headroom::ConstantLossScale(0.1F)};
  for_each_adaptive(scale, {3, 0.1, true},
                    [&](const auto& policy) { policies.emplace_back(policy); });
  return policies;
}

}  // namespace support
