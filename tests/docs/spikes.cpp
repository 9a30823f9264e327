// A spike, an overflow and an ordinary norm, after norms of about 1. Only the last one leads to a
// step.
#include <headroom/headroom.hpp>
#include <headroom/observe/spike_guard.hpp>
#include <limits>
#include <vector>

struct Optimizer {
  std::vector<float> weights, scaled;
  std::vector<float>& gradients() { return scaled; }
  void step() { weights[0] -= scaled[0]; }
};

int main() {
  headroom::GradScaler<> scaler(1024.0);
  headroom::SpikeGuard guard;
  for (int i = 0; i < 100; ++i) guard = guard.adjust(1.0 + i % 4 / 16.0);
  Optimizer optimizer{{0.0F}, {0.0F}};
  for (const float gradient : {100.0F, std::numeric_limits<float>::infinity(), 0.75F}) {
    optimizer.scaled = {gradient * scaler.get_scale()};
#include BLOCK
  }
  return optimizer.weights[0] == -0.75F && scaler.get_scale() == 512.0F &&
                 guard.values().size() == 102
             ? 0
             : 1;
}
