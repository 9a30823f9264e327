#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/training/gradient_passes.hpp>
#include <headroom/training/optimizer_state.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>
#include <headroom/training/step_result.hpp>

#include <functional>
#include <optional>
#include <string>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// A flag of this object alone: copies and assignments of its owner leave it as it is.
struct OwnFlag {
  bool is_set = false;

  OwnFlag() = default;
  OwnFlag(const OwnFlag&) noexcept {}
  OwnFlag& operator=(const OwnFlag&) noexcept { return *this; }
};

/// From one update of a GradScaler to the next: the scale of its losses, and what has become of the gradients of which
/// optimizer. `scale` is always the one that gradients are to be divided by.
class Iteration {
 public:
  ParallelExecutor executor{1};
  bool is_deferred = false;
  std::function<GradientSums(const GradientSums&)> reducer;

  /// Of the losses; none where none has been scaled yet.
  [[nodiscard]] const std::optional<float>& loss_scale() const noexcept { return loss_scale_; }
  void set_loss_scale(float scale) noexcept { loss_scale_ = scale; }
  /// From here on there may be scaled gradients again.
  void loss_was_scaled(float scale) noexcept {
    loss_scale_ = scale;
    states_.loss_was_scaled();
  }
  /// Of the losses, or what they would get now.
  [[nodiscard]] float loss_scale_or(float scale) const noexcept { return loss_scale_ ? *loss_scale_ : scale; }
  [[nodiscard]] bool has_optimizers() const noexcept { return !states_.empty(); }
  /// Of the gradients of all optimizers together.
  [[nodiscard]] GradientReport report() const noexcept {
    GradientReport all{true, 0.0};
    for (const OptimizerState& state : states_) all = combined(all, state.report);
    return all;
  }
  void end() noexcept {
    states_.start_iteration(loss_scale_.has_value());
    loss_scale_.reset();
  }

  /// Unscales the gradients of an optimizer, and clips them where `max_norm` is not null. Throws std::logic_error the second
  /// time. Returns what was found, of all ranks; the norm only where it clips.
  template <class Optimizer>
  GradientNorm unscale(Optimizer& optimizer, float scale, const double* max_norm) {
    auto&& gradients = optimizer_traits<Optimizer>::gradients(optimizer);
    const GradientPlace place = states_.place_of(optimizer, gradients);
    if (const OptimizerState* state = states_.find(key_of(optimizer), place)) {
      throw_logic_error(state->stepped
                            ? "unscale_: this optimizer has been stepped already; call update before the next iteration"
                            : "unscale_: the gradients of this optimizer have been unscaled already since the last update");
    }
    Unscaling<Optimizer, decltype(gradients)> unscaling{*this,  {executor}, gradients, scale, detail::takes_factor<Optimizer>(),
                                                        nullptr};
    return unscaling.run(key_of(optimizer), place, max_norm);
  }

  /// Unscales unless that has been done, and says by what and whether the optimizer may step, which it does once. Throws
  /// std::logic_error the second time. `takes_factor`: whether it will be handed a GradientFactor.
  template <class Optimizer>
  const OptimizerState& step(Optimizer& optimizer, float scale, bool takes_factor) {
    if (is_deferred && !takes_factor) throw_takes_no_factor("step");
    auto&& gradients = optimizer_traits<Optimizer>::gradients(optimizer);
    const GradientPlace place = states_.place_of(optimizer, gradients);
    OptimizerState* state = states_.find(key_of(optimizer), place);
    Unscaling<Optimizer, decltype(gradients)> unscaling{*this, {executor}, gradients, scale, takes_factor, nullptr};
    if (state == nullptr) {
      (void)unscaling.run(key_of(optimizer), place, nullptr);
      state = &states_.last();
    } else if (state->stepped) {
      throw_logic_error("step: this optimizer has been stepped already since the last update; call update first");
    } else {
      unscaling.check_nothing_added(*state);
    }
    state->stepped = true;
    return *state;
  }

  [[noreturn]] static void throw_takes_no_factor(const char* call) {
    throw_logic_error(std::string(call) +
                      ": this optimizer takes no GradientFactor, so it cannot be used in deferred mode (where its step does: "
                      "say `static constexpr bool takes_gradient_factor = true;`)");
  }

 private:
  /// Of the gradients of one optimizer.
  template <class Optimizer, class Gradients>
  struct Unscaling {
    Iteration& iteration;
    GradientPasses<Optimizer> passes;
    Gradients& gradients;
    float scale;
    bool takes_factor;
    const OptimizerState* before;  // of the last iteration

