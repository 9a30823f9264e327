#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/run.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// The report on a tree, which is only read.
template <class Executor, class Tree>
GradientReport max_abs_of(const Executor& executor, const Tree& tree, bool may_stop) {
  Pass pass{0};
  pass.may_stop = may_stop;
  return report_of(detail::plan_and_run<Ops<Op::max_abs>, false>(executor, pass, tree));
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

}  // namespace HEADROOM_BUILD
}  // namespace headroom
