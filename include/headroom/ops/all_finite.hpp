#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/pass.hpp>

#include <cstddef>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Whether no floating-point element is Inf or NaN; true for a tree without any. Stops early: at the first piece of 65,536
/// elements that holds one. Elements are classified one by one, so large finite values are never taken for an overflow (as they
/// are where a sum or a norm is tested), and by their bits, so it holds under -ffast-math.
template <class Executor, class Tree>
[[nodiscard]] bool all_finite(const Executor& executor, const Tree& tree) {
  const std::size_t bytes = detail::check_trees(detail::CheckReadable{}, tree);
  return detail::run_pass(executor, detail::CheckFinite{}, bytes, tree).finite();
}
template <class Tree>
[[nodiscard]] bool all_finite(const Tree& tree) {
  return headroom::all_finite(sequential, tree);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
