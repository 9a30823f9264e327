// expect: nodiscard
#include <headroom/policy/dynamic.hpp>

#include <vector>

#pragma GCC diagnostic error "-Wunused-result"

void step(const headroom::DynamicLossScale& policy, std::vector<float>& grads) {
#ifdef HEADROOM_CONTROL
  if (policy.unscale_in_place(grads)) policy.scale_in_place(grads);
#else
  policy.unscale_in_place(grads);
#endif
}
