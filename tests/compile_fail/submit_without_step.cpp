// expect: headroom: this optimizer has no member step(gradients, args...)
#include <headroom/training/async_grad_scaler.hpp>

#include <vector>

struct Optimizer {
#ifdef HEADROOM_CONTROL
  void step(std::vector<float>&, float) {}
#else
  void step(float) {}
#endif
};

void train(headroom::AsyncGradScaler<>& scaler, Optimizer& optimizer) {
  (void)scaler.submit_gradients(optimizer, std::vector<float>{1.0F}, 0.1F);
}
