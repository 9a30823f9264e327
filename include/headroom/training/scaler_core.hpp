#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/clip_factor.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/find_nonfinite.hpp>
#include <headroom/report.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE
/// What GradScaler::step did. `value` is the result of the optimizer's own step, or empty if the
/// step was skipped.
template <class Value>
struct StepResult;
template <>
struct StepResult<void> {
  bool skipped = false;                  ///< reason != SkipReason::none
  GradientReport report{};               ///< of the unscaled gradients, on all ranks
  SkipReason reason = SkipReason::none;  ///< none if the step was taken
  /// After an overflow: the first Inf or NaN in the optimizer's gradients and the counts of both,
  /// by one more pass. Empty if it is on another rank, if only the norm overflowed, or if
  /// optimizer_traits has its own passes without find_nonfinite.
  std::optional<NonFinite> nonfinite{};
  float loss_scale = 1.0F;  ///< the divisor of the gradients; 1 if the scaler is disabled
};
template <class Value>
struct StepResult : StepResult<void> {
  std::optional<Value> value{};  ///< what the optimizer returned
};

namespace detail {
struct OptimizerState {
  std::uint64_t key = 0;  // of the optimizer: its address, or a number of the caller's
  GradientsSeen seen{};   // when it was unscaled, then when it was stepped
  bool stepped = false;
  SkipReason reason = SkipReason::not_finite;  // until it is decided
  GradientNorm found = overflow();             // in the unscaled gradients of all ranks
  GradientFactor factor{};                     // for a deferred optimizer
};

struct HowToUnscale {
  bool is_deferred = false;  // only measures them
  double max_norm = -1.0;    // below 0: no clipping
  double duplicates = 0.0;   // norm of the scaled gradients that another rank counts
};

class Iteration {
 public:
  bool has_scaled = false;      // a loss
  bool has_new_policy = false;  // `update` does not adjust it
  bool is_abandoned = false;    // `update` does nothing
  bool keys_suffice = false;    // the key alone identifies an optimizer, also after its step
  float scale = 0.0F;           // of losses and gradients; 0 if there were none so far
  std::uint64_t count = 0;      // optimizers that have been unscaled, also those without a key
  void scale_loss(float its_scale) noexcept {
    scale = its_scale;
    has_scaled = true;
    is_abandoned = false;
  }
  [[nodiscard]] bool is_empty() const noexcept { return count == 0; }

  /// The state of this optimizer, or null. After `step`, another address of the first gradient
  /// means another optimizer.
  [[nodiscard]] OptimizerState* find(std::uint64_t key, const void* first_gradient) noexcept {
    for (OptimizerState& state : states_) {
      const bool is_same =
          keys_suffice || (first_gradient != nullptr && first_gradient == state.seen.first);
      if (state.key == key && (!state.stepped || is_same)) return &state;
    }
    return nullptr;
  }
  /// Throws std::logic_error if an earlier iteration has scaled a loss and this one has not.
  void check_scaled(const GradientsSeen& seen) const {
    if (!needs_scale_ || has_scaled || !seen.has_elements) return;
    throw_logic_error(
        {"no loss has been scaled since the last update, abandon or load: call scale and backward "
         "first, or leave out this step; on a rank without a batch call scale all the same, as in "
         "scale(0.0F); call update after all steps"});
  }
  void reserve_one() { states_.reserve(states_.size() + 1); }
  /// Adds an optimizer, an overflow until more is known. Those without a key share one state, valid
  /// until the next `add`.
  OptimizerState& add(std::optional<std::uint64_t> key, const GradientsSeen& seen,
                      float its_scale) {
    check_scaled(seen);
    for (const OptimizerState& other : states_) {
      if (other.stepped || seen.first == nullptr || other.seen.first != seen.first) continue;
      throw_logic_error(
          {"these gradients have been unscaled already, for an optimizer that has not been stepped "
           "since the last update: give unscale_ and step the same object (in C the same id; "
           "step_gradients unscales by itself), and list a tensor in one optimizer; if you leave "
           "out a step, call update before other gradients use its memory"});
    }
    OptimizerState& state = key ? states_.emplace_back() : (unnamed_ = OptimizerState());
    scale = its_scale;
    ++count;
    state.key = key.value_or(0);
    // By members: one load of both would wait for the stores
    state.seen = {seen.has_elements, seen.first};
    return state;
  }
  /// Sets what an added optimizer has. `has_gradients`: also true with a reducer, because another
  /// rank may have some.
  void decide(OptimizerState& state, const GradientNorm& found, bool has_gradients) noexcept {
    ++decided_;
    state.found = {{found.finite, found.max_abs}, found.norm};  // by members, see `add`
    if (found.finite) state.reason = has_gradients ? SkipReason::none : SkipReason::no_gradients;
    if (state.reason != SkipReason::no_gradients) all_ = combined(found, all_.value_or(found));
  }
  /// Of all optimizers together, an overflow unless all are decided; null if none has gradients.
  [[nodiscard]] const GradientReport* report() const noexcept {
    static constexpr GradientReport undecided = overflow();
    return decided_ != count ? &undecided : all_ ? &*all_ : nullptr;
  }
  void end(bool abandons) noexcept {
    needs_scale_ = needs_scale_ || has_scaled;
    is_abandoned = abandons;
    has_scaled = has_new_policy = false;
    scale = 0.0F;
    forget_optimizers();
  }
  void forget_optimizers() noexcept {
    count = decided_ = 0;
    states_.clear();
    all_.reset();
  }

 private:
  bool needs_scale_ = false;           // an earlier iteration had a scaled loss
  std::uint64_t decided_ = 0;          // of `count`; fewer if a pass or the reducer has thrown
  std::optional<GradientReport> all_;  // of the decided ones that have gradients
  std::vector<OptimizerState> states_;
  OptimizerState unnamed_;  // the last one without a key
};

[[nodiscard]] inline std::uint64_t key_of(const void* optimizer) noexcept {
  return reinterpret_cast<std::uintptr_t>(optimizer);
}

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
