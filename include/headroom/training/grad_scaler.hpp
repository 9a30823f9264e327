#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler_settings.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/tree/facts.hpp>

#include <cstdint>
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
template <class Value>
ClippedStepResult(StepResult<Value>, double) -> ClippedStepResult<Value>;

namespace detail {

/// A tree as `scale` would return it, but unchanged.
template <class Tree>
auto unmodified(Tree&& tree) {
  using Result = decltype(ConstantLossScale(1.0F).scale(std::forward<Tree>(tree)));
  if constexpr (std::is_same_v<Result, bare<Tree>> && (owns_elements_v<Result> || has_dynamic_node_v<Result>)) {
    return Result(std::forward<Tree>(tree));
  } else {
    return ConstantLossScale(1.0F).scale(std::forward<Tree>(tree));
  }
}

}  // namespace detail

/// Loss scaling around the steps of optimizers, with the interface of torch.amp.GradScaler:
///
///     headroom::GradScaler scaler;
///     for (…) {
///       backward(scaler.scale(loss));                    // scaled gradients
///       const auto result = scaler.step(optimizer);      // unscales, checks, steps unless there was an overflow
///       scaler.update();                                 // adjusts the scale
///     }
///
/// An iteration goes from one update to the next. In each, an optimizer is ready, then unscaled, then stepped; calls in another
/// order are std::logic_error, and so is a step by gradients of the iteration before, as far as it can be told: where a loss
/// was scaled in that one and none since. (Who multiplies by get_scale() and never calls `scale` has to keep the order.) All
/// losses of an iteration have the same scale, the one of its first `scale`, and gradients are unscaled by that, whatever is
/// set meanwhile. Not to be used by two threads at once.
///
/// Within an iteration an optimizer is known by its address and where its gradients are. It may move where the gradients stay;
/// change those in place, or before `unscale_`. Two optimizers that share gradients are std::logic_error. One that is made
/// within an iteration where another one was, with gradients in the very same memory, is taken for that.
///
/// Gradient accumulation: `scale` and backward for each part, then one `step` and one `update`. What is added to gradients that
/// have been unscaled already is std::logic_error at the step, where the loss was scaled after that and has made them larger.
/// Clipping: between `unscale_` and `step`, or by unscale_and_clip_; before, the norm would be that of the scaled gradients.
template <class Policy = DynamicLossScale>
class GradScaler : public GradScalerSettings<Policy> {
  using Settings = GradScalerSettings<Policy>;

 public:
  GradScaler() : GradScaler(Policy()) {}
  /// Without `enabled` everything passes through: losses unscaled, steps unchecked.
  explicit GradScaler(const Policy& policy, bool enabled = true) : Settings(policy, enabled) {}
  /// With the arguments, the defaults and the rule of torch.amp.GradScaler: no floor, and a growth to Inf is refused. For
  /// policies that are configured by a LossScaleConfig. Throws std::invalid_argument where an argument is out of range.
  template <class P = Policy, std::enable_if_t<std::is_constructible_v<P, const LossScaleConfig&>, int> = 0>
  explicit GradScaler(const double& init_scale, const double& growth_factor = 2.0, const double& backoff_factor = 0.5,
                      std::int64_t growth_interval = 2000, bool enabled = true)
      : GradScaler(P(presets::torch(init_scale, growth_factor, backoff_factor, growth_interval).config()), enabled) {}
  /// Not a scale of 1: it is the last argument that says whether the scaler is enabled.
  template <class T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  explicit GradScaler(T enabled) = delete;

  /// The outputs (the loss, as a rule; any tree) times the scale: see LossScaleVerbs::scale.
  template <class Tree>
  [[nodiscard]] auto scale(Tree&& outputs) {
    if (!enabled_) return detail::unmodified(std::forward<Tree>(outputs));
    iteration_.loss_was_scaled(gradient_scale());
    return ConstantLossScale(gradient_scale()).scale(iteration_.executor, std::forward<Tree>(outputs));
  }

