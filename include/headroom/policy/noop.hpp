#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/state/fields.hpp>

#include <string>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// No loss scale, for training in float or bfloat16 with the same loop: jmp's NoOpLossScale. Trees pass through untouched, an
/// lvalue as the very same object; gradients are still checked if a report is asked for.
class NoOpLossScale : public LossScaleVerbs<NoOpLossScale> {
 public:
  [[nodiscard]] constexpr float loss_scale() const noexcept { return 1.0F; }
  [[nodiscard]] constexpr float inv_scale() const noexcept { return 1.0F; }
  [[nodiscard]] constexpr NoOpLossScale adjust(bool) const noexcept { return *this; }
  [[nodiscard]] constexpr NoOpLossScale adjust(const GradientReport&) const noexcept { return *this; }

  /// The argument itself; a reference to it if it is an lvalue. A 16-bit loss keeps its dtype, while other policies return
  /// float: write static_cast<float>(loss_scale.scale(loss)) to fit all of them.
  template <class... Args>
  [[nodiscard]] constexpr decltype(auto) scale(Args&&... args) const {
    return detail::PassThroughVerbs<void(Args...)>::scale(std::forward<Args>(args)...);
  }
  template <class... Args>
  void scale_in_place(Args&&... args) const {
    detail::PassThroughVerbs<void(Args...)>::scale_in_place(std::forward<Args>(args)...);
  }
  /// The argument itself and its report; for a dtype other than the tree's, a converted tree.
  template <class To = same_dtype, class... Args>
  [[nodiscard]] auto unscale(Args&&... args) const {
    return detail::PassThroughVerbs<void(Args...)>::template unscale<To>(std::forward<Args>(args)...);
  }
  template <class... Args>
  GradientReport unscale_in_place(Args&&... args) const {
    return detail::PassThroughVerbs<void(Args...)>::unscale_in_place(std::forward<Args>(args)...);
  }

  /// Returns the same policy, which has no settings. Throws std::invalid_argument if one is given.
  [[nodiscard]] NoOpLossScale with_settings(const StateDict& settings) const {
    detail::StateReader(settings, false).finish();
    return {};
  }

  [[nodiscard]] static std::string policy_name() { return "noop"; }
  [[nodiscard]] StateDict state_dict() const { return detail::StateWriter(policy_name()).take(); }
  /// Throws std::invalid_argument if the state is of something else.
  [[nodiscard]] static NoOpLossScale from_state_dict(const StateDict& dict) {
    detail::StateReader(dict, policy_name()).finish();
    return {};
  }

  friend constexpr bool operator==(NoOpLossScale, NoOpLossScale) noexcept { return true; }
  friend constexpr bool operator!=(NoOpLossScale, NoOpLossScale) noexcept { return false; }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
