#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/ops/scale.hpp>
#include <headroom/ops/unscale.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/report.hpp>
#include <headroom/state/state_dict.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// What GradScaler::step did. `value` is the result of the optimizer's own step, or empty if the step was skipped.
template <class Value>
struct StepResult;
template <>
struct StepResult<void> {
  bool skipped = false;     ///< reason != SkipReason::none
  GradientReport report{};  ///< of the unscaled gradients, on all ranks
  SkipReason reason = SkipReason::none;
  /// After an overflow: the first Inf or NaN in the optimizer's gradients, and the counts of both. Costs one more pass, and
  /// nothing on finite steps. Empty if this rank's gradients have none (it is on another rank, or only the norm overflowed), or
  /// if optimizer_traits has its own passes without find_nonfinite.
  std::optional<NonFinite> nonfinite{};
  float loss_scale = 1.0F;  ///< the divisor of the gradients; 1 if the scaler is disabled
};
template <class Value>
struct StepResult : StepResult<void> {
  std::optional<Value> value{};
};

/// Loss scaling around the steps of optimizers, with the interface of torch.amp.GradScaler:
///
///     headroom::GradScaler scaler;
///     for (…) {
///       backward(scaler.scale(loss));                // scaled gradients; by hand: start from scaler.scale(1.0F)
///       const auto result = scaler.step(optimizer);  // unscales, checks, and steps unless a gradient is Inf or NaN
///       scaler.update();                             // adjusts the scale
///     }
///
/// An iteration lasts from one `update` to the next. All its losses get the scale of its first `scale`. Its gradients are
/// divided by that scale, even if you set another one meanwhile. To accumulate, repeat `scale` and backward. Call `unscale_` or
/// `step` after the last backward.
///
/// A plain `step` needs gradients in float, double or bfloat16. Parameters may have any dtype. Most fp16 and 8-bit gradients
/// would become 0 in place: use step_gradients or a deferred optimizer (see GradientFactor). A scaler belongs to one thread.
///
/// Optimizers are identified by address. Do not move or destroy one between `unscale_` and `step`, or before `update` if it is
/// not stepped. After `step` the address of its first gradient counts too, so adapters made in a loop may share an address.
/// Temporaries are not remembered. Calls in the wrong order throw std::logic_error and change nothing: a second `unscale_` or
/// `step`; `update` without either; `unscale_` or `step` in an iteration that has not called `scale`, if an earlier one has.
template <class Policy = DynamicLossScale>
class GradScaler {
  static_assert(is_loss_scale_v<Policy>, "headroom: a GradScaler needs a loss scale (see is_loss_scale_v)");

 public:
  GradScaler() : GradScaler(Policy()) {}
  /// If not `enabled`, the scale is 1, gradients are not checked, and every step is taken.
  explicit GradScaler(const Policy& policy, bool enabled = true) : policy_(policy), enabled_(enabled) {}
  /// The arguments, defaults and rule of torch.amp.GradScaler: no floor, and no growth to Inf. The policy must be constructible
  /// from a LossScaleConfig. Throws std::invalid_argument if an argument is out of range.
  template <class P = Policy, std::enable_if_t<std::is_constructible_v<P, const LossScaleConfig&>, int> = 0>
  explicit GradScaler(const double& init_scale, const double& growth_factor = 2.0, const double& backoff_factor = 0.5,
                      std::int64_t growth_interval = 2000, bool enabled = true)
      : GradScaler(P(detail::torch_config("init_scale", init_scale, growth_factor, backoff_factor, growth_interval)), enabled) {
  }
  /// GradScaler(true) would mean a scale of 1. `enabled` is the last argument.
  template <class T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  explicit GradScaler(T enabled) = delete;

  /// The outputs, usually the loss, times the scale: see headroom::scale. Takes any tree.
  template <class Tree>
  [[nodiscard]] auto scale(Tree&& outputs) {
    using Result = decltype(headroom::scale(std::forward<Tree>(outputs), 1.0));
    if constexpr (detail::has_dynamic_node_v<Tree> && std::is_same_v<Result, detail::bare<Tree>>) {
      if (!enabled_) return Result(std::forward<Tree>(outputs));  // adds no node to the library's autograd graph
    }
    iteration_scale_ = gradient_scale();
    has_scaled_ = enabled_;
    is_abandoned_ = false;
    return headroom::scale(executor_, std::forward<Tree>(outputs), static_cast<double>(iteration_scale_));
  }

