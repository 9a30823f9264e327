// Three steps of a model of two tensors, the last with an Inf. The loss scale, which starts at 4,
// doubles after each finite step and halves after the Inf.
#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>
#include <limits>
#include <vector>

template <class T>
struct ModelOf {
  std::vector<T> body, head;
  HEADROOM_TREE(ModelOf, body, head);
};
using Model = ModelOf<float>;
using Batch = float;

Model backward(const Model& weights, Batch batch, float loss_scale) {
  return {{batch * weights.body[0] * loss_scale}, {batch * loss_scale}};
}
int steps = 0;
void step(Model& model, const Model& grads) {
  model.body[0] -= grads.body[0];
  ++steps;
}

int main() {
  Model model{{2.0F}, {0.0F}};
  const std::vector<Batch> batches{0.25F, 0.25F, std::numeric_limits<float>::infinity()};
  headroom::LossScaleConfig config;
  config.initial_scale = 4.0F;
  config.growth_interval = 1;
  headroom::DynamicLossScale loss_scale(config);
#include BLOCK
  // At loss scale 8, the largest gradients are those of the first step: 4 in the body, 2 in the
  // head.
  const bool scales_follow =
      grad_scales.scales()[0] == 57344.0F / 4 && grad_scales.scales()[1] == 57344.0F / 2;
  return steps == 2 && loss_scale.loss_scale() == 8.0F && scales_follow ? 0 : 1;
}
