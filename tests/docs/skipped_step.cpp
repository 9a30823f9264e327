// A step that overflows in layers[2].weight[17].
#include <array>
#include <cstdio>
#include <headroom/headroom.hpp>
#include <limits>
#include <string>
#include <vector>

struct Layer {
  std::vector<float> weight = std::vector<float>(20);
  HEADROOM_TREE(Layer, weight)
};
struct Model {
  std::array<Layer, 3> layers;
  HEADROOM_TREE(Model, layers)
};
struct Optimizer {
  Model grads;
  Model& gradients() { return grads; }
  void step() {}
};

int main() {
  Optimizer optimizer;
  optimizer.grads.layers[2].weight[17] = std::numeric_limits<float>::infinity();
  headroom::GradScaler<> scaler;
#include BLOCK
  return result.nonfinite && result.nonfinite->path == "layers[2].weight" &&
                 result.nonfinite->index == 17
             ? 0
             : 1;
}
