#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/pass.hpp>

#include <cstddef>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// `bytes` of all leaves.
template <class Executor, class Tree>
kernel::unchecked::WideNorm measure_checked(const Executor& executor, std::size_t bytes, const Tree& tree) {
  const Findings found = run_pass(executor, Measure{}, bytes, tree);
  const int exponent = kernel::unchecked::exponent_of_squared(found.report());
  if (exponent == 0) return kernel::unchecked::norm_of(found.report(), found.sum_of_squares, 0);
  const Findings prescaled = run_pass(executor, SumPrescaledSquares{exponent}, bytes, tree);
  return kernel::unchecked::norm_of(found.report(), prescaled.sum_of_squares, exponent);
}

}  // namespace detail

/// Finite, largest magnitude and L2 norm over all floating-point elements, in one read-only pass. Squares are summed in double
/// in a fixed order: the norm of a tree is the same, bit for bit, on every instruction set and any number of threads.
template <class Executor, class Tree>
[[nodiscard]] GradientNorm measure(const Executor& executor, const Tree& tree) {
  const std::size_t bytes = detail::check_trees(detail::CheckReadable{}, tree);
  return kernel::unchecked::rounded(detail::measure_checked(executor, bytes, tree));
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
