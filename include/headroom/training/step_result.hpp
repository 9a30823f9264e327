#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/find_nonfinite.hpp>
#include <headroom/report.hpp>

#include <optional>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What GradScaler::step did. `value` is what the optimizer's own step returned, empty if the step was skipped. `skipped` and
/// `reason` always agree in what step returns: skipped == (reason != SkipReason::none).
template <class Value>
struct StepResult;
template <>
struct StepResult<void> {
  bool skipped = false;
  GradientReport report{};
  SkipReason reason = SkipReason::none;
  /// After an overflow the first element of this optimizer's gradients that is Inf or NaN, as they are stored when they are
  /// stepped (in deferred mode: will be once multiplied), by the path in their tree; and how many there are. Found by one
  /// more pass that reads, by the scaler's executor, so finite steps pay nothing for it. Empty if there is none here, but on
  /// another rank, or only in the norm; and for passes of optimizer_traits that cannot look.
  std::optional<NonFinite> nonfinite{};
  /// The scale of the gradients, by which they are divided; 1 of a disabled scaler.
  float loss_scale = 1.0F;
};
template <class Value>
struct StepResult : StepResult<void> {
  std::optional<Value> value{};
};

/// The same for a step that clips: `norm` is the L2 norm of the unscaled gradients before they were clipped.
template <class Value>
struct ClippedStepResult : StepResult<Value> {
  double norm = 0.0;
};
template <class Value>
ClippedStepResult(StepResult<Value>, double) -> ClippedStepResult<Value>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
