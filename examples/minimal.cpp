#include <cmath>
#include <cstdio>
#include <headroom/headroom.hpp>
#include <vector>

// Learns y = 2a - b in mixed precision. The inputs are small and so are the gradients: below 2^-25, where fp16 has only 0.
int main() {
  std::vector<float> weights{0.0F, 0.0F};  // the master weights stay float
  headroom::DynamicLossScale scaler;       // 2^15, doubles after 2000 finite steps, halves on overflow

  for (int step = 0; step < 1000; ++step) {
    const auto angle = static_cast<float>(step);
    const float a = 1e-4F * std::sin(angle), b = 1e-4F * std::cos(angle);

    const auto weights16 = headroom::cast<headroom::half>(weights);
    const float error = static_cast<float>(weights16[0]) * a + static_cast<float>(weights16[1]) * b - (2.0F * a - b);

    const float scaled =
        scaler.scale(error);  // the loss is error^2 / 2; what flows back from it is its derivative times the scale
    const std::vector<headroom::half> grads16{headroom::half(scaled * a), headroom::half(scaled * b)};

    const auto [grads, report] = scaler.unscale<float>(grads16);  // widen, unscale, check, measure: one pass
    if (report.finite) {
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 2e7F * grads[i];
    }
    scaler = scaler.adjust(report);
  }

  std::printf("y = %.2f a %+.2f b, loss scale %g\n", static_cast<double>(weights[0]), static_cast<double>(weights[1]),
              static_cast<double>(scaler.loss_scale()));
  return std::abs(weights[0] - 2.0F) < 0.01F && std::abs(weights[1] + 1.0F) < 0.01F ? 0 : 1;
}
