#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/report.hpp>
#include <headroom/tree/facts.hpp>

#include <optional>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What GradScaler::step did. `value` is what the optimizer's own step returned; empty where the step was skipped.
template <class Value>
struct StepResult {
  bool skipped = false;
  GradientReport report{};
  std::optional<Value> value{};
};
template <>
struct StepResult<void> {
  bool skipped = false;
  GradientReport report{};
};

/// The same for a step that clips: `norm` is the L2 norm of the unscaled gradients before they were clipped.
template <class Value>
struct ClippedStepResult : StepResult<Value> {
  double norm = 0.0;
};

namespace detail {

template <class Value>
[[nodiscard]] ClippedStepResult<Value> clipped(StepResult<Value> step, double norm) {
  ClippedStepResult<Value> result;
  static_cast<StepResult<Value>&>(result) = std::move(step);
  result.norm = norm;
  return result;
}

/// A tree as a verb of a policy would return it, but unchanged.
template <class Tree>
auto unmodified(Tree&& tree) {
  using Result = decltype(ConstantLossScale(1.0F).scale(std::forward<Tree>(tree)));
  if constexpr (std::is_same_v<Result, bare<Tree>> && (owns_elements_v<Result> || has_dynamic_node_v<Result>)) {
    return Result(std::forward<Tree>(tree));
  } else {
    return ConstantLossScale(1.0F).scale(std::forward<Tree>(tree));
  }
}

/// The settings of a policy that has some.
template <class Policy>
constexpr auto config_of(const Policy& policy) -> std::decay_t<decltype(loss_scale_config(policy.config()))> {
  return loss_scale_config(policy.config());
}
template <class Policy, class Change>
Policy reconfigured(const Policy& policy, Change change) {
  auto config = policy.config();
  change(loss_scale_config(config));
  return policy.with_config(config);
}
/// Where an overflow finds a scale that can fall no further; 0 for a policy that does not tell.
template <class Policy>
auto floor_of(const Policy& policy, int) -> std::decay_t<decltype(policy.has_config(), config_of(policy).min_scale)> {
  return policy.has_config() ? config_of(policy).min_scale : 0.0F;
}
template <class Policy>
auto floor_of(const Policy& policy, long) -> std::decay_t<decltype(config_of(policy).min_scale)> {
  return config_of(policy).min_scale;
}
template <class Policy>
float floor_of(const Policy&, ...) {
  return 0.0F;
}

[[nodiscard]] inline GradientReport combined(const GradientReport& a, const GradientReport& b) noexcept {
  if (!a.finite) return a;
  return b.finite && b.max_abs < a.max_abs ? a : b;
}

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