  /// Unscales an optimizer's gradients in place: read or change them before `step`. `update` counts them even without a `step`.
  template <class Optimizer>
  GradientReport unscale_(Optimizer& optimizer) {
    using F = Properties<Optimizer>;
    static_assert(
        !F::is_deferred,
        "headroom: gradients of an optimizer that takes a GradientFactor stay scaled: call step, or unscale_and_clip_");
    if (!enabled_) return {};
    auto&& gradients = F::Traits::gradients(optimizer);
    typename F::template GradientVerbs<false> verbs(executor_, gradients, F::writes);
    return state_of(std::addressof(optimizer), verbs, F::how(false, false)).found;
  }
  /// Unscales the gradients and clips them to an L2 norm of at most `max_norm`. Returns the norm before clipping, which is that
  /// of this optimizer. Gradients with Inf or NaN are not clipped. The GradientFactor clips those of a deferred optimizer.
  /// Throws std::invalid_argument if max_norm is negative or NaN.
  template <class Optimizer>
  GradientNorm unscale_and_clip_(Optimizer& optimizer, const double& max_norm) {
    using F = Properties<Optimizer>;
    detail::check_max_norm(max_norm);
    auto&& gradients = F::Traits::gradients(optimizer);
    typename F::template GradientVerbs<true> verbs(executor_, gradients, std::true_type());
    How how = F::how(false, false);
    how.max_norm = max_norm;
    if (reducer_) how.duplicates = detail::duplicates_norm(executor_, optimizer);
    if (enabled_) return state_of(std::addressof(optimizer), verbs, how).found;
    how.is_deferred = false;  // `step` will pass a factor of 1
    detail::OptimizerState state;
    unscale(state, verbs, how);
    return state.found;
  }

  /// Unscales the gradients unless `unscale_` has, and calls the optimizer's `step(args...)` unless they overflowed. Passes on
  /// what the optimizer throws; the step counts. An optimizer without gradients (no leaf in its tree) is skipped and does not
  /// affect the policy; with a reducer it steps when the other ranks do.
  template <class Optimizer, class... Args>
  auto step(Optimizer&& optimizer, Args&&... args) {
    using O = std::remove_reference_t<Optimizer>;
    using F = Properties<O>;
    static_assert(
        F::is_deferred || detail::is_detected_v<detail::step_t, O, Args...> ||
            !detail::is_detected_v<detail::step_t, O, GradientFactor, Args...>,
        "headroom: this step takes a GradientFactor: say `static constexpr bool takes_gradient_factor = true;` in the "
        "optimizer or in its optimizer_traits");
    auto&& gradients = F::Traits::gradients(optimizer);
    detail::OptimizerState* state = nullptr;
    if (enabled_) {
      typename F::template GradientVerbs<false> verbs(executor_, gradients, F::writes);
      state = &state_of(std::addressof(optimizer), verbs, F::how(true, !std::is_lvalue_reference_v<Optimizer>));
    }
    const GradientFactor factor = state != nullptr ? state->factor : GradientFactor();
    return take<typename F::Traits>(state, gradients, [&]() -> decltype(auto) {
      if constexpr (F::is_deferred) {
        return F::Traits::step(optimizer, factor, std::forward<Args>(args)...);
      } else {
        return F::Traits::step(optimizer, std::forward<Args>(args)...);
      }
    });
  }

  /// Unscales a tree of gradients and calls `f(gradients)` unless they overflowed. `f` can be a lambda that calls an optimizer
  /// without traits. Trees of floats and doubles are unscaled in place; if they are const, `f` gets a new one. For other trees
  /// `f` gets a new tree of floats. The tree is not remembered: call this once per tree and iteration.
  template <class Tree, class F>
  auto step_gradients(Tree&& gradients, F&& f) {
    detail::OptimizerState* state = nullptr;
    constexpr bool is_wide = detail::every_leaf_is_v<Tree, float, double>;
    if constexpr (is_wide && !std::is_const_v<std::remove_reference_t<Tree>>) {
      if (enabled_) {
        detail::GradientVerbs<void, std::remove_reference_t<Tree>, false> verbs(executor_, gradients, std::true_type());
        state = &state_of(nullptr, verbs, how_of_tree);
      }
      return take<void>(state, gradients, [&]() -> decltype(auto) { return f(gradients); });
    } else {
      const detail::GradientsSeen seen = detail::look_at(gradients);
      using To = std::conditional_t<is_wide, same_dtype, float>;
      auto unscaled = headroom::unscale<To>(executor_, std::forward<Tree>(gradients), gradient_scale());
      if (enabled_) {
        state = &add_state(nullptr, seen);
        decide(*state, {unscaled.report, 0.0}, how_of_tree);
      }
      return take<void>(state, unscaled.grads, [&]() -> decltype(auto) { return f(unscaled.grads); });
    }
  }

