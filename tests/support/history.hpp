#pragma once

#include <headroom/observe/history.hpp>

#include <cstddef>
#include <optional>

namespace support::steps {

inline const double infinity = headroom::detail::bit_cast<double>(headroom::binary64::infinity_bits);
inline const double quiet_nan = headroom::detail::bit_cast<double>(headroom::binary64::quiet_nan_bits);
inline const headroom::GradientReport overflow{false, infinity};

/// A result with all of a StepResult that a History takes.
struct Result {
  bool skipped = false;
  headroom::GradientReport report{};
  headroom::SkipReason reason = headroom::SkipReason::none;
  std::optional<headroom::NonFinite> nonfinite{};
};
inline const Result no_gradients{true, {}, headroom::SkipReason::no_gradients, {}};

inline headroom::NonFinite nans(std::size_t inf_count = 0) {
  return {"layers[3].weight", 17, headroom::NonFiniteKind::nan, 40, inf_count};
}

inline void take(headroom::History& history, int steps, double max_abs = 1.0, float loss_scale = 1024.0F) {
  for (int i = 0; i < steps; ++i) history.record(loss_scale, headroom::GradientReport{true, max_abs});
}
inline void skip(headroom::History& history, int steps, float loss_scale = 1024.0F) {
  for (int i = 0; i < steps; ++i) history.record(loss_scale, overflow);
}
/// Overflows from `loss_scale` down, a halving each.
inline void descend(headroom::History& history, int steps, float loss_scale,
                    const std::optional<headroom::NonFinite>& place = std::nullopt) {
  for (int i = 0; i < steps; ++i, loss_scale /= 2) history.record(loss_scale, overflow, true, place);
}
/// Beyond the warm-up.
inline headroom::History warm(headroom::HistoryConfig config = {}) {
  headroom::History history(config);
  take(history, 100);
  return history;
}

}  // namespace support::steps
