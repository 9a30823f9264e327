#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/training/gradient_passes.hpp>
#include <headroom/training/optimizer_state.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>
#include <headroom/training/spike_guards.hpp>
#include <headroom/training/step_result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// From one update of a GradScaler to the next: the scale of its losses, and what has been done to each optimizer's gradients.
class Iteration {
 public:
  ParallelExecutor executor{1};
  bool is_deferred = false;
  std::function<GradientSums(const GradientSums&, std::uint64_t digest)> reducer;
  std::uint64_t state_digest = 0;  // of the policy; needed where there is a reducer

  [[nodiscard]] const SpikeGuards& guards() const noexcept { return guards_; }
  /// They judge the gradients that are unscaled from now on.
  void set_guards(SpikeGuards guards) noexcept {
    guards_ = std::move(guards);
    states_.forget_norms();
  }
  /// The next optimizer is judged by the guard at `place`, those behind it by the next ones.
  void use_guard(std::size_t place) noexcept { named_guard_ = NamedGuard{place, states_.size()}; }
  void set_loss_scale(float scale) noexcept { loss_scale_ = scale; }
  /// From now on there may be scaled gradients again.
  void loss_was_scaled(float scale) noexcept {
    loss_scale_ = scale;
    states_.loss_was_scaled();
  }
  /// The scale of the losses, or the one they would get now.
  [[nodiscard]] float loss_scale_or(float scale) const noexcept { return has_loss() ? loss_scale_ : scale; }
  [[nodiscard]] bool has_optimizers() const noexcept { return !states_.empty(); }
  [[nodiscard]] bool has_gradients() const noexcept {
    for (const OptimizerState& state : states_) {
      if (state.reason != SkipReason::no_gradients) return true;
    }
    return false;
  }
  /// The report on the gradients of all optimizers together.
  [[nodiscard]] GradientReport report() const noexcept {
    GradientReport all{true, 0.0};
    for (const OptimizerState& state : states_) all = combined(all, state.report);
    return all;
  }
  /// Shows the guards the norms of this iteration.
  void adjust_guards() {
    for (const OptimizerState& state : states_) {
      if (state.has_norm) guards_.adjust(state.guard, state.norm);
    }
  }
  /// By this the optimizers of the next iteration are compared with those of this one, which may have moved since they were
  /// unscaled.
  void keep_guards() noexcept {
    for (const OptimizerState& state : states_) guards_.set_owner(state.guard, state.id);
  }
  /// One that has not begun leaves what is known of the one before.
  void end() noexcept {
    if (has_loss() || has_optimizers()) states_.start_iteration(has_loss());
    named_guard_ = NamedGuard();
    loss_scale_ = 0.0F;
  }

  /// Divides the gradients of an optimizer by `scale`, and clips them if `max_norm` is not null. Throws std::logic_error the
  /// second time. Returns what was found over all ranks; the norm only if it clips.
  template <class Optimizer>
  GradientNorm unscale(Optimizer& optimizer, float scale, const double* max_norm) {
    PassesOf<Optimizer> passes(executor, optimizer);
    const OptimizerId id = states_.identify(optimizer, passes.gradients());
    if (const OptimizerState* state = states_.find(id)) {
      throw_logic_error({state->stepped
                             ? "unscale_: this optimizer has been stepped already, or one that was at its address; call update "
                               "before the next iteration"
                             : "unscale_: the gradients of this optimizer have been unscaled already since the last update"});
    }
    if (is_deferred && !takes_factor<Optimizer>()) throw_takes_no_factor("unscale_");
    return unscale_first(id, passes, scale, max_norm);
  }

  /// Divides the gradients by `scale` unless that has been done. Returns what is left to multiply by; says in `result` whether
  /// the optimizer may step, which it does once. Throws std::logic_error the second time. `takes_factor`: whether the step will
  /// be passed a GradientFactor.
  template <class Optimizer>
  GradientFactor step(Optimizer& optimizer, float scale, bool takes_factor, StepResult<void>& result) {
    if (is_deferred && !takes_factor) throw_takes_no_factor("step");
    PassesOf<Optimizer> passes(executor, optimizer);
    return step(states_.identify(optimizer, passes.gradients()), passes, scale, result);
  }

