// The optimizer in a background thread: while it unscales, checks and steps, the next batch goes forward and backward. Trains
// handwritten digits in fp16 twice, with the optimizer in turn and beside, and says what the overlap wins, what two
// threads that share nothing win, and what the accuracy is. The weights that a batch goes through are one step older than in
// turn, which is all the difference.
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
#include <thread>
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

/// A training, an epoch at a time.
class Training {
 public:
  Training(const digits::Images& images, int epochs, std::uint32_t seed, bool is_async,
           const headroom::DynamicLossScale& policy)
      : images_(images),
        random_(seed),
        order_(shuffled(images.size(), random_)),
        test_(images.subset(order_, training_images, images.size())),
        optimizer_(digits::random_model({digits::pixels, 512, 512, digits::classes}, random_)),
        buffers_{optimizer_.model(), optimizer_.model()},
        scaler_(policy),
        async_scaler_(policy),
        all_steps_(epochs * static_cast<int>(training_images / batch_size)),
        is_async_(is_async) {
    order_.resize(training_images);
  }

  /// Returns its seconds.
  double epoch() {
    const auto start = Clock::now();
    random_.shuffle(order_);
    for_each_batch([this](const digits::Images& batch) { is_async_ ? step_beside(batch) : step_in_turn(batch); });
    async_scaler_.synchronize();
    if (before_.valid()) take(before_.get());
    return seconds_since(start);
  }
  /// An epoch without the optimizer, and one without anything else, on what the first has left.
  double epoch_of_gradients() {
    const auto start = Clock::now();
    for_each_batch([this](const digits::Images& batch) { compute_gradients(batch, 65536.0F, optimizer_.gradients()); });
    return seconds_since(start);
  }
  double epoch_of_steps() {
    const auto start = Clock::now();
    for_each_batch([this](const digits::Images&) {
      take(scaler_.step(optimizer_, 0.001F));
      scaler_.update();
    });
    return seconds_since(start);
  }

  [[nodiscard]] double optimizer_seconds() const { return optimizer_.seconds(); }
  [[nodiscard]] double accuracy() const { return digits::accuracy<half>(optimizer_.model(), test_); }
  void print(const char* name, double seconds, double in_optimizer) const {
    const float scale = is_async_ ? async_scaler_.get_scale() : scaler_.get_scale();
    std::printf("%-12s %9.1f %12.1f %13.1f %% %10.4f %9d %10g\n", name, 1e3 * seconds, 1e3 * in_optimizer, accuracy(), loss_,
                skipped_, static_cast<double>(scale));
  }

 private:
  static std::vector<int> shuffled(std::size_t size, digits::Random& random) {
    std::vector<int> order(size);
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(order);
    return order;
  }
  template <class F>
  void for_each_batch(F f) {
    for (std::size_t begin = 0; begin + batch_size <= order_.size(); begin += batch_size) {
      f(images_.subset(order_, begin, begin + batch_size));
    }
  }

  /// In float, so that nothing is lost when they are unscaled.
  void compute_gradients(const digits::Images& batch, float loss_scale, digits::Model<float>& grads) {
    const auto& params = optimizer_.published(current_);
    const auto activations = digits::forward(params, batch.pixels);
    const auto loss = digits::cross_entropy(digits::widen(activations.back()), batch.labels, loss_scale);
    headroom::cast_into(digits::backward(params, activations, digits::rounded<half>(loss.logit_gradient)), grads);
    loss_ = loss.mean;
  }
  void step_in_turn(const digits::Images& batch) {
    compute_gradients(batch, scaler_.scale(1.0F), optimizer_.gradients());
    take(scaler_.step(optimizer_, next_rate()));
    scaler_.update();
  }
  void step_beside(const digits::Images& batch) {
    // One buffer is over there while this fills the other.
    digits::Model<float>& grads = buffers_[static_cast<std::size_t>(step_) % 2];
    compute_gradients(batch, async_scaler_.scale(1.0F), grads);
    auto result = async_scaler_.submit_gradients(optimizer_, std::ref(grads), next_rate());
    async_scaler_.update();
    if (before_.valid()) take(before_.get());  // which does not wait: update has
    before_ = std::move(result);
  }
  float next_rate() { return 0.002F * (1.0F - static_cast<float>(step_++) / static_cast<float>(all_steps_)); }
  void take(const headroom::StepResult<std::size_t>& result) {
    if (result.skipped) ++skipped_;
    if (result.value) current_ = *result.value;
  }

