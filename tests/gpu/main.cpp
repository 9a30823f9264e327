// A .cpp beside a .cu: both follow one policy, to the same bits, with the same instruction sets.
#include <cstdio>

#include "units.hpp"

Result step_in_cpp(const headroom::DynamicLossScale& loss_scale, const Network<headroom::half>& gradients) {
  auto [unscaled, report] = loss_scale.unscale(gradients);
  return {loss_scale.adjust(report), report, unscaled};
}

int main() {
  int faults = faults_in_cu();
  const Network<headroom::half> gradients{std::vector<headroom::half>(1000, headroom::half(3.0F)), {headroom::half(0.5F)}};
  const headroom::DynamicLossScale start({1024.0F, 1});
  const Result cu = step_in_cu(start, gradients), cpp = step_in_cpp(cu.loss_scale, gradients);
  const bool is_right = cu.report.finite && cu.report.max_abs == 3.0 / 1024 && cu.gradients.weight[999] == 3.0F / 1024 &&
                        cpp.report.max_abs == 3.0 / 2048 && cpp.loss_scale.loss_scale() == 4096.0F;
  faults += is_right ? 0 : 1;
  std::printf("%s: scale %g, max_abs %g and %g, %d faults\n", to_string(headroom::active_isa()),
              static_cast<double>(cpp.loss_scale.loss_scale()), cu.report.max_abs, cpp.report.max_abs, faults);
  return faults;
}
