#include <cstdio>
#include <headroom/headroom.hpp>
#include <vector>

int main() {
  const headroom::DynamicLossScale scaler;
  std::vector<headroom::half> gradients(100, headroom::half(scaler.loss_scale()));
  auto [unscaled, report] = scaler.unscale<float>(gradients);
  gradients.back() = headroom::half::from_bits(0x7C00);  // Inf
  const bool right = report.finite && unscaled == std::vector<float>(100, 1.0f) && !headroom::all_finite(gradients) &&
                     scaler.adjust(false).loss_scale() == scaler.loss_scale() / 2;
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
