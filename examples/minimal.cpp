#include <cmath>
#include <cstdio>
#include <headroom/headroom.hpp>
#include <vector>

using headroom::half;

// Learns whether 2a > b. The master weights are float. Forward and backward use fp16.
struct Example {
  float a, b, label;
};
Example example(int i) {
  const float a = std::sin(static_cast<float>(i)), b = std::cos(1.7F * static_cast<float>(i));
  return {a, b, 2.0F * a > b ? 1.0F : -1.0F};
}
float score(const std::vector<half>& weights, const Example& x) {
  return static_cast<float>(weights[0]) * x.a + static_cast<float>(weights[1]) * x.b;
}

// One term of a mean over 8192 tokens times 50,000 words. Its gradients are below 2^-25, which fp16
// rounds to zero.
float exponential_loss(const std::vector<half>& weights, const Example& x) {
  return std::exp(-x.label * score(weights, x)) / (8192.0F * 50000.0F);
}
// The derivative of exp is exp, so the gradients are multiples of the loss. A scaled loss gives
// scaled gradients.
std::vector<half> backward(const Example& x, float loss) {
  return {half(-x.label * loss * x.a), half(-x.label * loss * x.b)};
}

// RMSprop. Its steps do not depend on the size of the gradients; Adam's do not either.
struct Optimizer {
  std::vector<float> squares{0.0F, 0.0F};
  void step(std::vector<float>& weights, const std::vector<float>& grads) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      squares[i] += 0.05F * (grads[i] * grads[i] - squares[i]);
      weights[i] -= 0.01F * grads[i] / (std::sqrt(squares[i]) + 1e-15F);
    }
  }
};

// Trains, and returns how many of 1000 new examples are classified correctly.
int train(headroom::DynamicLossScale loss_scale) {
  std::vector<float> weights{0.0F, 0.0F};
  Optimizer optimizer;
  for (int i = 0; i < 3000; ++i) {
    const auto weights16 = headroom::cast<half>(weights);
    const float loss = exponential_loss(weights16, example(i));
    const auto grads16 = backward(example(i), loss_scale.scale(loss));  // large enough for fp16
    // One pass: to float, unscaled, checked
    const auto [grads, report] = loss_scale.unscale(grads16);
    // Skips a step that overflowed
    if (report.finite) optimizer.step(weights, grads);
    // Halves on overflow, doubles after 2000 finite steps
    loss_scale = loss_scale.adjust(report);
  }
  int right = 0;
  for (int i = 3000; i < 4000; ++i)
    right += example(i).label * score(headroom::cast<half>(weights), example(i)) > 0.0F;
  return right;
}

int main() {
  const headroom::DynamicLossScale loss_scale;  // starts at 2^15
  const int scaled = train(loss_scale), unscaled = train(loss_scale.with_loss_scale(1.0F));
  std::printf("right of 1000: %d with loss scaling, %d without\n", scaled, unscaled);
  return scaled > 950 && unscaled == 0 ? 0 : 1;
}
