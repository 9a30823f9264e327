#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/pass.hpp>

#include <cstddef>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Finite, largest magnitude and L2 norm over all floating-point elements, in one read-only pass. Squares are summed in double
/// in a fixed order: the norm of a tree is the same, bit for bit, on every instruction set and any number of threads.
template <class Executor, class Tree>
[[nodiscard]] GradientNorm measure(const Executor& executor, const Tree& tree) {
  const std::size_t bytes = detail::check_trees(detail::CheckReadable{}, tree);
  const detail::Findings found = detail::run_pass(executor, detail::Measure{}, bytes, tree);
  if (!kernel::unchecked::squares_need_prescale(found.report())) {
    return kernel::unchecked::norm_of(found.report(), found.sum_of_squares, 1.0);
  }
  const double prescale = kernel::unchecked::prescale_for(found.report().max_abs);
  const detail::Findings prescaled = detail::run_pass(executor, detail::SumPrescaledSquares{prescale}, bytes, tree);
  return kernel::unchecked::norm_of(found.report(), prescaled.sum_of_squares, prescale);
}
template <class Tree>
[[nodiscard]] GradientNorm measure(const Tree& tree) {
  return headroom::measure(sequential, tree);
}

/// The L2 norm alone; +Inf where an element is Inf or NaN.
template <class Executor, class Tree>
[[nodiscard]] double global_norm(const Executor& executor, const Tree& tree) {
  return headroom::measure(executor, tree).norm;
}
template <class Tree>
[[nodiscard]] double global_norm(const Tree& tree) {
  return headroom::measure(tree).norm;
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
