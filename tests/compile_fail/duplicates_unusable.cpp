// expect: headroom: duplicate_gradients of this optimizer cannot be called
#include <headroom/training/grad_scaler.hpp>

#include <vector>

struct Optimizer {
  std::vector<std::vector<float>> grads;
  std::vector<std::vector<float>>& gradients() { return grads; }
  void step() {}
#ifdef HEADROOM_CONTROL
  std::vector<float>& duplicate_gradients() { return grads[0]; }
#else
  std::vector<float> duplicate_gradients;
#endif
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { (void)scaler.unscale_and_clip_(optimizer, 1.0); }
