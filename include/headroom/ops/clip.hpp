#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/ops/transform.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

inline void check_max_norm(const double& max_norm) {
  const auto bits = bit_cast<std::uint64_t>(max_norm);
  const bool is_number = (bits & binary64::abs_mask) <= binary64::infinity_bits;
  const bool is_negative = (bits & binary64::sign_mask) != 0 && (bits & binary64::abs_mask) != 0;
  if (!is_number || is_negative) throw_bad_value("max_norm", max_norm, "0 or more (Inf: no clipping)");
}

/// The factor that brings `norm` down to `max_norm`; 1 where it is there already. As in JAX (optax.clip_by_global_norm):
/// nothing is added to the norm.
[[nodiscard]] inline double clip_factor(const GradientNorm& measured, const double& max_norm) noexcept {
  const auto is_infinite = [](const double& value) { return bit_cast<std::uint64_t>(value) == binary64::infinity_bits; };
  // A norm beyond all doubles, of doubles near the largest, would make zeros of them.
  const bool clips = measured.finite && !is_infinite(max_norm) && !is_infinite(measured.norm) && measured.norm > max_norm;
  return clips ? max_norm / measured.norm : 1.0;
}

/// tree *= factor, below 1; `bytes` of all leaves. A factor too small for a normal float comes in several.
template <class Executor, class Tree>
Findings multiply_in_place(const Executor& executor, double factor, std::size_t bytes, Tree& tree) {
  constexpr double smallest_normal = 0x1p-126, part = 0x1p-100;
  for (; factor > 0.0 && factor < smallest_normal; factor /= part) (void)run_pass(executor, Multiply{part}, bytes, tree);
  return run_pass(executor, Multiply{factor}, bytes, tree);
}

}  // namespace detail

/// Multiplies the tree by max_norm / norm where its L2 norm is above `max_norm`; else, and where it is not finite, leaves it as
/// it is. Returns what was measured before. Two passes: read, then multiply. Throws std::invalid_argument where max_norm is
/// negative or NaN.
template <class Executor, class Tree>
GradientNorm clip_by_global_norm(const Executor& executor, Tree&& tree, const double& max_norm) {
  detail::check_max_norm(max_norm);
  const std::size_t bytes = detail::check_trees(detail::CheckInPlace{}, tree);
  const GradientNorm measured = headroom::measure(executor, tree);
  const double factor = detail::clip_factor(measured, max_norm);
  if (factor < 1.0) (void)detail::multiply_in_place(executor, factor, bytes, tree);
  return measured;
}
template <class Tree>
GradientNorm clip_by_global_norm(Tree&& tree, const double& max_norm) {
  return headroom::clip_by_global_norm(sequential, tree, max_norm);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
