// One rank whose gradients are those of a loss w * batch.
#include <cstdio>
#include <exception>
#include <headroom/adapters/mpi.hpp>
#include <headroom/headroom.hpp>
#include <vector>

using Batch = float;
struct Sgd {
  std::vector<float> weights{1.0F}, grads{0.0F};
  auto& gradients() { return grads; }
  void step() { weights[0] -= grads[0]; }
};
static void sum_over_ranks(const std::vector<float>&) {}
static void backward(Sgd& model, Batch batch, float loss) { model.grads[0] = batch * loss; }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    Sgd optimizer;
    int ranks = 0, rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Sgd& model = optimizer;
    const std::vector<Batch> batches_of_this_rank{0.25F, 0.5F};
#include BLOCK
    if (model.weights[0] != 0.25F || scaler.policy().counter() != 2) return 1;
  }
  MPI_Finalize();
  return 0;
}