  /// Ends the iteration: adjusts the policy once, by the gradients of all optimizers together. Does nothing directly after
  /// `abandon`, or after a load_state_dict that has abandoned an iteration.
  void update() {
    if (!enabled_) return;
    if (states_.empty() && !is_abandoned_) {
      detail::throw_logic_error(
          {"update: no optimizer has been unscaled or stepped since the last update; call step first, or abandon to end an "
           "iteration without a decision"});
    }
    const std::optional<GradientReport> all = report_of_all();
    const float used = std::max(gradient_scale(), policy_.loss_scale());
    const bool adjusts = all && !is_new_policy_;
    if (adjusts) policy_ = policy_.adjust(*all);
    end_iteration(false);
    if (!adjusts || all->finite || !on_floor_) return;
    const auto on_floor = on_floor_;  // a copy, because the callback may replace itself
    on_floor(policy_, used);
  }
  /// Sets the scale instead of adjusting it. If an optimizer has been unscaled in this iteration, ends it. Otherwise losses
  /// that were already scaled keep their scale. Throws std::invalid_argument if the policy cannot have this scale.
  void update(const float& new_scale) {
    if (!enabled_) return;
    policy_ = policy_.with_loss_scale(new_scale);
    if (!states_.empty() || is_abandoned_) end_iteration(false);
  }
  /// Ends the iteration without a decision, for example after an exception. Clear the gradients before the next backward.
  void abandon() noexcept { end_iteration(true); }

  /// The scale of the next iteration's losses; 1 if disabled.
  [[nodiscard]] float get_scale() const { return enabled_ ? policy_.loss_scale() : 1.0F; }
  [[nodiscard]] bool is_enabled() const noexcept { return enabled_; }
  [[nodiscard]] const Policy& policy() const noexcept { return policy_; }
  /// Replaces the policy. An iteration that has begun keeps its scale, and does not adjust the new policy.
  void set_policy(const Policy& policy) {
    policy_ = policy;
    is_new_policy_ = iteration_scale_ > 0.0F;
  }

  // For policies with a configuration. The setters throw std::invalid_argument if the value is out of range.
  [[nodiscard]] double get_growth_factor() const { return detail::loss_scale_config(policy_.config()).growth_factor; }
  [[nodiscard]] double get_backoff_factor() const { return detail::loss_scale_config(policy_.config()).backoff_factor; }
  [[nodiscard]] std::int64_t get_growth_interval() const { return detail::loss_scale_config(policy_.config()).growth_interval; }
  void set_growth_factor(const double& factor) { set(&LossScaleConfig::growth_factor, factor); }
  void set_backoff_factor(const double& factor) { set(&LossScaleConfig::backoff_factor, factor); }
  void set_growth_interval(std::int64_t interval) { set(&LossScaleConfig::growth_interval, interval); }

  /// The policy's state; empty if disabled. Save it after `update`, because it leaves out an iteration in progress.
  [[nodiscard]] StateDict state_dict() const { return enabled_ ? policy_.state_dict() : StateDict(); }
  /// Continues from this state and abandons the iteration in progress. Does nothing if disabled. Throws std::invalid_argument
  /// as Policy::from_state_dict does, and then changes nothing.
  void load_state_dict(const StateDict& state) {
    if (!enabled_) return;
    policy_ = Policy::from_state_dict(state);
    end_iteration(is_abandoned_ || !states_.empty());
  }

