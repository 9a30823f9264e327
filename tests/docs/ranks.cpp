// One rank of one.
#include <headroom/adapters/mpi.hpp>
#include <headroom/headroom.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int replicas = 1;
  const auto train = [&] {
#include BLOCK
    (void)scaler;
  };
  train();
  MPI_Finalize();
  return 0;
}