  /// Clips gradients that nobody has scaled.
  template <class Optimizer>
  GradientNorm clip(Optimizer& optimizer, const double& max_norm) const {
    PassesOf<Optimizer> passes(executor, optimizer);
    const GradientNorm here = passes.measure();
    const GradientNorm found = reduced(here, 1.0F, &max_norm, 0, duplicates_norm(passes));
    if (!found.finite) return found;
    const double factor = clip_factor(found, max_norm);
    if (factor < 1.0) (void)passes.scale(factor);
    return found;
  }

 private:
  [[nodiscard]] bool has_loss() const noexcept { return loss_scale_ > 0.0F; }

  GradientFactor step(const OptimizerId& id, GradientPasses& passes, float scale, StepResult<void>& result) {
    OptimizerState* state = states_.find(id);
    if (state == nullptr) {
      (void)unscale_first(id, passes, scale, nullptr);
      state = &states_.last();
    } else if (state->stepped) {
      throw_logic_error(
          {"step: this optimizer has been stepped already since the last update, or one that was at its address; call update "
           "first"});
    } else {
      check_nothing_added(*state, passes);
    }
    state->stepped = true;
    result.report = state->report;
    result.reason = state->reason;
    result.skipped = state->reason != SkipReason::none;
    if (state->reason == SkipReason::not_finite) result.nonfinite = passes.find_nonfinite();
    return state->factor;
  }

  /// Removes the last state again if nothing has been written, so that the call can be repeated.
  struct Attempt {
    OptimizerStates& states;
    GradientPasses& passes;
    bool is_done = false;
    ~Attempt() {
      if (!is_done && !passes.may_have_written()) states.remove_last();
    }
  };

  /// Returns what was found over all ranks, and leaves a state that says the same.
  GradientNorm unscale_first(const OptimizerId& id, GradientPasses& passes, float scale, const double* max_norm) {
    if (id.defined == 0 && !reducer) {
      states_.add(id, guard_of(id), SkipReason::no_gradients);
      return {};
    }
    const OptimizerState* before = states_.find_before(id);
    if (id.defined != 0) states_.check_is_current(before, has_loss());  // without gradients none can be old
    states_.check_not_unscaled(id, passes);
    // The gradients may be those of the previous iteration, already unscaled, if no loss has been scaled in this one, and in
    // that one there was no step, or there was a loss.
    const bool may_be_old = before != nullptr && scale != 1.0F && !has_loss() && (!before->stepped || states_.loss_before());
    const bool measures_first = is_deferred || needs_norm(max_norm);
    const GradientNorm scaled = measures_first || may_be_old ? passes.measure() : GradientNorm();
    if (may_be_old) check_is_new(*before, scaled);
    OptimizerState& state = states_.add(id, guard_of(id), SkipReason::not_finite);
    state.report = overflow();  // until the passes succeed nobody may step with these gradients
    Attempt attempt{states_, passes};
    const GradientNorm found =
        measures_first ? clip_or_defer(passes, scaled, scale, max_norm, state) : unscale(passes, scale, state);
    attempt.is_done = true;
    state.report = found;
    if (found.finite) judge(state, found.norm);
    return found;
  }
  /// The place of the guard that judges the next optimizer.
  std::size_t guard_of(const OptimizerId& id) {
    const bool is_named = named_guard_.optimizer == states_.size();
    const std::size_t place = is_named ? named_guard_.place : states_.empty() ? 0 : states_.last().guard + 1;
    if (guards_.empty()) return place;
    if (!is_named) guards_.check_owner(place, id);
    for (const OptimizerState& state : states_) {
      if (state.guard != place) continue;
      throw_logic_error(
          {"this spike guard has judged another optimizer since the last update: give use_spike_guard another place"});
    }
    guards_.make_room(place);
    return place;
  }
  [[nodiscard]] bool needs_norm(const double* max_norm) const noexcept { return max_norm != nullptr || !guards_.empty(); }
  /// Whether the optimizer may step with finite gradients of this norm.
  void judge(OptimizerState& state, const double& norm) const {
    state.reason = SkipReason::none;
    if (guards_.empty()) return;
    state.has_norm = true;
    state.norm = norm;
    if (guards_[state.guard].is_spike(norm)) state.reason = SkipReason::spike;
  }
  GradientNorm unscale(GradientPasses& passes, float scale, OptimizerState& state) const {
    const GradientReport stored = passes.unscale(scale);
    state.largest = stored.max_abs;
    return reduced({stored, 0.0}, scale, nullptr, state.guard);
  }
  /// Nothing is written before everything is known; deferred, nothing at all: the optimizer gets a factor.
  GradientNorm clip_or_defer(GradientPasses& passes, GradientNorm scaled, float scale, const double* max_norm,
                             OptimizerState& state) const {
    const float loss_scale = scale;
    if (scale < 1.0F && !is_deferred) {  // but what overflows when it is unscaled has to be known before the reducer is asked
      (void)passes.unscale(scale);
      scale = 1.0F;
      scaled = passes.measure();
    }
    if (!needs_norm(max_norm)) scaled.norm = 0.0;
    const GradientNorm here = passes.unscaled(scaled, scale);
    const double duplicates = needs_norm(max_norm) ? duplicates_norm(passes) : 0.0;
    const double not_ours = divided(duplicates, static_cast<double>(scale));
    const GradientNorm found = reduced(here, loss_scale, max_norm, state.guard, not_ours);
    const double clip = max_norm != nullptr ? clip_factor(found, *max_norm) : 1.0;
    const GradientFactor factor{divided(clip, static_cast<double>(scale))};
    if (is_deferred) {
      state.factor = factor;
      state.largest = scaled.max_abs;
    } else {
      state.largest = (clip < 1.0 ? passes.scale(factor.value) : passes.unscale(scale)).max_abs;
    }
    return found;
  }
  /// Of the gradients here that another rank counts.
  [[nodiscard]] double duplicates_norm(GradientPasses& passes) const { return reducer ? passes.duplicates_norm() : 0.0; }
  /// The norm over all ranks. They compare what they are about to do, so that a scale that has drifted, or a step too few, is
  /// noticed here.
  [[nodiscard]] GradientNorm reduced(const GradientNorm& here, float loss_scale, const double* max_norm, std::size_t guard,
                                     double duplicates = 0.0) const {
    if (!reducer) return checked(here);
    GradientSums sums = gradient_sums(here);
    if (sums.finite) sums.sum_of_squares = without(duplicates * duplicates, sums.sum_of_squares);
    std::uint64_t digest = guards_.digest_with(state_digest, guard);
    digest = digest_with(digest, bit_cast<std::uint32_t>(loss_scale));
    digest = digest_with(digest, states_.size());
    digest = digest_with(digest, max_norm != nullptr ? bit_cast<std::uint64_t>(*max_norm) : binary64::quiet_nan_bits);
    return norm_of_all(here, reducer(sums, digest));
  }
  /// All ranks together have these squares once more, so that what rounding leaves of the difference is small beside the sum.
  [[nodiscard]] static double without(const double& duplicates, const double& sum) {
    const bool is_part = bit_cast<std::uint64_t>(duplicates) <= bit_cast<std::uint64_t>(sum * (1.0 + 1e-9));  // NaN is not
    if (!is_part)
      throw_logic_error({"duplicate_gradients has to return views of some of the optimizer's gradients; their norm is larger"});
    return sum > duplicates ? sum - duplicates : 0.0;
  }

