// expect: headroom: the gradients of this optimizer come as a copy
#include <headroom/training/grad_scaler.hpp>

#include <vector>

struct Gradients {
#ifdef HEADROOM_CONTROL
  std::vector<float>& weight;
#else
  std::vector<float> weight;
#endif
  HEADROOM_TREE(Gradients, weight)
};
struct Optimizer {
  Gradients gradients() { return {grads}; }
  void step() {}
  std::vector<float> grads;
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { (void)scaler.step(optimizer); }
