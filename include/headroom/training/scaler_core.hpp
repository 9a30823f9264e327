#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/clip_factor.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/find_nonfinite.hpp>
#include <headroom/report.hpp>
#include <headroom/training/iteration.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>
#include <headroom/training/step_result.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
/// For GradScaler, AsyncGradScaler and the scaler of headroom.h.
template <class Policy>
class ScalerCore {
 public:
  Policy policy;
  bool enabled = true;
  Executor executor{};
  Iteration iteration{};
  std::function<GradientSums(const GradientSums&, const Policy&, std::uint64_t digest)> reducer{};

  /// Of the next iteration's losses.
  [[nodiscard]] float next_scale() const { return enabled ? policy.loss_scale() : 1.0F; }
  [[nodiscard]] float gradient_scale() const {
    return iteration.scale > 0.0F ? iteration.scale : next_scale();
  }

  /// Unscales gradients. Until this returns, or if a pass or the reducer throws, they count as an
  /// overflow. `call` is for messages; null: their optimizer is not remembered, and has no `key`.
  /// Throws std::logic_error if it has been unscaled in this iteration.
  template <class Verbs>
  OptimizerState& add(Verbs& verbs, const HowToUnscale& how, const char* call = nullptr,
                      std::uint64_t key = 0) {
    if (call != nullptr)
      if (const OptimizerState* seen = iteration.find(key, verbs.seen.first))
        throw_seen(call, *seen);
    const bool has_key =
        call != nullptr && (verbs.seen.first != nullptr || reducer || iteration.keys_suffice);
    const float scale = gradient_scale();
    OptimizerState& state =
        iteration.add(has_key ? std::optional(key) : std::nullopt, verbs.seen, scale);
    decide(state, divide(state.factor, verbs, how, scale));
    return state;
  }
  /// The same for gradients that have been unscaled.
  OptimizerState& add(const GradientsSeen& seen, const GradientReport& report) {
    OptimizerState& state = iteration.add(std::nullopt, seen, gradient_scale());
    const GradientNorm here{report, 0.0};
    decide(state, reducer ? reduced(here, {}) : here);
    return state;
  }
  /// Divides the gradients, and clips them if `Verbs` does, or sets the factor. Returns their norm
  /// on all ranks, unclipped.
  template <class Verbs>
  GradientNorm divide(GradientFactor& factor, Verbs& verbs, const HowToUnscale& how, float scale) {
    double divisor = static_cast<double>(scale);  // of the gradients as they are now
    GradientNorm here;
    // With clipping, they are measured first and multiplied once, except at a scale below 1, where
    // unscaling may overflow.
    if (!how.is_deferred && (Verbs::clips ? scale < 1.0F : scale != 1.0F)) {
      static_cast<GradientReport&>(here) = verbs.unscale(scale);
      divisor = 1.0;
    }
    if (Verbs::clips || how.is_deferred || scale == 1.0F)
      here = detail::once_unscaled(verbs.measure(), divisor);
    if (reducer) here = reduced(here, how);
    const double clip = Verbs::clips ? detail::clip_factor(here, how.max_norm) : 1.0;
    if (how.is_deferred) {
      factor.value = detail::divided(clip, divisor);
    } else if (clip < 1.0) {
      (void)verbs.scale(detail::divided(clip, divisor));
    } else if (Verbs::clips && divisor != 1.0) {
      (void)verbs.unscale(scale);
    }
    return here;
  }
  /// Calls the optimizer unless `state`, null if disabled, has a reason to skip. Not `auto`: clang
  /// 14 copies deduced results.
  template <class Traits, class Tree, class Call,
            class Value = std::decay_t<std::invoke_result_t<const Call&>>>
  StepResult<Value> take(OptimizerState* state, Tree& gradients, const Call& call) const {
    struct Initial {
      StepResult<Value> result;
      // Not constexpr: else g++ begins by zeroing all 120 bytes, which takes 9 ns.
      Initial() noexcept {}  // NOLINT
    };
    StepResult<Value> result = Initial().result;
    if (state != nullptr) {
      state->stepped = true;
      result.loss_scale = iteration.scale;
      // By members: see Iteration::add
      result.report = {state->found.finite, state->found.max_abs};
      result.reason = state->reason;
      // The caller may have removed all gradients after `unscale_` to skip the step.
      if (state->reason == SkipReason::none && !state->seen.has_elements && !reducer)
        result.reason = SkipReason::no_gradients;
      result.skipped = result.reason != SkipReason::none;
      if (result.reason == SkipReason::not_finite) {
        if constexpr (detail::is_detected_v<detail::finds_t, Traits, const Tree>)
          result.nonfinite = Traits::find_nonfinite(gradients, executor);
        else if constexpr (!detail::has_own_passes_v<Traits, Tree>)
          result.nonfinite = headroom::find_nonfinite(gradients, executor);
      }
    }
    if (result.skipped) return result;
    if constexpr (std::is_void_v<Value>)
      call();
    else
      result.value = call();
    return result;
  }

 private:
  [[noreturn, gnu::cold, gnu::noinline]] static void throw_seen(const char* call,
                                                                const OptimizerState& state) {
    throw_logic_error(
        {call, ": this optimizer has been ", state.stepped ? "stepped" : "unscaled",
         " since the last update; ",
         state.stepped ? "" : "with several micro-batches call it once, after the last backward; ",
         "call update or abandon in every iteration. Optimizers are told apart by their addresses, "
         "in C by their ids"});
  }
  void decide(OptimizerState& state, const GradientNorm& found) {
    iteration.decide(state, found, state.seen.has_elements || reducer);
  }
  // By value, so that callers keep both in registers
  [[nodiscard]] GradientNorm reduced(GradientNorm here, HowToUnscale how) {
    GradientSums sums = gradient_sums(here);
    const double duplicates =
        detail::divided(how.duplicates, static_cast<double>(gradient_scale()));
    if (sums.finite)
      sums.sum_of_squares = std::max<double>(0.0, sums.sum_of_squares - duplicates * duplicates);
    std::uint64_t digest = detail::digest_with(detail::first_digest, iteration.count);
    for (const double value : {static_cast<double>(gradient_scale()), how.max_norm})
      digest = detail::digest_with(digest, detail::bit_cast<std::uint64_t>(value));
    return detail::norm_of_all(here, reducer(sums, policy, digest));
  }
};
}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
