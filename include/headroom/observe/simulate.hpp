#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/policy/spike_guard.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What a policy did over a training run.
struct Simulation {
  std::size_t steps = 0;
  std::size_t skipped = 0;    ///< steps that overflowed
  float final_scale = 0.0F;   ///< after the last step
  std::vector<float> scales;  ///< the scale each step ran with
};

/// What a guard did over a training run.
struct SpikeSimulation {
  std::size_t steps = 0;
  std::vector<std::size_t> spikes;  ///< the steps it skipped, from 0
};

/// The same for known gradients, which also show how far each step was from the best scale: the largest one, reached by
/// doubling the scale it had, that would not have overflowed.
struct GradientSimulation : Simulation {
  std::size_t below_best = 0;  ///< steps that were not skipped but ran below the best scale
  double wasted_bits = 0.0;    ///< log2(best scale / scale), mean over the steps that had a gradient and were not skipped
};

namespace detail {

/// How often `scale` could be doubled, up to 2^126, with max_abs * scale <= largest, which it is; max_abs > 0.
[[nodiscard]] inline int doublings(double max_abs, float scale, double largest) noexcept {
  const int within_format = std::ilogb(largest / (max_abs * static_cast<double>(scale)));
  const int within_scales = std::ilogb(static_cast<double>(largest_loss_scale) / static_cast<double>(scale));
  return within_format < within_scales ? within_format : within_scales;
}

/// `found` is what the policy is told: a report, or only whether gradients were finite.
template <class Policy, class Found>
void simulate_step(Policy& policy, bool finite, const Found& found, Simulation& simulation) {
  ++simulation.steps;
  simulation.skipped += finite ? 0U : 1U;
  simulation.scales.push_back(policy.loss_scale());
  policy = policy.adjust(found);
  simulation.final_scale = policy.loss_scale();
}

}  // namespace detail

/// Takes a policy through steps whose gradients were finite (true) or not (false), whatever the scale, by adjust(bool).
template <class Policy>
[[nodiscard]] Simulation simulate(Policy policy, const std::vector<bool>& grads_finite) {
  static_assert(is_loss_scale_v<Policy>, "headroom: simulate takes a loss scale as its first argument (see is_loss_scale_v)");
  Simulation simulation;
  simulation.final_scale = policy.loss_scale();
  for (const bool finite : grads_finite) {
    detail::simulate_step(policy, finite, finite, simulation);
  }
  return simulation;
}

// A template, so that {} is not ambiguous between this list and that of doubles.
template <class Policy, class Boolean>
[[nodiscard]] auto simulate(Policy policy, std::initializer_list<Boolean> grads_finite)
    -> std::enable_if_t<std::is_same_v<Boolean, bool>, Simulation> {
  return headroom::simulate(std::move(policy), std::vector<bool>(grads_finite));
}

/// Takes a policy through steps with these largest unscaled |gradients|, as max_abs of a short training in float or bf16 (in
/// fp16 leave out what overflowed). A step overflows if its largest gradient times the scale exceeds the largest finite value
/// of `Dtype`, or is not finite itself; rounding would tolerate an excess of less than half a unit in the last place. If it
/// underflows to zero, the policy is told so. That the scaled loss or the gradient of an activation overflows, which may come
/// sooner, is not simulated. Throws std::invalid_argument naming the step if max_abs is negative.
template <class Dtype = half, class Policy>
[[nodiscard]] GradientSimulation simulate(Policy policy, const std::vector<double>& max_abs) {
  static_assert(is_loss_scale_v<Policy>, "headroom: simulate takes a loss scale as its first argument (see is_loss_scale_v)");
  using Format = detail::format_of<Dtype>;
  static_assert(!std::is_same_v<Dtype, double>, "headroom: no loss scale is for gradients in double");
  constexpr auto largest = detail::bit_cast<double>(detail::convert_bits<Format, binary64>(Format::largest_finite_bits));
  constexpr double rounds_to_zero = detail::bit_cast<double>(detail::convert_bits<Format, binary64>(1)) / 2;
  GradientSimulation simulation;
  simulation.final_scale = policy.loss_scale();
  double wasted = 0.0;
  std::size_t measured = 0;
  for (std::size_t step = 0; step < max_abs.size(); ++step) {
    const auto bits = detail::bit_cast<std::uint64_t>(max_abs[step]);
    if (bits > binary64::sign_mask && bits <= (binary64::sign_mask | binary64::infinity_bits)) {
      detail::throw_bad_value(("max_abs[" + std::to_string(step) + "]").c_str(), max_abs[step], "0 or more");
    }
    constexpr std::uint64_t bits_of_2_to_960 = std::uint64_t{960 + binary64::bias} << binary64::mantissa_bits;
    // Below this the product with any scale is a finite double.
    const bool finite =
        (bits & binary64::abs_mask) < bits_of_2_to_960 && max_abs[step] * static_cast<double>(policy.loss_scale()) <= largest;
    if (finite && !detail::is_zero(max_abs[step])) {
      const int spare = detail::doublings(max_abs[step], policy.loss_scale(), largest);
      simulation.below_best += spare > 0 ? 1U : 0U;
      wasted += spare;
      ++measured;
    }
    // What underflows is 0 to the policy, as it would be in a training.
    const bool underflows = finite && max_abs[step] * static_cast<double>(policy.loss_scale()) <= rounds_to_zero;
    constexpr auto infinity = detail::bit_cast<double>(binary64::infinity_bits);
    const GradientReport report{finite, !finite ? infinity : underflows ? 0.0 : max_abs[step]};
    detail::simulate_step(policy, finite, report, simulation);
  }
  simulation.wasted_bits = measured == 0 ? 0.0 : wasted / static_cast<double>(measured);
  return simulation;
}
template <class Dtype = half, class Policy>
[[nodiscard]] GradientSimulation simulate(Policy policy, std::initializer_list<double> max_abs) {
  return headroom::simulate<Dtype>(std::move(policy), std::vector<double>(max_abs));
}
template <class Dtype = half, class Policy>
[[nodiscard]] GradientSimulation simulate(Policy policy, const std::vector<float>& max_abs) {
  return headroom::simulate<Dtype>(std::move(policy), std::vector<double>(max_abs.begin(), max_abs.end()));
}

/// Takes a guard through steps with these norms of the gradients, or losses: which of them are spikes. For choosing window and
/// sigmas by a training that was recorded.
[[nodiscard]] inline SpikeSimulation simulate(const SpikeGuard& from, const std::vector<double>& values) {
  SpikeGuard guard = from;
  SpikeSimulation simulation;
  for (const double& value : values) {
    if (guard.is_spike(value)) simulation.spikes.push_back(simulation.steps);
    guard = std::move(guard).adjust(value);
    ++simulation.steps;
  }
  return simulation;
}

[[nodiscard]] inline SpikeSimulation simulate(const SpikeGuard& guard, const std::vector<float>& values) {
  return simulate(guard, std::vector<double>(values.begin(), values.end()));
}
[[nodiscard]] inline SpikeSimulation simulate(const SpikeGuard& guard, std::initializer_list<double> values) {
  return simulate(guard, std::vector<double>(values));
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
