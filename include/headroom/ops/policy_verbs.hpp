#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/ops/scale.hpp>
#include <headroom/ops/unscale.hpp>
#include <headroom/policy/verbs.hpp>

#include <type_traits>
#include <utility>

// The verbs as members of policies: see policy/verbs.hpp.

namespace headroom {
inline namespace HEADROOM_BUILD {
class NoOpLossScale;

namespace detail {

/// Without a scale, trees pass through untouched.
template <class Policy>
inline constexpr bool has_scale = !std::is_same_v<Policy, NoOpLossScale>;
template <class Tree>
constexpr Tree pass_through(Tree&& tree) {
  check_has_floats<bare<Tree>>();
  return std::forward<Tree>(tree);
}
template <class Executor, class Tree>
constexpr Tree pass_through(const Executor&, Tree&& tree) {
  return detail::pass_through(std::forward<Tree>(tree));
}
/// The same with a report; unless their dtype changes.
template <class To, class Executor, class Tree>
auto unscale_by_1(const Executor& executor, Tree&& tree) {
  if constexpr (std::is_same_v<To, same_dtype> || every_leaf_is_v<Tree, To>) {
    const GradientReport report = detail::max_abs_of(executor, tree, false);
    return Unscaled<Tree>{std::forward<Tree>(tree), report};
  } else {
    return headroom::unscale<To>(executor, std::forward<Tree>(tree), 1.0F);
  }
}
template <class To, class Tree>
auto unscale_by_1(Tree&& tree) {
  return detail::unscale_by_1<To>(sequential, std::forward<Tree>(tree));
}

}  // namespace detail

template <class Policy>
template <class... Args>
constexpr decltype(auto) LossScaleVerbs<Policy>::scale(Args&&... args) const {
  if constexpr (detail::has_scale<Policy>) {
    return headroom::scale(std::forward<Args>(args)..., static_cast<double>(own_scale()));
  } else {
    return detail::pass_through(std::forward<Args>(args)...);
  }
}
template <class Policy>
template <class... Args>
void LossScaleVerbs<Policy>::scale_in_place(Args&&... args) const {
  if constexpr (detail::has_scale<Policy>) {
    headroom::scale_in_place(std::forward<Args>(args)..., static_cast<double>(own_scale()));
  } else {
    (void)detail::pass_through(args...);
  }
}
template <class Policy>
template <class To, class... Args>
auto LossScaleVerbs<Policy>::unscale(Args&&... args) const {
  if constexpr (detail::has_scale<Policy>) {
    return headroom::unscale<To>(std::forward<Args>(args)..., own_scale());
  } else {
    return detail::unscale_by_1<To>(std::forward<Args>(args)...);
  }
}
template <class Policy>
template <class... Args>
GradientReport LossScaleVerbs<Policy>::unscale_in_place(Args&&... args) const {
  if constexpr (detail::has_scale<Policy>) {
    return headroom::unscale_in_place(std::forward<Args>(args)..., own_scale());
  } else {
    return detail::unscale_by_1<same_dtype>(args...).report;
  }
}
template <class Policy>
template <class... Args>
GradientReport LossScaleVerbs<Policy>::unscale_into(Args&&... args) const {
  return headroom::unscale_into(std::forward<Args>(args)..., own_scale());
}
template <class Policy>
template <class... Args>
GradientReport LossScaleVerbs<Policy>::accumulate_into(Args&&... args) const {
  return headroom::accumulate_into(std::forward<Args>(args)..., own_scale());
}
template <class Policy>
template <class Tree>
GradientNorm LossScaleVerbs<Policy>::unscale_and_clip_in_place(Tree&& tree, const double& max_norm) const {
  return headroom::unscale_and_clip_in_place(tree, own_scale(), max_norm);
}
template <class Policy>
template <class Executor, class Tree>
GradientNorm LossScaleVerbs<Policy>::unscale_and_clip_in_place(const Executor& executor, Tree&& tree,
                                                               const double& max_norm) const {
  return headroom::unscale_and_clip_in_place(executor, tree, own_scale(), max_norm);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
