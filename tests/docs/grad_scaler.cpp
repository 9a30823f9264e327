// Three batches whose gradients are 0.5, an Inf, and 3, which is clipped to 1.
#include <headroom/headroom.hpp>
#include <limits>
#include <vector>

static const std::vector<float> batches{0.5F, std::numeric_limits<float>::infinity(), 3.0F};
static std::vector<float> backward(const std::vector<float>& weights, float batch, float loss) {
  return std::vector<float>(weights.size(), batch * loss);
}

#include BLOCK

int main() {
  Sgd optimizer{{0.0F}, {}};
  train(optimizer);
  return optimizer.weights[0] == 0.0F - 0.1F * 0.5F - 0.1F ? 0 : 1;
}
