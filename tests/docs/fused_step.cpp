// Two leaves, clipped to a norm of 1; then an overflow.
#include <cmath>
#include <headroom/headroom.hpp>
#include <limits>
#include <vector>

#include BLOCK

int main() {
  using headroom::half;
  Optimizer optimizer{{{1.0F}, {1.0F, 1.0F}}, {{half(3072.0F)}, {half(0.0F), half(4096.0F)}}};
  headroom::GradScaler<> scaler(1024.0);
  const double norm = scaler.unscale_and_clip_(optimizer, 1.0).norm;
  bool right = norm == 5.0 && !scaler.step(optimizer).skipped;
  scaler.update();
  right = right && std::abs(optimizer.weights[0][0] - 0.94F) < 1e-6F &&
          optimizer.weights[1][0] == 1.0F && std::abs(optimizer.weights[1][1] - 0.92F) < 1e-6F;
  optimizer.scaled[0][0] = half(std::numeric_limits<float>::infinity());
  right = right && scaler.step(optimizer).skipped;
  return right ? 0 : 1;
}