  /// `reducer(sums)` gets the GradientSums of one optimizer's unscaled gradients on this rank and returns those over all ranks.
  /// It is called once per optimizer and iteration. Ranks must unscale or step the same optimizers in the same order. If it
  /// throws, the gradients count as an overflow until the iteration ends. nullptr removes it.
  void set_reducer(std::function<GradientSums(const GradientSums&)> reducer) {
    reducer_ = nullptr;
    if (reducer) reducer_ = [reducer = std::move(reducer)](const GradientSums& here, auto&&...) { return reducer(here); };
  }
  /// A reducer with a second parameter gets a digest of the policy, the scale, max_norm, and the number of optimizers so far in
  /// the iteration. It is equal on ranks that are in step.
  template <class Reducer, std::enable_if_t<std::is_invocable_v<Reducer&, const GradientSums&, std::uint64_t>, int> = 0>
  void set_reducer(Reducer reducer) {
    reducer_ = [reducer = std::move(reducer)](const GradientSums& here, const Policy& policy, std::uint64_t digest) mutable {
      return reducer(here, detail::digest_with(digest, detail::state_digest(policy)));
    };
  }
  /// Calls `on_floor(policy)` at the end of `update` after an overflow at the policy's min_scale. The scale cannot fall
  /// further, so something else is wrong. The callback may throw. Without it training continues, as in torch.
  void set_on_floor(std::function<void(const Policy&)> on_floor) {
    on_floor_ = [on_floor = std::move(on_floor)](const Policy& policy, float used) {
      if constexpr (detail::is_detected_v<has_config_t, Policy>) {
        if (!policy.has_config()) return;
      }
      if (on_floor && used <= detail::loss_scale_config(policy.config()).min_scale) on_floor(policy);
    };
  }
  /// The executor of all passes over gradients: `parallel(n)`.
  void set_executor(const ParallelExecutor& executor) { executor_ = executor; }

 private:
  template <class>
  friend class AsyncGradScaler;

  template <class P>
  using has_config_t = decltype(std::declval<const P&>().has_config());
  using How = detail::HowToUnscale;
  static constexpr How how_of_tree{/*is_deferred=*/false, /*allows_narrow=*/true, /*is_step=*/true, /*is_temporary=*/true};
  template <class Optimizer>
  using Properties = detail::OptimizerProperties<Optimizer, std::is_same_v<Policy, NoOpLossScale>>;

  /// The scale of this iteration's gradients.
  [[nodiscard]] float gradient_scale() const { return iteration_scale_ > 0.0F ? iteration_scale_ : get_scale(); }
  [[nodiscard]] std::optional<GradientReport> report_of_all() const {
    std::optional<GradientReport> all;
    for (const detail::OptimizerState& state : states_) {
      if (state.reason != SkipReason::no_gradients) all = detail::combined(state.found, all.value_or(state.found));
    }
    return all;
  }
  void end_iteration(bool is_abandoned) noexcept {
    needs_scale_ = needs_scale_ || has_scaled_;
    is_abandoned_ = is_abandoned;
    has_scaled_ = is_new_policy_ = false;
    iteration_scale_ = 0.0F;
    states_.clear();
  }

