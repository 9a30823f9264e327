// The loop of examples/minimal.cpp, with the rest of that file around it.
#define main main_of_the_example
#include "../../examples/minimal.cpp"
#undef main

int main() {
  headroom::DynamicLossScale loss_scale;
  std::vector<float> weights{0.0F, 0.0F};
  Optimizer optimizer;
#include BLOCK
  return weights[0] > 1.5F * -weights[1] && weights[1] < 0.0F && loss_scale.loss_scale() > 32768.0F ? 0 : 1;
}
