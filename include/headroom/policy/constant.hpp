#pragma once

#include <headroom/policy/verbs.hpp>

namespace headroom {

/// A loss scale that never changes; jmp's StaticLossScale. The caller still skips the step on overflow.
class ConstantLossScale : public LossScaleVerbs<ConstantLossScale> {
 public:
  /// Throws std::invalid_argument where `scale` is not in [2^-126, 2^126].
  constexpr explicit ConstantLossScale(const float& scale) : scale_(scale) { detail::check_loss_scale("scale", scale_); }

  [[nodiscard]] constexpr float loss_scale() const noexcept { return scale_; }
  [[nodiscard]] constexpr float inv_scale() const noexcept { return 1.0F / scale_; }
  [[nodiscard]] constexpr ConstantLossScale adjust(bool) const noexcept { return *this; }
  [[nodiscard]] constexpr ConstantLossScale adjust(const GradientReport&) const noexcept { return *this; }

  friend constexpr bool operator==(const ConstantLossScale& a, const ConstantLossScale& b) noexcept {
    return a.scale_ == b.scale_;
  }
  friend constexpr bool operator!=(const ConstantLossScale& a, const ConstantLossScale& b) noexcept { return !(a == b); }

 private:
  float scale_;
};

}  // namespace headroom
