#pragma once

#include <headroom/config.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What one pass over gradients found. Values are those stored by the pass: after unscaling, where it unscales.
struct [[nodiscard]] GradientReport {
  bool finite = true;    ///< no Inf and no NaN; true where there are no gradients
  double max_abs = 0.0;  ///< the largest |gradient|; +Inf where not finite, 0 where there are none

  /// True where the step may be taken.
  constexpr explicit operator bool() const noexcept { return finite; }
};

/// A report of the passes that measure the norm as well.
struct [[nodiscard]] GradientNorm : GradientReport {
  double norm = 0.0;  ///< L2 norm over all elements, summed in double; +Inf where not finite, or beyond double
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
