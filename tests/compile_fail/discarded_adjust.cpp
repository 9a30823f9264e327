// expect: adjust
// expect: nodiscard
#include <headroom/policy/dynamic.hpp>

#pragma GCC diagnostic error "-Wunused-result"

void step(headroom::DynamicLossScale& policy, bool grads_finite) {
#ifdef HEADROOM_CONTROL
  policy = policy.adjust(grads_finite);
#else
  policy.adjust(grads_finite);
#endif
}
