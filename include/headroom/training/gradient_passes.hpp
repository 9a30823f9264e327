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
struct has_own_unscale : std::false_type {};
template <class Optimizer, class Tree>
struct has_own_unscale<Optimizer, Tree,
                       std::enable_if_t<std::is_convertible_v<decltype(optimizer_traits<Optimizer>::unscale(
                                                                  std::declval<const ParallelExecutor&>(),
                                                                  std::declval<Tree&>(), std::declval<float>())),
                                                              GradientReport>>> : std::true_type {};
template <class Optimizer, class Tree, class = void>
struct has_own_measure : std::false_type {};
template <class Optimizer, class Tree>
struct has_own_measure<
    Optimizer, Tree,
    std::enable_if_t<std::is_convertible_v<decltype(optimizer_traits<Optimizer>::measure(
                                               std::declval<const ParallelExecutor&>(), std::declval<Tree&>())),
                                           GradientNorm>>> : std::true_type {};
template <class Optimizer, class Tree, class = void>
struct has_own_scale : std::false_type {};
template <class Optimizer, class Tree>
struct has_own_scale<Optimizer, Tree,
                     std::enable_if_t<std::is_convertible_v<decltype(optimizer_traits<Optimizer>::scale(
                                                                std::declval<const ParallelExecutor&>(), std::declval<Tree&>(),
                                                                std::declval<double>())),
                                                            GradientReport>>> : std::true_type {};

// Whether a class has a member of a name, whatever it is: where it does, one that inherits it twice does not know which is
// meant.
struct OwnPassNames {
  int unscale, measure, scale;
};
template <class Traits>
struct TraitsAndNames : Traits, OwnPassNames {};
template <class Traits, class = void>
struct names_unscale : std::true_type {};
template <class Traits>
struct names_unscale<Traits, std::void_t<decltype(&TraitsAndNames<Traits>::unscale)>> : std::false_type {};
template <class Traits, class = void>
struct names_measure : std::true_type {};
template <class Traits>
struct names_measure<Traits, std::void_t<decltype(&TraitsAndNames<Traits>::measure)>> : std::false_type {};
template <class Traits, class = void>
struct names_scale : std::true_type {};
template <class Traits>
struct names_scale<Traits, std::void_t<decltype(&TraitsAndNames<Traits>::scale)>> : std::false_type {};

/// Whether optimizer_traits has passes of its own: all three or, which is an error, some or such as cannot be called.
template <class Optimizer, class Tree>
constexpr bool has_own_passes() {
  using Traits = optimizer_traits<Optimizer>;
  constexpr bool has_any = names_unscale<Traits>::value || names_measure<Traits>::value || names_scale<Traits>::value;
  if constexpr (has_any) {
    static_assert(has_own_unscale<Optimizer, Tree>::value,
                  "headroom: optimizer_traits has passes of its own, but no unscale that can be called; write: static "
                  "GradientReport unscale(const ParallelExecutor&, Gradients&, float scale);");
    static_assert(has_own_measure<Optimizer, Tree>::value,
                  "headroom: optimizer_traits has passes of its own, but no measure that can be called; write: static "
                  "GradientNorm measure(const ParallelExecutor&, const Gradients&);");
    static_assert(has_own_scale<Optimizer, Tree>::value,
                  "headroom: optimizer_traits has passes of its own, but no scale that can be called; write: static "
                  "GradientReport scale(const ParallelExecutor&, Gradients&, double factor);");
  }
  return has_any;
}

template <class Optimizer>
struct GradientPasses {
  const ParallelExecutor& executor;

  template <class Tree>
  [[nodiscard]] GradientNorm measure(Tree& gradients) const {
    if constexpr (has_own_passes<Optimizer, Tree>()) {
      return optimizer_traits<Optimizer>::measure(executor, gradients);
    } else {
      return headroom::measure(executor, gradients);
    }
  }
  /// Without the norm, which takes longer.
  template <class Tree>
  [[nodiscard]] GradientReport check(Tree& gradients) const {
    if constexpr (has_own_passes<Optimizer, Tree>()) {
      return measure(gradients);
    } else {
      return NoOpLossScale().unscale_in_place(executor, gradients);
    }
  }
  template <class Tree>
  GradientReport unscale(Tree& gradients, float scale) const {
    if constexpr (has_own_passes<Optimizer, Tree>()) {
      return optimizer_traits<Optimizer>::unscale(executor, gradients, scale);
    } else {
      return scale == 1.0F ? check(gradients) : ConstantLossScale(scale).unscale_in_place(executor, gradients);
    }
  }
  /// Exact for norms beyond all doubles, too, which only headroom's own verbs are.
  template <class Tree>
  Clipped unscale_and_clip(Tree& gradients, float scale, const double& max_norm) const {
    return detail::unscale_and_clip(executor, gradients, scale, max_norm);
  }
  /// factor <= 1
  template <class Tree>
  GradientReport scale(Tree& gradients, double factor) const {
    if constexpr (has_own_passes<Optimizer, Tree>()) {
      return optimizer_traits<Optimizer>::scale(executor, gradients, factor);
    } else {
      const std::size_t bytes = check_trees(CheckInPlace{}, gradients);
      return multiply_in_place(executor, factor, bytes, gradients).report();
    }
  }

  /// What the gradients are when they have been divided by `scale`, of which `found` has been measured. What is beyond its
  /// dtype then is an overflow, though nothing has been divided yet; an optimizer multiplies 16-bit gradients in float.
  template <class Tree>
  [[nodiscard]] GradientNorm unscaled(Tree& gradients, const GradientNorm& found, float scale) const {
    if (!found.finite) return found;
    const double by = static_cast<double>(scale);
    GradientNorm result;
    result.max_abs = found.max_abs / by;
    result.norm = found.norm / by;
    if (by >= 1.0 || fits(gradients, result.max_abs, by)) return result;
    const auto infinity = bit_cast<double>(binary64::infinity_bits);
    return {{false, infinity}, infinity};
  }

 private:
  /// Whether no leaf overflows where each is divided by a scale below 1.
  template <class Tree>
  [[nodiscard]] bool fits(Tree& gradients, double largest, double scale) const {
    if (largest <= largest_float) return true;
    if constexpr (has_own_passes<Optimizer, Tree>()) {
      return false;
    } else {
      bool all_fit = true;
      for_each_leaf(gradients, [&](auto& leaf) {
        using Element = std::remove_cv_t<std::remove_pointer_t<decltype(data_of(leaf))>>;
        const double bound = std::is_same_v<format_of<Element>, binary64> ? largest_double : largest_float;
        all_fit = all_fit && NoOpLossScale().unscale_in_place(executor, leaf).max_abs <= bound * scale;
      });
      return all_fit;
    }
  }
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
