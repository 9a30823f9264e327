// All of headroom in a file for nvcc: device code, and verbs on the host.
#include <headroom/headroom.hpp>
#include <headroom/observe/exponent_histogram.hpp>
#include <headroom/observe/history.hpp>
#include <headroom/observe/simulate.hpp>
#include <headroom/quantize.hpp>
#include <headroom/state/text.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <cstdio>

#include "device.hpp"
#include "units.hpp"

__global__ void hash_kernel(const Cases* cases, std::uint64_t* hash) { *hash = hash_of(*cases); }

struct Layer {
  std::vector<float> weight{3.0F, 4.0F};
};
HEADROOM_TREE(Layer, weight)

Result step_in_cu(const headroom::DynamicLossScale& loss_scale, const Network<headroom::half>& gradients) {
  auto [unscaled, report] = loss_scale.unscale(gradients);
  return {loss_scale.adjust(report), report, unscaled};
}

int faults_in_cu() {
  int faults = 0;
  const auto expect = [&](bool holds, const char* what) {
    if (!holds) std::printf("in the .cu: %s\n", what);
    faults += holds ? 0 : 1;
  };
  const headroom::half number(2.5F);
  expect(static_cast<float>(number) == 2.5F && static_cast<int>(number) == 2 && number > headroom::half(2), "conversions");

  Layer layer;
  headroom::scale_in_place(layer, 2.0);
  Network<float> network{{3.0F}, {4.0F}};
  headroom::scale_in_place(network, 2.0);
  expect(layer.weight[1] == 8.0F && network.bias[0] == 8.0F, "scale_in_place of structs");
  expect(headroom::global_norm(network) == 10.0 && headroom::measure(network).norm == 10.0, "norms");

  headroom::TensorScales<headroom::float8_e4m3> scales(network);
  const auto codes = scales.quantize(network);
  scales.update();
  expect(static_cast<float>(codes.weight[0]) == 6.0F && scales.scales()[0] > 1.0F, "quantize");

  headroom::GradScaler<headroom::AnyLossScale> scaler(headroom::make_loss_scale("megatron", {{"hysteresis", 1}}));
  expect(headroom::from_text(headroom::to_text(scaler.state_dict())) == scaler.state_dict(), "a state as text");
  for (const headroom::Isa isa : headroom::available_isas()) {
    headroom::force_isa(isa);
    const std::vector<float> values(1000, 1.0F / 3.0F);
    const auto narrow = headroom::cast<headroom::bfloat16>(values);
    expect(narrow[999].bits() == 0x3EAB && headroom::cast<headroom::half>(values)[999].bits() == 0x3555, to_string(isa));
  }
  return faults;
}
