// Minimises sum (w - 1)^4 with fp16 gradients, which overflow at the first scales: a step of SAM,
// then one of an optimizer that calls the closure, with line search.
#include <cmath>
#include <headroom/headroom.hpp>
#include <stdexcept>
#include <vector>

static void add(std::vector<float>& weights, const std::vector<float>& by, double factor) {
  for (std::size_t i = 0; i < by.size(); ++i) weights[i] += static_cast<float>(factor * by[i]);
}

struct Optimizer {
  std::vector<float> weights{3.0F, -1.0F}, grads{0.0F, 0.0F};
  std::vector<float> after_sam;
  int evaluations = 0, rejected = 0;
  std::vector<float>& gradients() { return grads; }
  void step() {
    add(weights, grads, -0.01);
    after_sam = weights;
  }
  template <class Closure>
  void step(const Closure& closure) {
    const float before = closure();
    const auto from = weights, direction = grads;
    for (double rate = 1.0;; rate /= 2.0) {
      weights = from;
      add(weights, direction, -rate);
      if (closure() < before) return;
      ++rejected;
    }
  }
};
static float backward(Optimizer& optimizer, float scale) {
  ++optimizer.evaluations;
  float loss = 0.0F;
  for (std::size_t i = 0; i < 2; ++i) {
    const float distance = optimizer.weights[i] - 1.0F;
    loss += std::pow(distance, 4.0F);
    optimizer.grads[i] =
        static_cast<float>(headroom::half(4.0F * std::pow(distance, 3.0F) * scale));
  }
  return loss;
}

int main() {
  Optimizer optimizer;
  headroom::GradScaler<> scaler;
#include BLOCK
  // Where SAM looks, each weight is 2 + 0.05 / sqrt(2) from 1. The gradient there, about 33.7, is
  // finite in fp16 at 1024.
  const bool climbed = std::abs(optimizer.after_sam[0] - (3.0F - 0.01F * 33.71875F)) < 1e-6F;
  const bool is_lower =
      std::abs(optimizer.weights[0] - 1.0F) < std::abs(optimizer.after_sam[0] - 1.0F);
  return climbed && is_lower && optimizer.rejected > 0 && optimizer.evaluations > 7 ? 0 : 1;
}
