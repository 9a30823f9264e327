// The optimizer in a background thread: while it unscales, checks and steps, the next batch goes forward and backward. Trains
// handwritten digits in fp16 twice, with the optimizer in turn and beside, and says what the overlap wins and what the accuracy
// is. The weights that a batch goes through are one step older than in turn, which is all the difference.
//
//   example_async_optimizer <digits.csv> [epochs [seed]]

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <headroom/headroom.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "digits/data.hpp"
#include "digits/training.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace {

using headroom::half;
using Clock = std::chrono::steady_clock;

constexpr std::size_t training_images = 1400, batch_size = 8;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Adam with master weights in float, which publishes them in fp16. Of two copies it writes the one that it has not written
/// last, so that the other thread can go on reading that.
class Optimizer {
 public:
  explicit Optimizer(const digits::Model<float>& model)
      : model_(model), gradients_(model), adam_(model), published_{headroom::cast<half>(model), headroom::cast<half>(model)} {}

  /// For a scaler in the same thread.
  digits::Model<float>& gradients() { return gradients_; }
  std::size_t step(float rate) { return step(gradients_, rate); }
  /// Returns which copy has the new weights.
  std::size_t step(const digits::Model<float>& grads, float rate) {
    const auto start = Clock::now();
    adam_.step(model_, grads, rate);
    last_ = 1 - last_;
    headroom::cast_into(model_, published_[last_]);
    seconds_ += seconds_since(start);
    return last_;
  }

  [[nodiscard]] const digits::Model<half>& published(std::size_t copy) const { return published_[copy]; }
  [[nodiscard]] const digits::Model<float>& model() const { return model_; }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  digits::Model<float> model_, gradients_;
  digits::Adam adam_;
  std::array<digits::Model<half>, 2> published_;
  std::size_t last_ = 0;
  double seconds_ = 0.0;
};

struct Outcome {
  double seconds = 0.0, optimizer_seconds = 0.0, accuracy = 0.0, loss = 0.0;
  int skipped = 0;
  float scale = 0.0F;
};

Outcome train(const digits::Images& images, int epochs, std::uint32_t seed, bool is_async) {
  digits::Random random(seed);
  std::vector<int> order(images.size());
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  const digits::Images test = images.subset(order, training_images, images.size());
  order.resize(training_images);
  Optimizer optimizer(digits::random_model({digits::pixels, 512, 512, digits::classes}, random));
  std::array<digits::Model<float>, 2> buffers = {optimizer.model(), optimizer.model()};
  const auto policy = headroom::presets::torch(65536.0, 2.0, 0.5, 200);
  headroom::GradScaler<> scaler(policy);             // one of
  headroom::AsyncGradScaler<> async_scaler(policy);  // the two

  Outcome outcome;
  std::size_t current = 0;  // the copy of the weights to go through
  const auto take = [&](const headroom::StepResult<std::size_t>& result) {
    if (result.skipped) ++outcome.skipped;
    if (result.value) current = *result.value;
  };
  std::future<headroom::StepResult<std::size_t>> before;

  const auto start = Clock::now();
  const int steps = epochs * static_cast<int>(training_images / batch_size);
  for (int step = 0; step < steps;) {
    random.shuffle(order);
    for (std::size_t begin = 0; begin + batch_size <= order.size(); begin += batch_size, ++step) {
      const digits::Images batch = images.subset(order, begin, begin + batch_size);
      const auto& params = optimizer.published(current);
      const auto activations = digits::forward(params, batch.pixels);
      const auto loss = digits::cross_entropy(digits::widen(activations.back()), batch.labels,
                                              is_async ? async_scaler.scale(1.0F) : scaler.scale(1.0F));
      const auto grads16 = digits::backward(params, activations, digits::rounded<half>(loss.logit_gradient));
      const float rate = 0.002F * (1.0F - static_cast<float>(step) / static_cast<float>(steps));

      // In float, so that nothing is lost when they are unscaled. Beside, one buffer is over there while this fills the other.
      if (is_async) {
        digits::Model<float>& grads = buffers[static_cast<std::size_t>(step) % 2];
        headroom::cast_into(grads16, grads);
        auto result = async_scaler.submit_gradients(optimizer, std::ref(grads), rate);
        async_scaler.update();
        if (before.valid()) take(before.get());  // which does not wait: update has
        before = std::move(result);
      } else {
        headroom::cast_into(grads16, optimizer.gradients());
        take(scaler.step(optimizer, rate));
        scaler.update();
      }
      outcome.loss = loss.mean;
    }
  }
  async_scaler.synchronize();
  if (before.valid()) take(before.get());
  outcome.seconds = seconds_since(start);
  outcome.optimizer_seconds = optimizer.seconds();
  outcome.accuracy = digits::accuracy<half>(optimizer.model(), test);
  outcome.scale = is_async ? async_scaler.get_scale() : scaler.get_scale();
  return outcome;
}

void print(const char* name, const Outcome& outcome) {
  std::printf("%-12s %10.2f %12.2f %12.1f %% %10.4f %9d %10g\n", name, outcome.seconds, outcome.optimizer_seconds,
              outcome.accuracy, outcome.loss, outcome.skipped, static_cast<double>(outcome.scale));
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s <digits.csv> [epochs [seed]]\n", argv[0]);
    return 2;
  }
  const int epochs = argc > 2 ? std::max(1, std::atoi(argv[2])) : 8;
  const auto seed = static_cast<std::uint32_t>(argc > 3 ? std::atoi(argv[3]) : 8);
  const digits::Images images = digits::read_images(argv[1]);
  if (images.size() <= training_images) {
    std::fprintf(stderr, "%s: %zu images are too few\n", argv[1], images.size());
    return 2;
  }
#ifdef __GLIBC__
  // Freed memory is kept: else both are as fast as the kernel hands out pages, and differ by chance.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  (void)train(images, 1, seed, false);  // the first training of a program is slower than the next
  const Outcome in_turn = train(images, epochs, seed, false), beside = train(images, epochs, seed, true);

  std::printf("optimizer     seconds in optimizer test accuracy       loss   skipped last scale\n");
  print("in turn", in_turn);
  print("beside", beside);
  std::printf("\nThe overlap takes %.0f %% off, where the optimizer has %.0f %% of the time.\n",
              100.0 * (1.0 - beside.seconds / in_turn.seconds), 100.0 * in_turn.optimizer_seconds / in_turn.seconds);
  // Chance moves the accuracy of such a network by about as much.
  return std::abs(in_turn.accuracy - beside.accuracy) < 4.0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
