#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/state/state_dict.hpp>
#include <headroom/training/gradient_passes.hpp>
#include <headroom/training/iteration.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>
#include <headroom/training/step_result.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

template <class Policy>
struct BackgroundScaler;

/// The settings that make a DynamicLossScale follow torch.
[[nodiscard]] inline LossScaleConfig torch_config(const double& init_scale, const double& growth_factor,
                                                  const double& backoff_factor, std::int64_t growth_interval) {
  constexpr auto low = static_cast<double>(smallest_loss_scale), high = static_cast<double>(largest_loss_scale);
  if (!positive_in(init_scale, low, high)) throw_bad_value("init_scale", init_scale, "in [2^-126, 2^126]");
  LossScaleConfig config;
  config.initial_scale = rounded_to_float(init_scale);
  config.growth_interval = growth_interval;
  config.growth_factor = growth_factor;
  config.backoff_factor = backoff_factor;
  config.min_scale = smallest_loss_scale;
  config.refuse_infinite_growth = true;
  return config;
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
class GradScaler {
  static_assert(is_loss_scale_v<Policy>, "headroom: a GradScaler needs a loss scale (see is_loss_scale_v)");

 public:
  GradScaler() : GradScaler(Policy()) {}
  /// Without `enabled` everything passes through: losses unscaled, steps unchecked.
  explicit GradScaler(const Policy& policy, bool enabled = true) : policy_(policy), enabled_(enabled) {}
  /// With the arguments, the defaults and the rule of torch.amp.GradScaler: no floor, and a growth to Inf is refused. For
  /// policies that are configured by a LossScaleConfig. Throws std::invalid_argument where an argument is out of range.
  template <class P = Policy, std::enable_if_t<std::is_constructible_v<P, const LossScaleConfig&>, int> = 0>
  explicit GradScaler(const double& init_scale, const double& growth_factor = 2.0, const double& backoff_factor = 0.5,
                      std::int64_t growth_interval = 2000, bool enabled = true)
      : GradScaler(P(detail::torch_config(init_scale, growth_factor, backoff_factor, growth_interval)), enabled) {}
  /// Not a scale of 1: it is the last argument that says whether the scaler is enabled.
  template <class T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  explicit GradScaler(T enabled) = delete;

  /// The outputs (the loss, as a rule; any tree) times the scale: see LossScaleVerbs::scale.
  template <class Tree>
  [[nodiscard]] auto scale(Tree&& outputs) {
    if (!enabled_) return detail::unmodified(std::forward<Tree>(outputs));
    check_not_configured("scale");
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
    check_not_configured("unscale_");
    return iteration_.unscale(optimizer, gradient_scale(), nullptr);
  }

  /// The same, and clips them to an L2 norm of `max_norm` where they are finite. Returns the norm before clipping. Throws
  /// std::invalid_argument where max_norm is negative or NaN.
  template <class Optimizer>
  GradientNorm unscale_and_clip_(Optimizer& optimizer, const double& max_norm) {
    detail::check_is_optimizer<Optimizer>();
    detail::check_max_norm(max_norm);
    check_not_configured("unscale_and_clip_");
    if (enabled_) return iteration_.unscale(optimizer, gradient_scale(), &max_norm);
    auto&& gradients = optimizer_traits<Optimizer>::gradients(optimizer);
    const detail::GradientPasses<Optimizer> passes{iteration_.executor};
    if constexpr (detail::has_own_passes<Optimizer, decltype(gradients)>()) {
      const GradientNorm norm = passes.measure(gradients);
      const double factor = detail::clip_factor(norm, max_norm);
      if (factor < 1.0) (void)passes.scale(gradients, factor);
      return norm;
    } else {
      return passes.unscale_and_clip(gradients, 1.0F, max_norm).norm;
    }
  }

  /// Unscales the gradients unless that has been done, and calls the optimizer's step with `args` unless they are not finite.
  /// Once an iteration. Throws std::logic_error the second time, and as `unscale_` does; what the optimizer throws goes
  /// through, and counts as its step.
  template <class Optimizer, class... Args>
  auto step(Optimizer& optimizer, Args&&... args) {
    detail::check_is_optimizer<Optimizer>();
    if constexpr (detail::step_takes_factor<Optimizer, Args&&...>()) {
      return step_if_finite(optimizer, true, [&](GradientFactor factor) -> decltype(auto) {
        return detail::CallStep()(optimizer, GradientFactor(factor), std::forward<Args>(args)...);
      });
    } else {
      return step_if_finite(optimizer, false, [&](GradientFactor) -> decltype(auto) {
        return detail::CallStep()(optimizer, std::forward<Args>(args)...);
      });
    }
  }

  /// Ends the iteration: adjusts the policy, once, by what was found in the gradients of all optimizers together. Throws
  /// std::logic_error where none has been unscaled or stepped.
  void update() {
    if (!enabled_) return;
    check_not_configured("update");
    if (!iteration_.has_optimizers()) {
      detail::throw_logic_error(
          "update: no optimizer has been unscaled or stepped since the last update; call step(optimizer) first");
    }
    const GradientReport all = iteration_.report();
    const float tried = gradient_scale() > policy_.loss_scale() ? gradient_scale() : policy_.loss_scale();
    const bool at_floor = !all.finite && tried <= detail::floor_of(policy_, 0);
    const bool is_answered = backs_off_once_ && !all.finite && gradient_scale() > policy_.loss_scale();
    if (!is_answered) policy_ = policy_.adjust(all);
    iteration_.end();
    if (at_floor && on_floor_) on_floor_(policy_);
  }
  /// Sets the scale instead of adjusting it, and ends the iteration where an optimizer has been unscaled or stepped in it.
  /// Where none has, the iteration goes on with the scale that its first loss was scaled by. Throws std::invalid_argument where
  /// it is no scale.
  template <class P = Policy>
  auto update(const float& new_scale) -> std::void_t<decltype(std::declval<const P&>().with_loss_scale(new_scale))> {
    if (!enabled_) return;
    policy_ = policy_.with_loss_scale(new_scale);
    if (iteration_.has_optimizers() && !is_configured_.is_set) iteration_.end();
  }

  /// That of the policy, which the losses of the next iteration get, and those of this one where none has been scaled yet; 1
  /// where disabled.
  [[nodiscard]] float get_scale() const { return enabled_ ? policy_.loss_scale() : 1.0F; }
  [[nodiscard]] bool is_enabled() const noexcept { return enabled_; }
  [[nodiscard]] const Policy& policy() const noexcept { return policy_; }

  // Where the policy has them; the setters throw std::invalid_argument where a value is out of range.
  template <class P = Policy>
  [[nodiscard]] auto get_growth_factor() const -> decltype(detail::config_of(std::declval<const P&>()).growth_factor) {
    return detail::config_of(policy_).growth_factor;
  }
  template <class P = Policy>
  [[nodiscard]] auto get_backoff_factor() const -> decltype(detail::config_of(std::declval<const P&>()).backoff_factor) {
    return detail::config_of(policy_).backoff_factor;
  }
  template <class P = Policy>
  [[nodiscard]] auto get_growth_interval() const -> decltype(detail::config_of(std::declval<const P&>()).growth_interval) {
    return detail::config_of(policy_).growth_interval;
  }
  template <class P = Policy>
  auto set_growth_factor(const double& factor) -> std::void_t<decltype(std::declval<const P&>().with_config({}))> {
    policy_ = detail::reconfigured(policy_, [&](LossScaleConfig& config) { config.growth_factor = factor; });
  }
  template <class P = Policy>
  auto set_backoff_factor(const double& factor) -> std::void_t<decltype(std::declval<const P&>().with_config({}))> {
    policy_ = detail::reconfigured(policy_, [&](LossScaleConfig& config) { config.backoff_factor = factor; });
  }
  template <class P = Policy>
  auto set_growth_interval(std::int64_t interval) -> std::void_t<decltype(std::declval<const P&>().with_config({}))> {
    policy_ = detail::reconfigured(policy_, [&](LossScaleConfig& config) { config.growth_interval = interval; });
  }

  /// That of the policy; empty where disabled. To be saved after `update`: what an iteration has seen so far is not in it.
  [[nodiscard]] StateDict state_dict() const { return enabled_ ? policy_.state_dict() : StateDict(); }
  /// Begins an iteration with the policy whose state this is; does nothing where disabled. Throws std::invalid_argument as
  /// Policy::from_state_dict does, and then changes nothing.
  void load_state_dict(const StateDict& dict) {
    if (!enabled_) return;
    policy_ = Policy::from_state_dict(dict);
    if (!is_configured_.is_set) iteration_.end();
  }

  /// Called with what was found in the unscaled gradients of each optimizer, before anything is decided by it, by ranks without
  /// gradients too; returns the same of all ranks together, so that their scales cannot drift apart and all clip by one norm.
  /// A sum of squares beyond double is an overflow. Every rank has to unscale, clip or step the same optimizers in the same
  /// order. Where it throws, the step of those gradients is skipped, or has not been clipped and can be tried again.
  void set_reducer(std::function<GradientSums(const GradientSums&)> reducer) { iteration_.reducer = std::move(reducer); }
  /// Called by `update`, when it is done, after an overflow at the policy's min_scale: it can fall no further, and something
  /// else is wrong. May throw. Without it the training goes on, as in torch.
  template <class P = Policy>
  auto set_on_floor(std::function<void(const Policy&)> on_floor)
      -> std::void_t<decltype(detail::config_of(std::declval<const P&>()).min_scale)> {
    on_floor_ = std::move(on_floor);
  }
  /// Deferred: gradients are only measured and stay scaled; the optimizer multiplies them, in the loop it has anyway, by the
  /// GradientFactor that it takes as the first argument of its step. (In the other mode that is 1.) An optimizer that takes
  /// none is refused by std::logic_error, and so is a change once an optimizer has been unscaled.
  void set_deferred(bool deferred) {
    if (iteration_.has_optimizers()) {
      detail::throw_logic_error("set_deferred: an optimizer has been unscaled already; call update first");
    }
    iteration_.is_deferred = deferred;
  }
  /// Who works on the gradients: parallel(n).
  void set_executor(const ParallelExecutor& executor) { iteration_.executor = executor; }

 private:
  template <class>
  friend struct detail::BackgroundScaler;

  /// What gradients are divided by now.
  [[nodiscard]] float gradient_scale() const noexcept { return iteration_.loss_scale_or(policy_.loss_scale()); }
  void check_not_configured(const char* call) const {
    if (is_configured_.is_set) {
      detail::throw_logic_error(std::string(call) + ": not from `configure`, which is for settings; submit the optimizer");
    }
  }

  template <class Optimizer, class Step>
  auto step_if_finite(Optimizer& optimizer, bool takes_factor, Step step) {
    using Value = std::decay_t<decltype(step(GradientFactor()))>;
    StepResult<Value> result;
    GradientFactor factor;
    if (enabled_) {
      check_not_configured("step");
      const detail::OptimizerState& state = iteration_.step(optimizer, gradient_scale(), takes_factor);
      result.report = state.report;
      result.skipped = !state.report.finite;
      factor = state.factor;
      if (result.skipped) return result;
    }
    if constexpr (std::is_void_v<Value>) {
      step(factor);
    } else {
      result.value = step(factor);
    }
    return result;
  }
  Policy policy_;
  bool enabled_;
  detail::OwnFlag is_configured_;  // by AsyncGradScaler::configure, which changes settings only
  bool backs_off_once_ = false;    // an overflow of a scale that the policy has lowered since lowers it no further
  detail::Iteration iteration_;
  std::function<void(const Policy&)> on_floor_;
};

template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
explicit GradScaler(T init_scale, double growth_factor = 2.0, double backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                    bool enabled = true) -> GradScaler<>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
