// All of headroom in a .cu for nvcc, and the same file as a .cpp for g++. Both follow one policy,
// to the same bits, with the same instruction sets: headroom's types have the same names in both,
// so that one can call functions of the other.
#include <headroom/headroom.hpp>
#include <headroom/observe/exponent_histogram.hpp>
#include <headroom/observe/history.hpp>
#include <headroom/observe/simulate.hpp>
#include <headroom/quantize.hpp>
#include <headroom/state/text.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <cstdio>

#include "device.hpp"

#if defined(__CUDACC__)
#define IN_UNIT(name) name##_in_cu
__global__ void hash_kernel(const Cases* cases, std::uint64_t* hash) { *hash = hash_of(*cases); }
#else
#define IN_UNIT(name) name##_in_cpp
#endif

template <class T>
struct Network {
  std::vector<T> weight, bias;
  HEADROOM_TREE(Network, weight, bias)
};
struct Layer {
  std::vector<float> weight{3.0F, 4.0F};
};
HEADROOM_TREE(Layer, weight)

struct Result {
  headroom::DynamicLossScale loss_scale;
  headroom::GradientReport report;
  Network<float> gradients;
};
Result step_in_cu(const headroom::DynamicLossScale& loss_scale,
                  const Network<headroom::half>& gradients);
int faults_in_cu();

Result IN_UNIT(step)(const headroom::DynamicLossScale& loss_scale,
                     const Network<headroom::half>& gradients) {
  auto [unscaled, report] = loss_scale.unscale(gradients);
  return {loss_scale.adjust(report), report, unscaled};
}
int IN_UNIT(faults)() {
  int faults = 0;
  const auto expect = [&](bool holds, const char* what) {
    if (!holds) std::printf("wrong: %s\n", what);
    faults += holds ? 0 : 1;
  };
  const headroom::half number(2.5F);
  expect(static_cast<float>(number) == 2.5F && static_cast<int>(number) == 2 &&
             number > headroom::half(2),
         "conversions");

  Layer layer;
  headroom::scale_in_place(layer, 2.0);
  Network<float> network{{3.0F}, {4.0F}};
  headroom::scale_in_place(network, 2.0);
  expect(layer.weight[1] == 8.0F && network.bias[0] == 8.0F, "scale_in_place of structs");
  expect(headroom::global_norm(network) == 10.0 && headroom::measure(network).norm == 10.0,
         "norms");

  headroom::TensorScales<headroom::float8_e4m3> scales(network);
  const auto codes = scales.quantize(network).codes;
  scales.update();
  expect(static_cast<float>(codes.weight[0]) == 6.0F && scales.scales()[0] > 1.0F, "quantize");

  headroom::GradScaler<headroom::AnyLossScale> scaler(
      headroom::make_loss_scale("megatron", {{"hysteresis", 1}}));
  expect(headroom::from_text(headroom::to_text(scaler.state_dict())) == scaler.state_dict(),
         "a state as text");
  for (const headroom::Isa isa : headroom::available_isas()) {
    headroom::force_isa(isa);
    const std::vector<float> values(1000, 1.0F / 3.0F);
    const auto narrow = headroom::cast<headroom::bfloat16>(values);
    expect(narrow[999].bits() == 0x3EAB &&
               headroom::cast<headroom::half>(values)[999].bits() == 0x3555,
           to_string(isa));
  }
  return faults;
}

#if !defined(__CUDACC__)
int main() {
  int faults = faults_in_cu() + faults_in_cpp();
  const Network<headroom::half> gradients{std::vector<headroom::half>(1000, headroom::half(3.0F)),
                                          {headroom::half(0.5F)}};
  const headroom::DynamicLossScale start({1024.0F, 1});
  const Result cu = step_in_cu(start, gradients), cpp = step_in_cpp(cu.loss_scale, gradients);
  const bool is_right = cu.report.finite && cu.report.max_abs == 3.0 / 1024 &&
                        cu.gradients.weight[999] == 3.0F / 1024 &&
                        cpp.report.max_abs == 3.0 / 2048 && cpp.loss_scale.loss_scale() == 4096.0F;
  faults += is_right ? 0 : 1;
  std::printf("%s: scale %g, max_abs %g and %g, %d faults\n", to_string(headroom::active_isa()),
              static_cast<double>(cpp.loss_scale.loss_scale()), cu.report.max_abs,
              cpp.report.max_abs, faults);
  return faults;
}
#endif
