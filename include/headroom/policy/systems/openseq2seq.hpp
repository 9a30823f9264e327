#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace presets {

/// The BackoffScaler of OpenSeq2Seq's AutomaticLossScaler: it starts at its largest scale. Backoff multiplies by
/// 1 / `step_factor` rounded to float, which is what TensorFlow makes of its division. It counts the step without an order to
/// when it reads the count, so a growth of its own can come a step early or late, or right after an overflow; this is the order
/// in which it is written.
[[nodiscard]] constexpr DynamicLossScale openseq2seq_backoff(const double& scale_min = 1.0, const double& scale_max = 0x1p14,
                                                             const double& step_factor = 2.0, std::int64_t step_window = 2000) {
  const double factor = detail::float_factor_argument("step_factor", step_factor);
  const double inverse = detail::float_inverse_argument("step_factor", step_factor);
  const float most = detail::scale_argument("scale_max", scale_max);
  const float least = detail::floor_argument("scale_min", scale_min);
  detail::check_order("scale_min", scale_min, "scale_max", scale_max);
  detail::check_count("step_window", step_window);
  return DynamicLossScale(LossScaleConfig{most, step_window, factor, inverse, least, most});
}

}  // namespace presets

namespace detail::systems {

struct OpenSeq2SeqBackoff : System {
  static constexpr const char* name = "openseq2seq_backoff";
  [[nodiscard]] static constexpr DynamicLossScale preset() { return presets::openseq2seq_backoff(); }

  /// Its three variables. The steps are counted from the start and the last overflow remembered, from -1; ours from the last
  /// growth.
  static void import_state(StateImport& state) {
    state.scale("scale");
    const std::int64_t steps = state.integer("iteration", 0);
    const std::int64_t last_overflow = state.integer("last_overflow_iteration", -1);
    if (last_overflow >= steps) throw_bad_value("last_overflow_iteration", last_overflow, "below iteration");
    state.ours().set("counter", (steps - last_overflow - 1) % state.setting("growth_interval"));
  }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
