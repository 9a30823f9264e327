// expect: headroom: this optimizer has no public step that takes these arguments
#include <headroom/headroom.hpp>

#include <vector>

struct Optimizer {
  std::vector<float> grads;
  std::vector<float>& gradients() { return grads; }
  void step(double) {}
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) {
#ifdef HEADROOM_CONTROL
  (void)scaler.step(optimizer, 0.1);
#else
  (void)scaler.step(optimizer);
#endif
}
