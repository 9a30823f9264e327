#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/policy_verbs.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/ops/scale.hpp>
#include <headroom/ops/unscale.hpp>

#include <type_traits>
#include <utility>

// The verbs as members of policies: see policy/verbs.hpp.

namespace headroom {
inline namespace HEADROOM_BUILD {
class NoOpLossScale;

namespace detail {

/// Those of a policy that has a scale.
struct ScalingVerbs {
  template <class Policy, class... Args>
  static auto scale(const Policy& policy, Args&&... args) {
    return headroom::scale(std::forward<Args>(args)..., static_cast<double>(policy.loss_scale()));
  }
  template <class Policy, class... Args>
  static void scale_in_place(const Policy& policy, Args&&... args) {
    headroom::scale_in_place(std::forward<Args>(args)..., static_cast<double>(policy.loss_scale()));
  }
  template <class To, class Policy, class... Args>
  static auto unscale(const Policy& policy, Args&&... args) {
    return headroom::unscale<To>(std::forward<Args>(args)..., policy.loss_scale());
  }
  template <class Policy, class... Args>
  static GradientReport unscale_in_place(const Policy& policy, Args&&... args) {
    return headroom::unscale_in_place(std::forward<Args>(args)..., policy.loss_scale());
  }
  template <class Policy, class... Args>
  static GradientReport unscale_into(const Policy& policy, Args&&... args) {
    return headroom::unscale_into(std::forward<Args>(args)..., policy.loss_scale());
  }
  template <class Policy, class Tree>
  static GradientNorm unscale_and_clip_in_place(const Policy& policy, Tree&& tree, const double& max_norm) {
    return headroom::unscale_and_clip_in_place(tree, policy.loss_scale(), max_norm);
  }
  template <class Policy, class Executor, class Tree>
  static GradientNorm unscale_and_clip_in_place(const Policy& policy, const Executor& executor, Tree&& tree,
                                                const double& max_norm) {
    return headroom::unscale_and_clip_in_place(executor, tree, policy.loss_scale(), max_norm);
  }
};

template <class Policy, class Call>
struct PolicyVerbs : ScalingVerbs {};
/// Without a scale, trees pass through untouched; verbs that return a report read them.
template <class Call>
struct PolicyVerbs<NoOpLossScale, Call> : ScalingVerbs {
  template <class Tree>
  static constexpr Tree scale(const NoOpLossScale&, Tree&& tree) {
    check_has_floats<bare<Tree>>();
    return std::forward<Tree>(tree);
  }
  template <class Executor, class Tree>
  static constexpr Tree scale(const NoOpLossScale& policy, const Executor&, Tree&& tree) {
    return scale(policy, std::forward<Tree>(tree));
  }
  template <class Tree>
  static void scale_in_place(const NoOpLossScale&, const Tree&) {
    check_has_floats<Tree>();
  }
  template <class Executor, class Tree>
  static void scale_in_place(const NoOpLossScale& policy, const Executor&, const Tree& tree) {
    scale_in_place(policy, tree);
  }
  template <class To, class Executor, class Tree>
  static auto unscale(const NoOpLossScale&, const Executor& executor, Tree&& tree) {
    if constexpr (std::is_same_v<To, same_dtype> || every_leaf_is_v<Tree, To>) {
      const GradientReport report = detail::max_abs_of(executor, tree, false);
      return Unscaled<Tree>{std::forward<Tree>(tree), report};
    } else {
      return headroom::unscale<To>(executor, std::forward<Tree>(tree), 1.0F);
    }
  }
  template <class To, class Tree>
  static auto unscale(const NoOpLossScale& policy, Tree&& tree) {
    return unscale<To>(policy, sequential, std::forward<Tree>(tree));
  }
  template <class Executor, class Tree>
  static GradientReport unscale_in_place(const NoOpLossScale&, const Executor& executor, const Tree& tree) {
    return detail::max_abs_of(executor, tree, false);
  }
  template <class Tree>
  static GradientReport unscale_in_place(const NoOpLossScale&, const Tree& tree) {
    return detail::max_abs_of(sequential, tree, false);
  }
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