  /// The state of the optimizer at this address (null: it is not remembered). Unscales its gradients unless that has been done.
  template <class Verbs>
  detail::OptimizerState& state_of(const void* optimizer, Verbs& verbs, const How& how) {
    const detail::GradientsSeen& seen = verbs.seen;
    for (detail::OptimizerState& state : states_) {
      if (state.optimizer == nullptr || state.optimizer != optimizer) continue;
      if (how.is_step && !state.stepped) {
        state.seen = seen;
        return state;
      }
      const bool is_another = how.is_temporary || seen.first == nullptr || seen.first != state.seen.first;
      if (state.stepped && is_another) continue;
      detail::throw_logic_error({how.is_step ? "step" : "unscale_", ": this optimizer has been ",
                                 state.stepped ? "stepped" : "unscaled", " since the last update; ",
                                 state.stepped ? "" : "with several micro-batches call it once, after the last backward; ",
                                 "call update or abandon in every iteration"});
    }
    if (seen.has_narrow_leaf && !how.allows_narrow) {
      detail::throw_logic_error(
          {"fp16 and 8-bit gradients that are unscaled in place become 0: make them float (in libtorch by parameters in "
           "float), or use step_gradients"});
    }
    const bool is_remembered = !how.is_temporary && (seen.has_leaf || reducer_);
    detail::OptimizerState& state = add_state(is_remembered ? optimizer : nullptr, seen);
    unscale(state, verbs, how);
    return state;
  }
  /// Until `decide` returns, or if a pass or the reducer throws, the gradients count as an overflow.
  detail::OptimizerState& add_state(const void* optimizer, const detail::GradientsSeen& seen) {
    if (needs_scale_ && !has_scaled_ && seen.has_elements) {
      detail::throw_logic_error(
          {"no loss has been scaled since the last update, abandon or load_state_dict, so these gradients are of an earlier "
           "iteration: call scale and backward first, or leave out the step of this batch; call update after all steps"});
    }
    iteration_scale_ = gradient_scale();
    detail::OptimizerState& state = states_.emplace_back();
    state.optimizer = optimizer;
    state.seen = seen;
    return state;
  }
  /// Divides the gradients, and clips them if `Verbs` does. Writes nothing if the optimizer is deferred.
  template <class Verbs>
  void unscale(detail::OptimizerState& state, Verbs& verbs, const How& how) {
    const float scale = gradient_scale();
    double divisor = static_cast<double>(scale);  // of the gradients as they are now
    GradientNorm here;
    // With clipping, the gradients are measured first and then multiplied once. At a scale below 1 unscaling may overflow, so
    // they are unscaled first.
    if (!how.is_deferred && (Verbs::clips ? scale < 1.0F : scale != 1.0F)) {
      static_cast<GradientReport&>(here) = verbs.unscale(scale);
      divisor = 1.0;
    }
    if (Verbs::clips || how.is_deferred || scale == 1.0F) here = detail::once_unscaled(verbs.measure(), divisor);
    decide(state, here, how);
    const double clip = Verbs::clips ? detail::clip_factor(state.found, how.max_norm) : 1.0;
    if (how.is_deferred) {
      state.factor.value = detail::divided(clip, divisor);
    } else if (clip < 1.0) {
      (void)verbs.scale(detail::divided(clip, divisor));
    } else if (Verbs::clips && divisor != 1.0) {
      (void)verbs.unscale(scale);
    }
  }
  void decide(detail::OptimizerState& state, const GradientNorm& here, const How& how) {
    state.found = reducer_ ? reduced(here, how) : here;
    if (state.found.finite) state.reason = state.seen.has_leaf || reducer_ ? SkipReason::none : SkipReason::no_gradients;
  }
  [[nodiscard]] GradientNorm reduced(const GradientNorm& here, const How& how) {
    GradientSums sums = gradient_sums(here);
    const double duplicates = detail::divided(how.duplicates, static_cast<double>(gradient_scale()));
    if (sums.finite) sums.sum_of_squares = std::max<double>(0.0, sums.sum_of_squares - duplicates * duplicates);
    std::uint64_t digest = detail::digest_with(detail::first_digest, states_.size());
    for (const double value : {static_cast<double>(gradient_scale()), how.max_norm})
      digest = detail::digest_with(digest, detail::bit_cast<std::uint64_t>(value));
    return detail::norm_of_all(here, reducer_(sums, policy_, digest));
  }

  /// Calls the optimizer unless `state` has a reason to skip. `state` is null if the scaler is disabled.
  template <class Traits, class Tree, class Call>
  auto take(detail::OptimizerState* state, Tree& gradients, const Call& call) const {
    using Value = std::decay_t<decltype(call())>;
    StepResult<Value> result;
    if (state != nullptr) {
      state->stepped = true;
      result.loss_scale = gradient_scale();
      result.report = state->found;
      result.reason = state->reason;
      // The caller may have removed all gradients after `unscale_` to skip the step.
      if (state->reason == SkipReason::none && !state->seen.has_leaf && !reducer_) result.reason = SkipReason::no_gradients;
      result.skipped = result.reason != SkipReason::none;
      if (result.reason == SkipReason::not_finite)
        result.nonfinite = detail::GradientVerbs<Traits, Tree, false>::find_nonfinite(executor_, gradients);
    }
    if (result.skipped) return result;
    if constexpr (std::is_void_v<Value>) {
      call();
    } else {
      result.value = call();
    }
    return result;
  }

  template <class Value>
  void set(Value LossScaleConfig::*field, const Value& value) {
    auto config = policy_.config();
    detail::loss_scale_config(config).*field = value;
    policy_ = policy_.with_config(config);
  }

  Policy policy_;
  bool enabled_;
  bool has_scaled_ = false;       // a loss, in this iteration
  bool needs_scale_ = false;      // an earlier iteration had a scaled loss
  bool is_abandoned_ = false;     // `update` does nothing
  bool is_new_policy_ = false;    // set during this iteration, which does not adjust it
  float iteration_scale_ = 0.0F;  // of losses and gradients; 0 if none has been scaled or unscaled so far
  std::vector<detail::OptimizerState> states_;
  ParallelExecutor executor_{1};
  std::function<GradientSums(const GradientSums&, const Policy&, std::uint64_t digest)> reducer_;
  std::function<void(const Policy&, float used)> on_floor_;
};

template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
explicit GradScaler(T init_scale, double growth_factor = 2.0, double backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                    bool enabled = true) -> GradScaler<>;

HEADROOM_DETAIL_END_NAMESPACE
