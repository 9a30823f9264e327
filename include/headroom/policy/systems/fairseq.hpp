#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>
#include <headroom/policy/tolerance.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// fairseq's rule: presets::fairseq.
using FairseqLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffWhenShareReachesTolerance>;

namespace detail {

/// What fairseq's scale and metaseq's have in common.
template <class Policy>
[[nodiscard]] constexpr Policy with_tolerance(const double& init_scale, const double& scale_factor, std::int64_t scale_window,
                                              const double& tolerance, const double& threshold, const double& min_loss_scale) {
  const float bound = floor_argument("threshold", threshold);
  const float least = floor_argument("min_loss_scale", min_loss_scale);
  const double factor = factor_argument("scale_factor", scale_factor);
  check_count("scale_window", scale_window);
  check_tolerance("tolerance", tolerance);
  const LossScaleConfig scale{1.0F, scale_window, factor, 1.0 / factor, bound < least ? least : bound};
  return starting_anywhere<Policy>(ToleranceConfig{scale, tolerance}, scale_argument("init_scale", init_scale));
}

}  // namespace detail

namespace presets {

/// fairseq's DynamicLossScaler. A `threshold` of 0 stands for its None. The floor is the larger of `threshold` and
/// `min_loss_scale`; at min_loss_scale fairseq ends the training, while this policy goes on.
[[nodiscard]] constexpr FairseqLossScale fairseq(const double& init_scale = 32768.0, const double& scale_factor = 2.0,
                                                 std::int64_t scale_window = 2000, const double& tolerance = 0.0,
                                                 const double& threshold = 0.0, const double& min_loss_scale = 1e-4) {
  return detail::with_tolerance<FairseqLossScale>(init_scale, scale_factor, scale_window, tolerance, threshold, min_loss_scale);
}

}  // namespace presets

namespace detail::systems {

struct Fairseq : System {
  static constexpr const char* name = "fairseq";
  [[nodiscard]] static constexpr FairseqLossScale preset() { return presets::fairseq(); }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