    /// Returns what was found, of all ranks, and leaves a state that says the same.
    GradientNorm run(const OptimizerKey& key, const GradientPlace& place, const double* max_norm) {
      if (iteration.is_deferred && !takes_factor) throw_takes_no_factor("unscale_");
      before = iteration.states_.find_before(key, place);
      iteration.states_.check_is_current(before, iteration.loss_scale_.has_value());
      iteration.states_.check_not_unscaled(key, place, [this] { return passes.check(gradients); });
      if (place.defined == 0 && !iteration.reducer) throw_logic_error("the optimizer has no gradients; call backward first");
      // Until the pass succeeds nobody may step with these gradients. Where nothing has been written it may be tried again.
      OptimizerState& state = iteration.states_.add({key, place, {false, infinite()}});
      Attempt attempt{iteration.states_};
      const GradientNorm found = iteration.is_deferred ? measure(state, max_norm)
                                 : max_norm != nullptr ? clip(state, *max_norm, attempt)
                                                       : unscale(state, attempt);
      attempt.has_written = true;
      state.report = found;
      return found;
    }

    /// Throws std::logic_error where gradients that were unscaled have become larger, and it may be because scaled ones have
    /// been added, for a loss has been scaled since, or because they are another's, who has moved here with them.
    void check_nothing_added(const OptimizerState& state) const {
      if (!state.report.finite || !(state.loss_since || state.place.is_inline)) return;
      if (passes.check(gradients).max_abs <= state.largest) return;
      throw_logic_error(
          "step: these gradients have become larger since they were unscaled; if scaled ones have been added to them, unscale "
          "once, after the last backward; if not, call step before another loss is scaled");
    }

   private:
    struct Attempt {
      OptimizerStates& states;
      bool has_written = false;
      ~Attempt() {
        if (!has_written) states.remove_last();
      }
    };

    GradientNorm unscale(OptimizerState& state, Attempt& attempt) const {
      if (may_be_old()) check_is_new(passes.check(gradients));
      GradientNorm found;
      static_cast<GradientReport&>(found) = passes.unscale(gradients, scale);
      attempt.has_written = true;
      state.largest = found.max_abs;
      return reduced(found);
    }
    GradientNorm clip(OptimizerState& state, const double& max_norm, Attempt& attempt) {
      if constexpr (!has_own_passes<Optimizer, Gradients>()) {
        if (!iteration.reducer) return clip_here(state, max_norm);
      }
      if (scale < 1.0F) {  // what overflows when it is unscaled has to be known before the reducer is asked
        if (may_be_old()) check_is_new(passes.check(gradients));
        (void)passes.unscale(gradients, scale);
        attempt.has_written = true;
        scale = 1.0F;
      }
      const GradientNorm scaled = passes.measure(gradients);
      check_is_new(scaled);
      const GradientNorm found = reduced(passes.unscaled(gradients, scaled, scale));
      const double factor = clip_factor(found, max_norm);
      state.largest =
          (factor < 1.0 ? passes.scale(gradients, factor / static_cast<double>(scale)) : passes.unscale(gradients, scale))
              .max_abs;
      return found;
    }
    GradientNorm clip_here(OptimizerState& state, const double& max_norm) const {
      if (may_be_old()) check_is_new(passes.check(gradients));
      const Clipped found = passes.unscale_and_clip(gradients, scale, max_norm);
      state.largest = found.stored.max_abs;
      return found.norm;
    }
    GradientNorm measure(OptimizerState& state, const double* max_norm) const {
      GradientNorm scaled;
      if (max_norm != nullptr) {
        scaled = passes.measure(gradients);
      } else {
        static_cast<GradientReport&>(scaled) = passes.check(gradients);
      }
      check_is_new(scaled);
      const GradientNorm found = reduced(passes.unscaled(gradients, scaled, scale));
      state.largest = scaled.max_abs;
      state.factor.value = (max_norm != nullptr ? clip_factor(found, *max_norm) : 1.0) / static_cast<double>(scale);
      return found;
    }
    /// That of all ranks. A norm beyond all doubles cannot be clipped by here, and counts as an overflow.
    [[nodiscard]] GradientNorm reduced(const GradientNorm& found) const {
      const GradientNorm all = iteration.reducer ? norm_of_all(found, iteration.reducer(sums_of(found))) : found;
      return is_infinite(all.norm) ? GradientNorm{{false, infinite()}, infinite()} : all;
    }

    /// Whether the gradients may be those of the iteration before, unscaled already: no loss has been scaled in this one, and
    /// in that one there was no step, or there was a loss.
    [[nodiscard]] bool may_be_old() const noexcept {
      return before != nullptr && !iteration.loss_scale_ && scale != 1.0F &&
             !(before->stepped && !iteration.states_.loss_before());
    }
    /// Throws std::logic_error where they are. `now` is what they are before anything is written.
    void check_is_new(const GradientReport& now) const {
      if (may_be_old() && before->may_be(now)) {
        throw_logic_error(
            "these gradients were unscaled before the last update already, and no loss has been scaled since: call step before "
            "update, and scale and backward after it");
      }
    }
  };

  OptimizerStates states_;
  std::optional<float> loss_scale_;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
