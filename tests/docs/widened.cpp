// One step with a gradient of 2^-25, which is zero in fp16 without a scale.
#include <headroom/headroom.hpp>
#include <vector>

struct Optimizer {
  static void step(std::vector<float>& weights, const std::vector<float>& grads) {
    weights[0] -= grads[0];
  }
};

int main() {
  headroom::GradScaler<> scaler;
  std::vector<float> weights{0.0F};
  const std::vector<headroom::half> grads16{headroom::half(scaler.scale(0x1p-25F))};
  Optimizer optimizer;
#include BLOCK
  return weights[0] == -0x1p-25F && scaler.policy().counter() == 1 ? 0 : 1;
}
