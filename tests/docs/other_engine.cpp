// An engine of two ranks. The other rank has found 12 and 144.
#include <algorithm>
#include <cstdint>
#include <headroom/headroom.hpp>
#include <vector>

struct Engine {
  static double all_reduce_max(double value) { return std::max(value, 12.0); }
  static double all_reduce_sum(double value) { return value + 144.0; }
  static double all_reduce_min(double value) { return std::min(value, 1.0); }
  static std::uint64_t all_reduce_max(std::uint64_t digest) { return digest; }
  static std::uint64_t all_reduce_min(std::uint64_t digest) { return digest; }
};
struct Sgd {
  std::vector<float> grads{3.0F, 4.0F};
  auto& gradients() { return grads; }
  void step() {}
};

int main() {
  headroom::GradScaler<> scaler(1.0);
  const Engine comm;
  Sgd optimizer;
#include BLOCK
  const headroom::GradientNorm found = scaler.unscale_and_clip_(optimizer, 1.0);
  return found.finite && found.norm == 13.0 && found.max_abs == 12.0 ? 0 : 1;
}
