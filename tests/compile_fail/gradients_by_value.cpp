// expect: headroom: the gradients of this optimizer come as a copy
#include <headroom/training/grad_scaler.hpp>

#include <vector>

struct Optimizer {
#ifdef HEADROOM_CONTROL
  std::vector<float>& gradients() { return grads; }
#else
  std::vector<float> gradients() { return grads; }
#endif
  void step() {}
  std::vector<float> grads;
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { (void)scaler.step(optimizer); }
