#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/policy_verbs.hpp>
#include <headroom/report.hpp>

#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The verbs of a policy, inherited by a class that has `loss_scale()`: `class MyPolicy : public LossScaleVerbs<MyPolicy>`.
/// Each calls the free verb of the same name with the policy's scale, takes an executor as an optional first argument, and
/// leaves the policy as it is. They need <headroom/headroom.hpp>.
template <class Policy>
class LossScaleVerbs {
 public:
  /// scale(tree, loss_scale): a copy of the tree, usually the loss, times the scale.
  template <class... Args>
  [[nodiscard]] constexpr decltype(auto) scale(Args&&... args) const {
    return verbs<Args...>::scale(self(), std::forward<Args>(args)...);
  }
  template <class... Args>
  void scale_in_place(Args&&... args) const {
    verbs<Args...>::scale_in_place(self(), std::forward<Args>(args)...);
  }

  /// unscale<To>(tree, loss_scale): `auto [grads, report] = policy.unscale<float>(gradients);`
  template <class To = same_dtype, class... Args>
  [[nodiscard]] auto unscale(Args&&... args) const {
    return verbs<Args...>::template unscale<To>(self(), std::forward<Args>(args)...);
  }
  template <class... Args>
  [[nodiscard]] GradientReport unscale_in_place(Args&&... args) const {
    return verbs<Args...>::unscale_in_place(self(), std::forward<Args>(args)...);
  }
  /// unscale_into(source, destination, loss_scale)
  template <class... Args>
  [[nodiscard]] GradientReport unscale_into(Args&&... args) const {
    return verbs<Args...>::unscale_into(self(), std::forward<Args>(args)...);
  }
  /// unscale_and_clip_in_place(tree, loss_scale, max_norm)
  template <class... Args>
  [[nodiscard]] GradientNorm unscale_and_clip_in_place(Args&&... args) const {
    return verbs<Args...>::unscale_and_clip_in_place(self(), std::forward<Args>(args)...);
  }

 private:
  template <class... Args>
  using verbs = detail::PolicyVerbs<Policy, void(Args...)>;

  [[nodiscard]] constexpr const Policy& self() const noexcept { return static_cast<const Policy&>(*this); }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
