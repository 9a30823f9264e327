// expect: headroom: fp16 and 8-bit gradients that are unscaled in place become 0
// expect: unscale_in_place<headroom::allow_fp16_gradients>
#include <headroom/headroom.hpp>

#include <tuple>
#include <vector>

bool unscale(const headroom::DynamicLossScale& loss_scale,
             std::tuple<float, std::vector<headroom::half>>& gradients) {
#ifdef HEADROOM_CONTROL
  return loss_scale.unscale_in_place<headroom::allow_fp16_gradients>(gradients).finite;
#else
  return loss_scale.unscale_in_place(gradients).finite;
#endif
}
