#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/report.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>

#include <cstdint>
#include <optional>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// What has been done to one optimizer in an iteration.
struct OptimizerState {
  std::uint64_t key = 0;  // of the optimizer: its address, or a number of the caller's
  GradientsSeen seen{};   // when it was unscaled, then when it was stepped
  bool stepped = false;
  SkipReason reason = SkipReason::not_finite;  // until it is decided
  GradientNorm found = overflow();             // in the unscaled gradients of all ranks
  GradientFactor factor{};                     // for a deferred optimizer
};

/// How a GradScaler unscales the gradients of an optimizer.
struct HowToUnscale {
  bool is_deferred = false;  // only measures them
  double max_norm = -1.0;    // below 0: no clipping
  double duplicates = 0.0;   // norm of the scaled gradients that another rank counts
};

/// What a scaler knows of an iteration, which lasts from one `update` to the next.
class Iteration {
 public:
  bool has_scaled = false;      // a loss
  bool has_new_policy = false;  // `update` does not adjust it
  bool is_abandoned = false;    // `update` does nothing
  float scale = 0.0F;           // of losses and gradients; 0 if none has been scaled or unscaled so far
  std::uint64_t count = 0;      // optimizers that have been unscaled, also those without a key

  void scale_loss(float its_scale) noexcept {
    scale = its_scale;
    has_scaled = true;
    is_abandoned = false;
  }
  [[nodiscard]] bool is_empty() const noexcept { return count == 0; }

  /// The state of this optimizer, or null. After `step`, another address of the first gradient means another optimizer.
  [[nodiscard]] OptimizerState* find(std::uint64_t key, const GradientsSeen& seen) noexcept {
    for (OptimizerState& state : states_) {
      const bool is_another = state.stepped && (seen.first == nullptr || seen.first != state.seen.first);
      if (state.key == key && !is_another) return &state;
    }
    return nullptr;
  }
  /// Throws std::logic_error if an earlier iteration has scaled a loss and this one has not.
  void check_scaled(const GradientsSeen& seen) const {
    if (!needs_scale_ || has_scaled || !seen.has_elements) return;
    throw_logic_error(
        {"no loss has been scaled since the last update, abandon or load, so these gradients are of an earlier "
         "iteration: call scale and backward first, or leave out the step of this batch; call update after all steps"});
  }
  void reserve_one() { states_.reserve(states_.size() + 1); }
  /// Adds an optimizer, an overflow until more is known. Those without a key share one state, valid until the next `add`.
  OptimizerState& add(std::optional<std::uint64_t> key, const GradientsSeen& seen, float its_scale) {
    check_scaled(seen);
    OptimizerState& state = key ? states_.emplace_back() : (unnamed_ = OptimizerState());
    scale = its_scale;
    ++count;
    state.key = key.value_or(0);
    state.seen = {seen.has_elements, seen.first};  // by members: one load of both would wait for the stores
    return state;
  }
  /// Sets what an added optimizer has. `has_gradients`: on this rank or, with a reducer, perhaps on another one.
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
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(optimizer));
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
