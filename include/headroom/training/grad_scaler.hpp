#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/state/state_dict.hpp>
#include <headroom/training/gradient_passes.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/step_result.hpp>
#include <headroom/tree/visit.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {

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
/// order are std::logic_error. All losses of an iteration have the same scale, the one of its first `scale`, and gradients are
/// unscaled by that, whatever is set meanwhile. Not to be used by two threads at once.
///
/// Gradient accumulation: `scale` and backward for each part, then one `step` and one `update`; gradients of parts that were
/// unscaled apart could not be added up. Clipping: between `unscale` and `step`, or by unscale_and_clip; before, the norm would
/// be that of the scaled gradients.
template <class Policy = DynamicLossScale>
class GradScaler {
  static_assert(is_loss_scale_v<Policy>, "headroom: a GradScaler needs a loss scale (see is_loss_scale_v)");

 public:
  /// Without `enabled` everything passes through: losses unscaled, steps unchecked.
  explicit GradScaler(const Policy& policy = Policy(), bool enabled = true) : policy_(policy), enabled_(enabled) {}

  /// The outputs (the loss, as a rule; any tree) times the scale: see LossScaleVerbs::scale.
  template <class Tree>
  [[nodiscard]] auto scale(Tree&& outputs) {
    if (!enabled_) return detail::unmodified(std::forward<Tree>(outputs));
    if (!iteration_scale_) iteration_scale_ = policy_.loss_scale();
    return ConstantLossScale(*iteration_scale_).scale(executor_, std::forward<Tree>(outputs));
  }

  /// Unscales the gradients of an optimizer and checks them; for those who want to look at them, or change them, before `step`,
  /// which does it otherwise. Once an iteration. Throws std::logic_error the second time, and where there are no gradients.
  template <class Optimizer>
  GradientReport unscale(Optimizer& optimizer) {
    if (!enabled_) return {true, 0.0};
    return unscale_by(optimizer, [&](auto& gradients, GradientFactor& factor) {
      if (!deferred_) return passes<Optimizer>().unscale(gradients, iteration_scale());
      factor.value = 1.0 / static_cast<double>(iteration_scale());
      return detail::times(passes<Optimizer>().check(gradients), factor.value);
    });
  }

  /// The same, and clips them to an L2 norm of `max_norm` where they are finite. Returns the norm before clipping. Throws
  /// std::invalid_argument where max_norm is negative or NaN.
  template <class Optimizer>
  GradientNorm unscale_and_clip(Optimizer& optimizer, const double& max_norm) {
    detail::check_max_norm(max_norm);
    if (!enabled_) {
      auto&& gradients = optimizer_traits<Optimizer>::gradients(optimizer);
      return passes<Optimizer>().unscale_and_clip(gradients, 1.0F, max_norm);
    }
    return unscale_by(optimizer, [&](auto& gradients, GradientFactor& factor) {
      if (!deferred_) return passes<Optimizer>().unscale_and_clip(gradients, iteration_scale(), max_norm);
      const double inverse = 1.0 / static_cast<double>(iteration_scale());
      const GradientNorm unscaled = detail::times(passes<Optimizer>().measure(gradients), inverse);
      factor.value = inverse * detail::clip_factor(unscaled, max_norm);
      return unscaled;
    });
  }

  /// Unscales the gradients unless that has been done, and calls the optimizer's step with `args` unless they are not finite.
  /// Once an iteration. Throws std::logic_error the second time, and where there are no gradients; what the optimizer throws
  /// goes through, and counts as its step.
  template <class Optimizer, class... Args>
  auto step(Optimizer& optimizer, Args&&... args) {
    detail::check_is_optimizer<Optimizer>();
    if constexpr (std::is_invocable_v<detail::CallStep, Optimizer&, GradientFactor, Args&&...>) {
      return step_if_finite(optimizer, [&](GradientFactor factor) -> decltype(auto) {
        return detail::CallStep()(optimizer, factor, std::forward<Args>(args)...);
      });
    } else {
      if (deferred_)
        detail::throw_logic_error("step: this optimizer takes no GradientFactor, so it cannot be used in deferred mode");
      return step_if_finite(optimizer, [&](GradientFactor) -> decltype(auto) {
        return detail::CallStep()(optimizer, std::forward<Args>(args)...);
      });
    }
  }

  /// Ends the iteration: adjusts the policy, once, by what was found in the gradients of all optimizers together. Throws
  /// std::logic_error where none has been unscaled or stepped.
  void update() {
    if (!enabled_) return;
    if (states_.empty()) {
      detail::throw_logic_error(
          "update: no optimizer has been unscaled or stepped since the last update; call step(optimizer) first");
    }
    GradientReport all{true, 0.0};
    for (const State& state : states_) all = detail::combined(all, state.report);
    const float tried = iteration_scale() > policy_.loss_scale() ? iteration_scale() : policy_.loss_scale();
    const bool at_floor = !all.finite && tried <= detail::floor_of(policy_, 0);
    const bool is_answered = backs_off_once_ && !all.finite && iteration_scale() > policy_.loss_scale();
    if (!is_answered) policy_ = policy_.adjust(all);
    start_iteration();
    if (at_floor && on_floor_) on_floor_(policy_);
  }
  /// Ends the iteration, and sets the scale instead of adjusting it. Gradients whose losses have been scaled but that no
  /// optimizer has unscaled yet still are unscaled by the old one. Throws std::invalid_argument where it is no scale.
  template <class P = Policy>
  auto update(const float& new_scale) -> std::void_t<decltype(std::declval<const P&>().with_loss_scale(new_scale))> {
    if (!enabled_) return;
    policy_ = policy_.with_loss_scale(new_scale);
    if (!states_.empty()) start_iteration();
  }

