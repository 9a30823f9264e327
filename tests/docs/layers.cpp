// Two layers with gradients; that of the second overflows in the second of two iterations.
#include <headroom/headroom.hpp>
#include <limits>
#include <vector>

struct Parameter {
  std::vector<float> weights, grads;
};

#include BLOCK

void Optimizer::step() {
  for (Parameter* p : parameters) p->weights[0] -= p->grads[0];
}

int main() {
  Parameter body{{0.0F}, {0.0F}}, head{{0.0F}, {0.0F}};
  Optimizer optimizer{{&body, &head}};
  headroom::GradScaler<> scaler;
  for (const float gradient : {2.0F, std::numeric_limits<float>::infinity()}) {
    body.grads = {scaler.scale(1.0F)};
    head.grads = {scaler.scale(gradient)};
    const auto result = scaler.step(optimizer);
    scaler.update();
    if (result.skipped && result.nonfinite->path != "[1]") return 1;
  }
  return body.weights[0] == -1.0F && head.weights[0] == -2.0F && scaler.get_scale() == 16384.0F ? 0
                                                                                                : 1;
}
