#pragma once

#include <headroom/ops/run.hpp>

// The verbs that only read a tree and say something about all of it.

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// Finite, largest magnitude and L2 norm over all floating-point elements, in one read-only pass. Squares are summed in a
/// fixed order, in float over blocks of 512 elements and in double from there on: the norm of a tree is the same, bit for bit,
/// on every instruction set and any number of threads, and its relative error is below 2^-21, whatever the magnitudes, up
/// to 10^14 elements. Doubles are summed in double throughout; their squares overflow beyond 2^512, and underflow
/// below 2^-538.
template <class Executor, class Tree>
[[nodiscard]] GradientNorm measure(const Executor& executor, const Tree& tree) {
  using Ops = detail::Ops<detail::Op::measure>;
  return detail::norm_of(detail::plan_and_run<Ops, detail::Access::read>(executor, detail::Pass{0}, tree));
}
template <class Tree>
[[nodiscard]] GradientNorm measure(const Tree& tree) {
  return headroom::measure(sequential, tree);
}

/// The L2 norm alone; +Inf if an element is Inf or NaN.
template <class Executor, class Tree>
[[nodiscard]] double global_norm(const Executor& executor, const Tree& tree) {
  return headroom::measure(executor, tree).norm;
}
template <class Tree>
[[nodiscard]] double global_norm(const Tree& tree) {
  return headroom::measure(tree).norm;
}

namespace detail {

/// The report on a tree, which is only read.
template <class Executor, class Tree>
GradientReport max_abs_of(const Executor& executor, const Tree& tree, bool may_stop) {
  Pass pass{0};
  pass.may_stop = may_stop;
  return report_of(detail::plan_and_run<Ops<Op::max_abs>, Access::read>(executor, pass, tree));
}

}  // namespace detail

/// Whether no floating-point element is Inf or NaN; true for a tree without elements. Stops early, at the first chunk of 65,536
/// elements that holds one. Elements are classified one by one, so large finite values are never mistaken for an overflow, as
/// they are by a test of a sum or a norm; and by their bits, so the answer is right under -ffast-math.
template <class Executor, class Tree>
[[nodiscard]] bool all_finite(const Executor& executor, const Tree& tree) {
  return detail::max_abs_of(executor, tree, true).finite;
}
template <class Tree>
[[nodiscard]] bool all_finite(const Tree& tree) {
  return headroom::all_finite(sequential, tree);
}

HEADROOM_DETAIL_END_NAMESPACE
