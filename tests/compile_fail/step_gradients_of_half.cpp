// expect: headroom: step_gradients calls f(gradients) with a reference to the unscaled tree
#include <headroom/headroom.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
using Element = float;
#else
using Element = headroom::half;
#endif

void train(headroom::GradScaler<>& scaler, const std::vector<headroom::half>& gradients) {
  (void)scaler.step_gradients(gradients, [](const std::vector<Element>&) {});
}
