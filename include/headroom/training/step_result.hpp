#pragma once

#include <headroom/report.hpp>

#include <optional>

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
HEADROOM_DETAIL_END_NAMESPACE
