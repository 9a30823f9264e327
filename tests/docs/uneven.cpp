// Two ranks, each in a thread. The gradients are those of a loss 2 * w * batch. The second rank has
// fewer batches.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <headroom/headroom.hpp>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using Batch = float;
constexpr int ranks = 2;

// Adds what the ranks pass.
class Comm {
 public:
  double sum(double here) {
    std::unique_lock<std::mutex> lock(mutex_);
    (met_ == 0 ? sum_ : other_) = here;
    const int meeting = meetings_;
    if (++met_ == ranks) {
      all_ = sum_ + other_;
      met_ = 0;
      ++meetings_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, std::chrono::seconds(20),
                                  [&] { return meetings_ != meeting; })) {
      throw std::runtime_error("the other rank does not come");
    }
    return all_;
  }

 private:
  double sum_ = 0.0, other_ = 0.0, all_ = 0.0;
  int met_ = 0, meetings_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
} comm;

struct Sgd {
  std::vector<float> weights{0.0F}, grads{0.0F};
  auto& gradients() { return grads; }
  void step() { weights[0] -= grads[0]; }
};
void backward(Sgd& model, Batch batch, float loss) { model.grads[0] = 2.0F * batch * loss; }
void sum_over_ranks(std::vector<float>& grads) {
  grads[0] = static_cast<float>(comm.sum(static_cast<double>(grads[0])));
}

float weight_of_rank(const std::vector<Batch>& batches_of_this_rank) {
  const std::size_t most_batches = 5;
  Sgd optimizer;
  Sgd& model = optimizer;
  headroom::GradScaler<> scaler(1024.0);
  scaler.set_reducer([](headroom::GradientSums sums) {
    sums.sum_of_squares = comm.sum(sums.sum_of_squares);
    return sums;
  });
#include BLOCK
  return model.weights[0];
}

}  // namespace

int main() {
  float other = 0.0F;
  std::thread thread([&] { other = weight_of_rank({1.0F, 1.0F, 1.0F}); });
  const float one = weight_of_rank({1.0F, 1.0F, 1.0F, 1.0F, 1.0F});
  thread.join();
  return one == -8.0F && other == -8.0F ? 0 : 1;
}
