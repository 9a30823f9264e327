// Two optimizers, whose gradients have a norm of 5 together; then one of them overflows.
#include <headroom/headroom.hpp>
#include <limits>
#include <tuple>
#include <vector>

struct Optimizer {
  std::vector<float> weights{0.0F}, grads{0.0F};
  std::vector<float>& gradients() { return grads; }
  void step() { weights[0] -= grads[0]; }
};

int main() {
  Optimizer encoder, decoder;
  headroom::GradScaler<> scaler;
  for (const float gradient : {3.0F, std::numeric_limits<float>::infinity()}) {
    encoder.grads = {scaler.scale(gradient)};
    decoder.grads = {scaler.scale(4.0F)};
#include BLOCK
  }
  return encoder.weights[0] == -0.6F && decoder.weights[0] == -0.8F &&
                 scaler.get_scale() == 16384.0F
             ? 0
             : 1;
}
