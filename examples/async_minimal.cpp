#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <future>
#include <headroom/headroom.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <vector>

using Weights = std::vector<float>;

// Gradient descent with two copies of the weights. A step reads the newer copy and writes the other
// one. Meanwhile the next batch uses the newer copy.
struct Optimizer {
  std::array<Weights, 2> weights{Weights{0.0F}, Weights{0.0F}};
  std::size_t newest = 0;

  std::size_t step(const Weights& gradients) {
    const Weights& now = weights[newest];
    newest = 1 - newest;
    for (std::size_t i = 0; i < now.size(); ++i) weights[newest][i] = now[i] - 0.05F * gradients[i];
    return newest;
  }
};

int main() {
  Optimizer optimizer;
  // Declared after the optimizer: its destructor waits for the running step
  headroom::AsyncGradScaler<> scaler;
  std::array<Weights, 2> gradients{Weights{0.0F}, Weights{0.0F}};
  std::future<headroom::StepResult<std::size_t>> previous;
  std::size_t newest = 0;  // the newest copy that no running step writes

  for (std::size_t k = 0; k < 200; ++k) {
    // The loss is (w - 3)^2. Step k - 1 may still be running. It writes the other copy and reads
    // the other gradients.
    const float error = optimizer.weights[newest][0] - 3.0F;
    gradients[k % 2][0] = 2.0F * error * scaler.scale(1.0F);

    // The other thread unscales, checks, steps
    auto result = scaler.submit_gradients(optimizer, std::ref(gradients[k % 2]));
    // Waits for step k - 1 only
    scaler.update();
    // A skipped step returns nothing
    if (previous.valid()) newest = previous.get().value.value_or(newest);
    previous = std::move(result);
  }
  scaler.synchronize();

  const double w = static_cast<double>(optimizer.weights[optimizer.newest][0]);
  std::printf("w = %.3f, loss scale %g\n", w, static_cast<double>(scaler.get_scale()));
  return std::abs(w - 3.0) < 1e-3 ? 0 : 1;
}