  const digits::Images& images_;
  digits::Random random_;
  std::vector<int> order_;
  digits::Images test_;
  Optimizer optimizer_;
  std::array<digits::Model<float>, 2> buffers_;
  headroom::GradScaler<> scaler_;             // one of
  headroom::AsyncGradScaler<> async_scaler_;  // the two
  std::future<headroom::StepResult<std::size_t>> before_;
  std::size_t current_ = 0;  // the copy of the weights to go through
  int all_steps_, step_ = 0, skipped_ = 0;
  double loss_ = 0.0;
  bool is_async_;
};

/// Seconds of an epoch: the fastest, and what the optimizer took in that.
struct Fastest {
  double seconds = 1e9, in_optimizer = 0.0;

  void measure(Training& training) {
    const double before = training.optimizer_seconds(), of_this = training.epoch();
    if (of_this >= seconds) return;
    seconds = of_this;
    in_optimizer = training.optimizer_seconds() - before;
  }
};

/// What two threads do to each other that share nothing and never wait, one with the gradients of an epoch and one with its
/// steps. They slow each other down where their cores share the execution units, a cache or the way to memory.
struct Unrelated {
  double gradients = 1e9, steps = 1e9, gradients_beside = 1e9, steps_beside = 1e9, both = 1e9;

  void measure(Training& one, Training& other) {
    gradients = std::min(gradients, one.epoch_of_gradients());
    steps = std::min(steps, other.epoch_of_steps());
    double of_steps = 0.0;
    const auto start = Clock::now();
    std::thread thread([&] { of_steps = other.epoch_of_steps(); });
    const double of_gradients = one.epoch_of_gradients();
    thread.join();
    both = std::min(both, seconds_since(start));
    gradients_beside = std::min(gradients_beside, of_gradients);
    steps_beside = std::min(steps_beside, of_steps);
  }
};

int report(const Training& in_turn, const Training& beside, const Fastest& turn, const Fastest& overlap,
           const Unrelated& bound) {
  std::printf("optimizer    ms/epoch in optimizer test accuracy       loss   skipped last scale\n");
  in_turn.print("in turn", turn.seconds, turn.in_optimizer);
  beside.print("beside", overlap.seconds, overlap.in_optimizer);
  std::printf("\nThe overlap takes %.0f %% off, where the optimizer has %.0f %% of the time.\n",
              100.0 * (1.0 - overlap.seconds / turn.seconds), 100.0 * turn.in_optimizer / turn.seconds);
  std::printf(
      "Two threads that share nothing would take %.0f %% off: beside each other, forward and backward take %.2f times as\n"
      "long as alone, and the optimizer %.2f times.\n",
      100.0 * (1.0 - bound.both / (bound.gradients + bound.steps)), bound.gradients_beside / bound.gradients,
      bound.steps_beside / bound.steps);
  // Chance moves the accuracy of such a network by about as much.
  return std::abs(in_turn.accuracy() - beside.accuracy()) < 4.0 ? 0 : 1;
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
  const auto policy = headroom::presets::torch(65536.0, 2.0, 0.5, 200),
             constant = headroom::presets::torch(1.0, 2.0, 0.5, 1 << 30);
  Training in_turn(images, epochs, seed, false, policy), beside(images, epochs, seed, true, policy);
  Training gradients(images, epochs, seed, false, policy), steps(images, epochs, seed, false, constant);
  (void)steps.epoch_of_gradients();
  Fastest turn, overlap;
  Unrelated unrelated;
  // By turns, so that what else the machine does meets all alike.
  for (int epoch = 0; epoch < epochs; ++epoch) {
    turn.measure(in_turn);
    overlap.measure(beside);
    unrelated.measure(gradients, steps);
  }
  return report(in_turn, beside, turn, overlap, unrelated);
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
