#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The result of a simulated training.
struct Simulation {
  std::size_t steps = 0;
  std::size_t skipped = 0;    ///< steps that overflowed
  float final_scale = 0.0F;   ///< after the last step
  std::vector<float> scales;  ///< the scale of each step
};

/// The same for known gradients. Compares each step's scale with the best one: doubled as often as possible without overflow.
struct GradientSimulation : Simulation {
  std::size_t below_best = 0;  ///< steps that were not skipped and had less than the best scale
  double wasted_bits = 0.0;    ///< log2(best scale / scale), mean over the steps that had a gradient and were not skipped
};

namespace detail {

/// `found` is the argument of adjust: a report, or whether gradients were finite.
template <class Policy, class Found>
void simulate_step(Policy& policy, bool finite, const Found& found, Simulation& simulation) {
  static_assert(is_loss_scale_v<Policy>, "headroom: simulate takes a loss scale as its first argument (see is_loss_scale_v)");
  ++simulation.steps;
  simulation.skipped += finite ? 0U : 1U;
  simulation.scales.push_back(policy.loss_scale());
  policy = policy.adjust(found);
}

}  // namespace detail

/// Simulates steps whose gradients were finite (true) or not (false), regardless of the scale. Calls adjust(bool).
template <class Policy>
[[nodiscard]] Simulation simulate(Policy policy, const std::vector<bool>& grads_finite) {
  Simulation simulation;
  for (const bool finite : grads_finite) detail::simulate_step(policy, finite, finite, simulation);
  simulation.final_scale = policy.loss_scale();
  return simulation;
}

/// Simulates steps with these largest unscaled |gradients|, such as max_abs of a short training in float or bf16. From an fp16
/// training leave out steps that overflowed. A step overflows if the gradient is not finite, or if its product with the scale
/// exceeds the largest finite value of `Dtype`; rounding would tolerate another half unit in the last place. If the product
/// underflows to zero, the report says 0. Overflows of the scaled loss or of activations' gradients, which may come at a lower
/// scale, are not simulated. Throws std::invalid_argument naming the step if max_abs is negative.
template <class Dtype = half, class Policy, class Real>
[[nodiscard]] GradientSimulation simulate(Policy policy, const std::vector<Real>& max_abs) {
  using Format = detail::format_of<Dtype>;
  static_assert(!std::is_same_v<Dtype, double>, "headroom: no loss scale is for gradients in double");
  constexpr auto largest = detail::bit_cast<double>(detail::convert_bits<Format, binary64>(Format::largest_finite_bits));
  constexpr double largest_at_any_scale = largest / static_cast<double>(smallest_loss_scale);
  constexpr double rounds_to_zero = detail::bit_cast<double>(detail::convert_bits<Format, binary64>(1)) / 2;
  GradientSimulation simulation;
  std::size_t measured = 0;
  for (const Real& recorded : max_abs) {
    const auto each = static_cast<double>(recorded);
    if (detail::is_within(each, -detail::infinity, -detail::smallest_double)) {
      detail::throw_bad_value(("max_abs[" + std::to_string(simulation.steps) + "]").c_str(), each, "0 or more");
    }
    const auto scale = static_cast<double>(policy.loss_scale());
    // Judged by bits, because -ffast-math assumes that there is no Inf.
    const bool finite = detail::is_within(each, 0.0, largest_at_any_scale) && each * scale <= largest;
    if (finite && !detail::is_zero(each)) {
      const int spare =
          std::min(std::ilogb(largest / (each * scale)), std::ilogb(static_cast<double>(largest_loss_scale) / scale));
      simulation.below_best += spare > 0 ? 1U : 0U;
      simulation.wasted_bits += spare;
      ++measured;
    }
    const double seen = !finite ? detail::infinity : each * scale <= rounds_to_zero ? 0.0 : each;
    detail::simulate_step(policy, finite, GradientReport{finite, seen}, simulation);
  }
  simulation.final_scale = policy.loss_scale();
  if (measured > 0) simulation.wasted_bits /= static_cast<double>(measured);
  return simulation;
}
template <class Dtype = half, class Policy>
[[nodiscard]] GradientSimulation simulate(Policy policy, std::initializer_list<double> max_abs) {
  return headroom::simulate<Dtype>(policy, std::vector<double>(max_abs));
}
// A template, so that an argument {} is not ambiguous between the two overloads.
template <class Policy, class Boolean>
[[nodiscard]] auto simulate(Policy policy, std::initializer_list<Boolean> grads_finite)
    -> std::enable_if_t<std::is_same_v<Boolean, bool>, Simulation> {
  return headroom::simulate(policy, std::vector<bool>(grads_finite));
}

HEADROOM_DETAIL_END_NAMESPACE
