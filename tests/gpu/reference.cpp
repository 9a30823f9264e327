// headroom's verbs on the CPU, for check.cpp, which may be compiled by nvcc.

#include <headroom/gpu.hpp>
#include <headroom/headroom.hpp>

#include <vector>

using namespace headroom;

namespace {
std::vector<any_tensor> views(const std::vector<gpu::Gradient>& list, bool of_destinations) {
  std::vector<any_tensor> result;
  for (const gpu::Gradient& g : list) {
    const bool is_other = of_destinations && g.destination != nullptr;
    result.emplace_back(is_other ? g.destination : g.data, is_other ? dtype_code::fp32 : g.dtype,
                        g.size);
  }
  return result;
}
}  // namespace

/// 'u': unscales; 'a': accumulates; 'm': the measured norm, divided by the scale; 'r': that of the
/// results.
GradientNorm on_cpu(char verb, const std::vector<gpu::Gradient>& list, float loss_scale) {
  const std::vector<any_tensor> from = views(list, false), to = views(list, true);
  if (verb == 'u') return {unscale_into(from, to, loss_scale, parallel(8)), 0.0};
  if (verb == 'a') return {accumulate_into(from, to, loss_scale, parallel(8)), 0.0};
  return detail::unscaled(measure(verb == 'r' ? to : from, parallel(8)),
                          static_cast<double>(loss_scale));
}
