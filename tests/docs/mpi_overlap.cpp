// A step of one rank.
#include <headroom/adapters/mpi.hpp>
#include <headroom/headroom.hpp>
#include <vector>

static void load_next_batch() {}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto step = [] {
    headroom::MpiReducer reducer(MPI_COMM_WORLD);
    headroom::DynamicLossScale loss_scale;
    std::vector<float> grads{loss_scale.scale(3.0F)};
#include BLOCK
    return all.max_abs == 3.0 && loss_scale.counter() == 1;
  };
  const bool is_right = step();
  MPI_Finalize();
  return is_right ? 0 : 1;
}
