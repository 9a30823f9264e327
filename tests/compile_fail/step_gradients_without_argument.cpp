// expect: headroom: step_gradients calls f(gradients) with a reference to the unscaled tree
#include <headroom/headroom.hpp>

#include <vector>

void train(headroom::GradScaler<>& scaler, std::vector<float>& gradients) {
#ifdef HEADROOM_CONTROL
  (void)scaler.step_gradients(gradients, [](auto&) {});
#else
  (void)scaler.step_gradients(gradients, [] {});
#endif
}
