#pragma once

#include <headroom/config.hpp>
#include <headroom/report.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

struct same_dtype;

/// The verbs of a policy, inherited by a class that has `loss_scale()`: `class MyPolicy : public LossScaleVerbs<MyPolicy>`.
/// Each calls the free verb of the same name with the policy's scale, takes an executor as an optional first argument, and
/// leaves the policy as it is. Policies know nothing of trees: to call these, include <headroom/headroom.hpp>, which defines
/// them in <headroom/ops/policy_verbs.hpp>.
template <class Policy>
class LossScaleVerbs {
 public:
  /// scale(tree, loss_scale): a copy of the tree, usually the loss, times the scale.
  template <class... Args>
  [[nodiscard]] constexpr decltype(auto) scale(Args&&... args) const;
  template <class... Args>
  void scale_in_place(Args&&... args) const;

  /// unscale<To>(tree, loss_scale): `auto [grads, report] = policy.unscale<float>(gradients);`
  template <class To = same_dtype, class... Args>
  [[nodiscard]] auto unscale(Args&&... args) const;
  template <class... Args>
  [[nodiscard]] GradientReport unscale_in_place(Args&&... args) const;
  /// unscale_into(source, destination, loss_scale)
  template <class... Args>
  [[nodiscard]] GradientReport unscale_into(Args&&... args) const;
  /// accumulate_into(source, destination, loss_scale)
  template <class... Args>
  [[nodiscard]] GradientReport accumulate_into(Args&&... args) const;
  /// unscale_and_clip_in_place(tree, loss_scale, max_norm)
  template <class Tree>
  [[nodiscard]] GradientNorm unscale_and_clip_in_place(Tree&& tree, const double& max_norm) const;
  template <class Executor, class Tree>
  [[nodiscard]] GradientNorm unscale_and_clip_in_place(const Executor& executor, Tree&& tree, const double& max_norm) const;

 private:
  [[nodiscard]] constexpr float own_scale() const { return static_cast<const Policy&>(*this).loss_scale(); }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
