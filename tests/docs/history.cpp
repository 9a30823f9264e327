// Gradients that are computed in fp16 and widened. From step 200 on those of the decoder overflow
// at every scale.
#include <cstdio>
#include <headroom/headroom.hpp>
#include <headroom/observe/history.hpp>
#include <map>
#include <string>
#include <vector>

using Gradients = std::map<std::string, std::vector<float>>;

static Gradients backward(int step, float loss) {
  const std::vector<headroom::half> encoder(3, headroom::half(loss * 1e-4F));
  const std::vector<headroom::half> decoder(3, headroom::half(loss * (step >= 200 ? 1e6F : 1e-3F)));
  return {{"encoder", headroom::cast<float>(encoder)}, {"decoder", headroom::cast<float>(decoder)}};
}
struct Optimizer {
  Gradients grads;
  Gradients& gradients() { return grads; }
  void step() {}
};

int main() {
  headroom::GradScaler<> scaler;
  Optimizer optimizer;
#include BLOCK
}
