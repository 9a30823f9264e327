// A process group of one rank without gradients: with a reducer it steps when the other ranks do.
#define USE_C10D_GLOO 1
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <headroom/adapters/c10d.hpp>
#include <headroom/headroom.hpp>
#include <vector>

struct Sgd {
  std::vector<std::vector<float>> grads;
  auto& gradients() { return grads; }
  void step() {}
};

int main() {
  const auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface("lo"));
  const auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::HashStore>(), 0, 1, options);
  const int replicas = 1;
  headroom::GradScaler<> scaler;
  Sgd optimizer;
#include BLOCK
  return scaler.step(optimizer).skipped ? 1 : 0;
}
