// Two iterations of an engine whose backward adds to the gradients. The first overflows.
#include <algorithm>
#include <headroom/headroom.hpp>
#include <vector>

struct Model {
  std::vector<float> weights, grads;
};
static void backward(Model& model, float seed) {
  for (float& gradient : model.grads) gradient += 2.0F * seed;
}
static void step(Model& model) {
  for (std::size_t i = 0; i < model.grads.size(); ++i) model.weights[i] -= model.grads[i];
}
static void clear(std::vector<float>& grads) { std::fill(grads.begin(), grads.end(), 0.0F); }

int main() {
  headroom::LossScaleConfig config;
  config.initial_scale = 0x1p126F;
  headroom::DynamicLossScale loss_scale(config);
  Model model{{0.0F}, {0x1p127F}};
  for (int iteration = 0; iteration < 2; ++iteration) {
#include BLOCK
  }
  return model.weights[0] == -2.0F && loss_scale.loss_scale() == 0x1p125F ? 0 : 1;
}
