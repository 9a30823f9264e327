// expect: headroom: this optimizer has duplicate_gradients of its own gradients, but is given others
#include <headroom/training/async_grad_scaler.hpp>

#include <vector>

struct Optimizer {
  void step(std::vector<float>&) {}
#ifdef HEADROOM_CONTROL
  std::vector<float>& duplicate_gradients(std::vector<float>& grads) { return grads; }
#else
  std::vector<double>& duplicate_gradients(std::vector<double>& grads) { return grads; }
#endif
};

void train(headroom::AsyncGradScaler<>& scaler, Optimizer& optimizer) {
  (void)scaler.submit_gradients_and_clip(optimizer, std::vector<float>(1), 1.0);
}