  /// Throws std::logic_error if gradients that may be those of the previous iteration are as large as they were left.
  static void check_is_new(const OptimizerState& before, const GradientReport& now) {
    if (!before.may_be(now)) return;
    throw_logic_error(
        {"these gradients were unscaled before the last update already, and no loss has been scaled since: call step before "
         "update, and scale and backward after it"});
  }
  /// Throws std::logic_error if unscaled gradients have become larger, either because scaled ones may have been added (a loss
  /// has been scaled since), or because they belong to another optimizer, which has moved here with them.
  static void check_nothing_added(const OptimizerState& state, GradientPasses& passes) {
    if (!state.report.finite || !(state.loss_since || state.id.is_inline)) return;
    if (passes.measure().max_abs <= state.largest) return;
    throw_logic_error(
        {"step: these gradients have become larger since they were unscaled; if scaled ones have been added to them, unscale "
         "once, after the last backward; if not, call step before another loss is scaled"});
  }
  [[noreturn]] static void throw_takes_no_factor(const char* call) {
    throw_logic_error({call,
                       ": this optimizer takes no GradientFactor, so it cannot be used in deferred mode (where its step does: "
                       "say `static constexpr bool takes_gradient_factor = true;`)"});
  }

  OptimizerStates states_;
  SpikeGuards guards_;
  struct NamedGuard {
    std::size_t place = 0;
    std::size_t optimizer = static_cast<std::size_t>(-1);  // by its place in states_; no optimizer has this one
  };
  NamedGuard named_guard_;
  float loss_scale_ = 0.0F;  // of the losses; 0 where none has been scaled yet
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
