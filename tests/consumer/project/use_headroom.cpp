#include <cstdio>
#include <headroom/headroom.hpp>
#include <vector>

int main() {
  const headroom::DynamicLossScale loss_scale;
  std::vector<headroom::half> gradients(100, headroom::half(loss_scale.loss_scale()));
  auto [unscaled, report] = loss_scale.unscale(gradients);
  gradients.back() = headroom::half::from_bits(0x7C00);  // Inf
  const bool right = report.finite && unscaled == std::vector<float>(100, 1.0f) &&
                     !headroom::all_finite(gradients) &&
                     loss_scale.adjust(false).loss_scale() < loss_scale.loss_scale();
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