  /// 1 where disabled.
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
    start_iteration();
  }

  /// Called with the report of each optimizer's gradients before anything is decided by it; returns that of all ranks together,
  /// so that their scales cannot drift apart: finite only where all are, the largest max_abs. Every rank has to unscale the
  /// same optimizers in the same order. Where it throws, the step of those gradients is skipped.
  void set_reducer(std::function<GradientReport(const GradientReport&)> reducer) { reducer_ = std::move(reducer); }
  /// Called by `update`, when it is done, after an overflow at the policy's min_scale: it can fall no further, and something
  /// else is wrong. May throw. Without it the training goes on, as in torch.
  template <class P = Policy>
  auto set_on_floor(std::function<void(const Policy&)> on_floor)
      -> std::void_t<decltype(detail::config_of(std::declval<const P&>()).min_scale)> {
    on_floor_ = std::move(on_floor);
  }
  /// Deferred: gradients are only measured and stay scaled; the optimizer multiplies them, in the loop it has anyway, by the
  /// GradientFactor that it takes as the first argument of its step. (In the other mode that is 1.) Throws std::logic_error
  /// within an iteration.
  void set_deferred(bool deferred) {
    if (!states_.empty()) detail::throw_logic_error("set_deferred: an optimizer has been unscaled already; call update first");
    deferred_ = deferred;
  }
  /// Who works on the gradients: parallel(n).
  void set_executor(const ParallelExecutor& executor) { executor_ = executor; }

 private:
  template <class>
  friend class AsyncGradScaler;

  /// Of an optimizer in an iteration. Known by its address, and only until the next update, so that it may go away then.
  struct State {
    const void* optimizer;
    bool stepped;
    GradientReport report;
    GradientFactor factor;  // what is still to be multiplied, in deferred mode
  };

  void start_iteration() noexcept {
    states_.clear();
    iteration_scale_.reset();
  }
  [[nodiscard]] State* find(const void* optimizer) noexcept {
    for (State& state : states_) {
      if (state.optimizer == optimizer) return &state;
    }
    return nullptr;
  }

  /// `pass(gradients, factor)` unscales and returns a report, or a norm, which is returned as all ranks see it.
  template <class Optimizer, class Pass>
  auto unscale_by(Optimizer& optimizer, Pass pass) {
    detail::check_is_optimizer<Optimizer>();
    if (const State* state = find(detail::identity_of(optimizer))) {
      detail::throw_logic_error(
          state->stepped ? "unscale: this optimizer has been stepped already; call update before the next iteration"
                         : "unscale: the gradients of this optimizer have been unscaled already since the last update");
    }
    auto&& gradients = optimizer_traits<Optimizer>::gradients(optimizer);
    if (element_count(gradients) == 0) {
      detail::throw_logic_error("the optimizer has no gradients; call backward first");
    }
    GradientFactor factor;
    auto found = pass(gradients, factor);
    GradientReport& report = found;
    // Known before the reducer is asked: where that throws, the gradients have been unscaled, and nobody may step with them.
    states_.push_back({detail::identity_of(optimizer), false, {false, report.max_abs}, factor});
    if (reducer_) report = reducer_(report);
    states_.back().report = report;
    return found;
  }
  [[nodiscard]] float iteration_scale() const noexcept { return iteration_scale_ ? *iteration_scale_ : policy_.loss_scale(); }

  template <class Optimizer>
  [[nodiscard]] detail::GradientPasses<Optimizer> passes() const noexcept {
    return {executor_};
  }

  template <class Optimizer, class Step>
  auto step_if_finite(Optimizer& optimizer, Step step) {
    using Value = std::decay_t<decltype(step(GradientFactor()))>;
    StepResult<Value> result;
    GradientFactor factor;
    if (enabled_) {
      if (find(detail::identity_of(optimizer)) == nullptr) (void)unscale(optimizer);
      State& state = *find(detail::identity_of(optimizer));
      if (state.stepped) {
        detail::throw_logic_error("step: this optimizer has been stepped already since the last update; call update first");
      }
      state.stepped = true;
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
  bool deferred_ = false;
  bool backs_off_once_ = false;           // an overflow of a scale that the policy has lowered since lowers it no further
  std::optional<float> iteration_scale_;  // from the first scale() of an iteration on
  std::vector<State> states_;
  ParallelExecutor executor_{1};
  std::function<GradientReport(const GradientReport&)> reducer_;
  std::function<void(const Policy&)> on_floor_;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
