// One step of one rank.
#include <headroom/adapters/mpi.hpp>
#include <headroom/headroom.hpp>
#include <vector>

struct Sgd {
  static void step(std::vector<float>& weights, const std::vector<float>& grads) {
    weights[0] -= grads[0];
  }
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    headroom::MpiReducer reducer(MPI_COMM_WORLD);
    headroom::DynamicLossScale loss_scale;
    std::vector<float> weights{1.0F};
    const std::vector<headroom::half> grads16{headroom::half(loss_scale.scale(0.25F))};
    Sgd optimizer;
#include BLOCK
    if (weights[0] != 0.75F || loss_scale.counter() != 1) return 1;
  }
  MPI_Finalize();
  return 0;
}
