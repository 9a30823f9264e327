#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/state/fields.hpp>

#include <string>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// No loss scale, for training in float or bfloat16 with the same loop: jmp's NoOpLossScale. `scale` and `unscale` return the
/// tree itself, a reference to it if it is an lvalue, or for another dtype a converted tree; gradients are still checked if a
/// report is asked for. A 16-bit loss keeps its dtype, while other policies return float: write
/// static_cast<float>(loss_scale.scale(loss)) to fit all of them.
class NoOpLossScale : public LossScaleVerbs<NoOpLossScale> {
 public:
  [[nodiscard]] constexpr float loss_scale() const noexcept { return 1.0F; }
  [[nodiscard]] constexpr float inv_scale() const noexcept { return 1.0F; }
  [[nodiscard]] constexpr NoOpLossScale adjust(bool) const noexcept { return *this; }
  [[nodiscard]] constexpr NoOpLossScale adjust(const GradientReport&) const noexcept { return *this; }

  /// Returns the same policy, which has no settings. Throws std::invalid_argument if one is given.
  [[nodiscard]] NoOpLossScale with_settings(const StateDict& settings) const {
    detail::StateReader(settings).finish();
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
