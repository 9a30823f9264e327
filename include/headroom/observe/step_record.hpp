#pragma once

#include <headroom/report.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

HEADROOM_DETAIL_BEGIN_NAMESPACE
/// One step of a History.
struct StepRecord {
  std::int64_t step = 0;                 ///< from 0, the first of the training
  float loss_scale = 1.0F;               ///< during the step
  GradientReport report{};               ///< of the unscaled gradients
  SkipReason reason = SkipReason::none;  ///< none if the step was taken
  std::optional<bool> loss_finite{};     ///< empty if no loss was recorded
  /// Counts are 0 if unknown. A path may still be known, as from a GPU's first_overflow
  NonFinite nonfinite{};
  [[nodiscard]] bool skipped() const noexcept { return reason != SkipReason::none; }
  [[nodiscard]] bool has_counts() const noexcept {
    return nonfinite.nan_count + nonfinite.inf_count > 0;
  }
  [[nodiscard]] bool has_place() const noexcept { return has_counts() || !nonfinite.path.empty(); }
};

/// The verdict of a History on the training: the first of these that holds.
enum class Verdict {
  loss_is_not_finite,  ///< the loss recorded with the last step is Inf or NaN
  /// The last step, and two or more not finite ones of the last 64, ran at `min_scale` or below
  at_floor,
  warming_up,  ///< the training has had fewer than `warm_up` steps
  /// More than `skip_tolerance` of the kept steps after the warm-up (at least 100) were not finite
  too_many_skips,
  /// In more than half of 64 or more finite steps max_abs times the scale is below `lowest_max_abs`
  underflowing,
  healthy  ///< none of these
};

[[nodiscard]] constexpr const char* to_string(Verdict verdict) noexcept {  ///< its name
  constexpr const char* names[] = {"loss_is_not_finite", "at_floor",     "warming_up",
                                   "too_many_skips",     "underflowing", "healthy"};
  return names[static_cast<std::size_t>(verdict)];
}
HEADROOM_DETAIL_END_NAMESPACE
