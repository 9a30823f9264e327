// The optimizer of rank 1 if rank 0 holds all of its gradients, too.
#include <headroom/headroom.hpp>
#include <vector>

using Tensor = std::vector<float>;
#include BLOCK
void Adam::step() {}

int main() {
  Adam adam;
  adam.grads = adam.shared_grads = {{3.0F, 4.0F}};
  adam.rank = 1;
  headroom::GradScaler<> scaler(1.0);
  double counted = -1.0;
  scaler.set_reducer([&](const headroom::GradientSums& here) {
    counted = here.sum_of_squares;
    return here;
  });
  scaler.unscale_and_clip_(adam, 1.0);
  return counted == 0.0 ? 0 : 1;
}
