// One step, whose gradients are the weights themselves.
#include <headroom/headroom.hpp>
#include <vector>

using Weights = std::vector<float>;

static std::vector<headroom::half> backward(const Weights& weights, float loss) {
  return headroom::cast<headroom::half>(headroom::scale(weights, loss));
}
static void update(Weights& weights, const Weights& grads) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.5F * grads[i];
}

int main() {
  Weights weights{1.0F, 0.25F};
  headroom::DynamicLossScale loss_scale;
#include BLOCK
  return weights == Weights{0.5F, 0.125F} && loss_scale.counter() == 1 ? 0 : 1;
}
