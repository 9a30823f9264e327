#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/noop.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/step_result.hpp>

#include <type_traits>
#include <utility>

// What a GradScaler does to the gradients of an optimizer: headroom's verbs, or what optimizer_traits has in their place.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class Optimizer, class Tree, class = void>
struct has_own_passes : std::false_type {};
template <class Optimizer, class Tree>
struct has_own_passes<Optimizer, Tree,
                      std::void_t<decltype(optimizer_traits<Optimizer>::unscale(
                          std::declval<const ParallelExecutor&>(), std::declval<Tree&>(), 1.0F))>> : std::true_type {};

template <class Optimizer>
struct GradientPasses {
  const ParallelExecutor& executor;

  template <class Tree>
  [[nodiscard]] GradientNorm measure(Tree& gradients) const {
    if constexpr (has_own_passes<Optimizer, Tree>::value) {
      return optimizer_traits<Optimizer>::measure(executor, gradients);
    } else {
      return headroom::measure(executor, gradients);
    }
  }
  /// Without the norm, which takes longer.
  template <class Tree>
  [[nodiscard]] GradientReport check(Tree& gradients) const {
    if constexpr (has_own_passes<Optimizer, Tree>::value) {
      return measure(gradients);
    } else {
      return NoOpLossScale().unscale_in_place(executor, gradients);
    }
  }
  template <class Tree>
  GradientReport unscale(Tree& gradients, float scale) const {
    if constexpr (has_own_passes<Optimizer, Tree>::value) {
      return optimizer_traits<Optimizer>::unscale(executor, gradients, scale);
    } else {
      return scale == 1.0F ? check(gradients) : ConstantLossScale(scale).unscale_in_place(executor, gradients);
    }
  }
  /// Returns the norm of the unscaled gradients before clipping.
  template <class Tree>
  GradientNorm unscale_and_clip(Tree& gradients, float scale, const double& max_norm) const {
    if constexpr (has_own_passes<Optimizer, Tree>::value) {
      const double inverse = 1.0 / static_cast<double>(scale);
      const GradientNorm unscaled = times(measure(gradients), inverse);
      const double clip = clip_factor(unscaled, max_norm);
      if (clip == 1.0 && scale == 1.0F) return unscaled;
      const GradientReport found = clip < 1.0 ? optimizer_traits<Optimizer>::multiply(executor, gradients, inverse * clip)
                                              : optimizer_traits<Optimizer>::unscale(executor, gradients, scale);
      return found.finite ? unscaled : GradientNorm{found, found.max_abs};
    } else if (scale == 1.0F) {
      return clip_by_global_norm(executor, gradients, max_norm);
    } else {
      return ConstantLossScale(scale).unscale_and_clip_in_place(executor, gradients, max_norm);
    }
  }
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
