// One rank, with good batches and then with a bad one. (That the others do not wait is tested in adapters/mpi.cpp.)
#include <exception>
#include <headroom/adapters/mpi.hpp>
#include <headroom/headroom.hpp>
#include <stdexcept>
#include <string>
#include <vector>

using Batch = float;
struct Sgd {
  std::vector<float> weights{1.0F}, grads{0.0F};
  auto& gradients() { return grads; }
  void step() { weights[0] -= grads[0]; }
};
static void backward(Sgd& model, Batch batch, float loss) {
  if (batch < 0.0F) throw std::runtime_error("a bad batch");
  model.grads[0] = batch * loss;
}

static std::string error_of_training(const std::vector<Batch>& batches) {
  headroom::GradScaler<> scaler;
  headroom::MpiReducer reducer(MPI_COMM_WORLD);
  scaler.set_reducer(reducer);
  Sgd optimizer;
  Sgd& model = optimizer;
  const auto train = [&] {
#include BLOCK
  };
  try {
    train();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const bool is_right = error_of_training({0.25F, 0.5F}).empty() && error_of_training({0.25F, -1.0F}) == "a bad batch";
  MPI_Finalize();
  return is_right ? 0 : 1;
}