  /// Unscales the gradients of an optimizer and checks them; for those who want to look at them, or change them, before `step`,
  /// which does it otherwise. Once an iteration. Gradients without elements are finite. Throws std::logic_error the second
  /// time, and where no gradient is defined at all: the tree has no leaf.
  template <class Optimizer>
  GradientReport unscale_(Optimizer& optimizer) {
    detail::check_is_optimizer<Optimizer>();
    if (!enabled_) return {true, 0.0};
    return iteration_.unscale(optimizer, gradient_scale(), nullptr);
  }

  /// The same, and clips them to an L2 norm of `max_norm` where they are finite. Returns the norm before clipping. Throws
  /// std::invalid_argument where max_norm is negative or NaN.
  template <class Optimizer>
  GradientNorm unscale_and_clip_(Optimizer& optimizer, const double& max_norm) {
    detail::check_is_optimizer<Optimizer>();
    detail::check_max_norm(max_norm);
    if (!enabled_) return iteration_.clip(optimizer, max_norm);
    return iteration_.unscale(optimizer, gradient_scale(), &max_norm);
  }

  /// Unscales the gradients unless that has been done, and calls the optimizer's step with `args` unless they are not finite.
  /// Once an iteration. Throws std::logic_error the second time, and as `unscale_` does; what the optimizer throws goes
  /// through, and counts as its step.
  template <class Optimizer, class... Args>
  auto step(Optimizer& optimizer, Args&&... args) {
    detail::check_is_optimizer<Optimizer>();
    constexpr bool takes_factor = detail::step_takes_factor<Optimizer, Args&&...>();
    GradientFactor factor;
    const auto call = [&]() -> decltype(auto) {
      if constexpr (takes_factor) {
        return detail::CallStep()(optimizer, GradientFactor(factor), std::forward<Args>(args)...);
      } else {
        return detail::CallStep()(optimizer, std::forward<Args>(args)...);
      }
    };
    using Value = std::decay_t<decltype(call())>;
    StepResult<Value> result;
    if (enabled_) {
      const detail::OptimizerState& state = iteration_.step(optimizer, gradient_scale(), takes_factor);
      result.report = state.report;
      result.skipped = !state.report.finite;
      factor = state.factor;
    }
    if (result.skipped) return result;
    if constexpr (std::is_void_v<Value>) {
      call();
    } else {
      result.value = call();
    }
    return result;
  }

  /// Ends the iteration: adjusts the policy, once, by what was found in the gradients of all optimizers together. Throws
  /// std::logic_error where none has been unscaled or stepped.
  void update() {
    if (!enabled_) return;
    if (!iteration_.has_optimizers()) {
      detail::throw_logic_error(
          "update: no optimizer has been unscaled or stepped since the last update; call step(optimizer) first");
    }
    const GradientReport all = iteration_.report();
    const float used = gradient_scale(), now = policy_.loss_scale();
    const bool at_floor = !all.finite && (used > now ? used : now) <= detail::floor_of(policy_);
    const bool is_answered = backs_off_once_ && !all.finite && used > now;
    if (!is_answered) policy_ = policy_.adjust(all);
    iteration_.end();
    if (at_floor && on_floor_) on_floor_(policy_);
  }
  /// Sets the scale instead of adjusting it, and ends the iteration where an optimizer has been unscaled or stepped in it.
  /// Where none has, the iteration goes on with the scale that its first loss was scaled by. Throws std::invalid_argument where
  /// it is no scale.
  void update(const float& new_scale) {
    Settings::update(new_scale);
    if (iteration_.has_optimizers()) iteration_.end();
  }
  /// As that of the settings, and begins an iteration.
  void load_state_dict(const StateDict& dict) {
    Settings::load_state_dict(dict);
    iteration_.end();
  }

 protected:
  using Settings::enabled_;
  using Settings::iteration_;
  using Settings::on_floor_;
  using Settings::policy_;
  bool backs_off_once_ = false;  // an overflow of a scale that the policy has lowered since lowers it no further

 private:
  /// What gradients are divided by now.
  [[nodiscard]] float gradient_scale() const { return iteration_.loss_scale_or(policy_.loss_scale()); }
};

template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
explicit GradScaler(T init_scale, double growth_factor = 2.0, double backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                    bool enabled = true) -> GradScaler<>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
