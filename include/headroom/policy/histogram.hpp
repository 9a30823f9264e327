#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/magnitude.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The settings of HistogramLossScale. Of `scale` it uses initial_scale, min_scale and max_scale, and the factors: popart's are
/// the defaults, 2 and 0.5. The growth interval counts only where it is given no magnitudes.
struct HistogramConfig {
  LossScaleConfig scale;
  float largest_finite = 65504.0F;  ///< of the dtype that gradients are computed in: half; in [1, 2^127]
  double bin_edge = 0.125;          ///< share of largest_finite from which a gradient is large; in [2^-20, 1]

  constexpr void check() const {
    detail::check_largest_finite(largest_finite);
    detail::check_in("bin_edge", bin_edge, 0x1p-20, 1.0, "in [2^-20, 1]");
  }
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("largest_finite", self.largest_finite);
    visit("bin_edge", self.bin_edge);
  }
  friend constexpr bool operator==(const HistogramConfig& a, const HistogramConfig& b) noexcept {
    return a.scale == b.scale && a.largest_finite == b.largest_finite && a.bin_edge == b.bin_edge;
  }
  friend constexpr bool operator!=(const HistogramConfig& a, const HistogramConfig& b) noexcept { return !(a == b); }
};

/// Backs off if a scaled gradient was at least bin_edge * largest_finite, and grows otherwise, after every step: a piece of
/// BasicDynamicLossScale.
class KeepBelowBinEdge {
 public:
  using Config = HistogramConfig;
  static constexpr const char* name = "histogram";
  constexpr explicit KeepBelowBinEdge(const Config&) noexcept {}

  [[nodiscard]] static constexpr float next_scale(const GradientReport& report, float scale, const Config& config) noexcept {
    const double edge = config.bin_edge * static_cast<double>(config.largest_finite);
    // Divided, not multiplied: a product beyond double would be Inf, which -ffast-math knows nothing of.
    const bool is_large = !report.finite || report.max_abs >= edge / static_cast<double>(scale);
    return is_large ? detail::backed_off(scale, config.scale) : detail::grown(scale, config.scale);
  }

  template <class Self, class Visit>
  static void visit_fields(Self&, Visit&) {}
  friend constexpr bool operator==(KeepBelowBinEdge, KeepBelowBinEdge) noexcept { return true; }
};

/// Graphcore's automatic loss scaling (popart 3.4, popx/op/lossscaleupdatex.cpp): of the scaled gradients, u are at least an
/// eighth of the largest half and l are not; the scale is halved if u > l t / (1 - t), otherwise doubled, every step. t is 1e-7
/// there, so that for trees of up to ten million elements a single large one is enough, which is the rule here for all of them:
/// it needs the report alone. There steps are never skipped, because that hardware's arithmetic saturates; elsewhere a step
/// that overflows has to be, and counts as large; so it is no preset. adjust(bool), which knows no magnitudes, falls back to
/// DynamicLossScale's rule.
using HistogramLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, KeepBelowBinEdge>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
