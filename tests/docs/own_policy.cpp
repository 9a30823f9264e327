// A policy of a user's own in a GradScaler.
#include <headroom/headroom.hpp>
#include <limits>
#include <vector>

#include BLOCK

int main() {
  std::vector<float> grads{std::numeric_limits<float>::infinity()};
  if (scaler.get_scale() != 6561.0F || !scaler.step_gradients(grads, [](auto&) {}).skipped)
    return 1;
  scaler.update();
  const auto [unscaled, report] =
      Thirds(2.0F).unscale(std::vector<headroom::half>{headroom::half(3.0F)});
  return scaler.get_scale() == 2187.0F && report.finite && unscaled[0] == 1.5F ? 0 : 1;
}
