// expect: headroom: gradients of an optimizer that takes a GradientFactor stay scaled
#include <headroom/training/grad_scaler.hpp>

#include <vector>

struct Optimizer {
  static constexpr bool takes_gradient_factor = true;
  std::vector<float> grads;
  std::vector<float>& gradients() { return grads; }
  void step(headroom::GradientFactor) {}
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) {
#ifdef HEADROOM_CONTROL
  scaler.unscale_and_clip_(optimizer, 1.0);
#else
  scaler.unscale_(optimizer);
#endif
}
