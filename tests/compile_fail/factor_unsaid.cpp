// expect: headroom: this step takes a GradientFactor
#include <headroom/training/grad_scaler.hpp>

#include <vector>

struct Optimizer {
#ifdef HEADROOM_CONTROL
  static constexpr bool takes_gradient_factor = true;
#endif
  std::vector<float> grads;
  std::vector<float>& gradients() { return grads; }
  void step(headroom::GradientFactor, float) {}
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { scaler.step(optimizer, 0.1F); }
