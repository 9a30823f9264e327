// Two micro-batches whose gradients are 1 and 2 without the scale. The norm of the sum is 30 before
// it is clipped.
#include <algorithm>
#include <headroom/headroom.hpp>
#include <vector>

using Gradients16 = std::vector<headroom::half>;

static Gradients16 backward(const Gradients16& weights16, float micro_batch, float loss_scale) {
  return Gradients16(weights16.size(), headroom::half(micro_batch * loss_scale));
}
static void optimizer_step(std::vector<float>& weights, const std::vector<float>& gradients) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= gradients[i];
}

int main() {
  headroom::LossScaleConfig config;
  config.initial_scale = 1024.0F;
  headroom::DynamicLossScale loss_scale(config);
  std::vector<float> weights(100), main_grads(100, 7.0F);
  const Gradients16 weights16(100);
  const std::vector<float> micro_batches{1.0F, 2.0F};
#include BLOCK
  return main_grads == std::vector<float>(100, 1.0F) && weights[99] == -1.0F &&
                 loss_scale.counter() == 1
             ? 0
             : 1;
}
