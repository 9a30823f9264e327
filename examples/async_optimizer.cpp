// The optimizer in a background thread: while it unscales, checks and steps, the next batch goes forward and backward. Each
// batch goes through weights that are one step older than without the thread. Trains handwritten digits in fp16, with the
// optimizer in turn and in the background. Prints the accuracies, and the time that the overlap saves if the machine is quiet
// enough to tell. Ends with 1 if the timing of the threads changes a bit of the weights.
//
//   example_async_optimizer <digits.csv> [epochs [seed]]

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
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

/// Adam with master weights in float. It publishes them in two copies in fp16, and writes them by turns, so that the other
/// thread can read the last one meanwhile.
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

/// Where the optimizer runs.
enum class Place {
  in_turn,          // after each batch, in the same thread
  in_background,    // while the next batch goes forward and backward
  background_alone  // in the background, but the next batch waits for it
};

/// A training, an epoch at a time.
class Training {
 public:
  Training(const digits::Images& images, int epochs, std::uint32_t seed, Place place, const headroom::DynamicLossScale& policy)
      : images_(images),
        random_(seed),
        order_(shuffled(images.size(), random_)),
        test_(images.subset(order_, training_images, images.size())),
        optimizer_(digits::random_model({digits::pixels, 512, 512, digits::classes}, random_)),
        buffers_{optimizer_.model(), optimizer_.model()},
        scaler_(policy),
        async_scaler_(policy),
        all_steps_(epochs * static_cast<int>(training_images / batch_size)),
        place_(place) {
    order_.resize(training_images);
  }

  /// Returns its seconds.
  double epoch() {
    const auto start = Clock::now();
    random_.shuffle(order_);
    for_each_batch(
        [this](const digits::Images& batch) { place_ == Place::in_turn ? step_in_turn(batch) : step_in_background(batch); });
    async_scaler_.synchronize();
    if (before_.valid()) take(before_.get());
    return seconds_since(start);
  }
  /// An epoch that only computes gradients.
  double epoch_of_gradients() {
    const auto start = Clock::now();
    for_each_batch([this](const digits::Images& batch) { compute_gradients(batch, 65536.0F, optimizer_.gradients()); });
    return seconds_since(start);
  }
  /// An epoch of steps, all with the gradients that the last batch has left.
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
  [[nodiscard]] std::vector<float> weights() const {
    std::vector<float> all;
    headroom::for_each_leaf(optimizer_.model(),
                            [&all](const auto& leaf) { all.insert(all.end(), leaf.data(), leaf.data() + leaf.size()); });
    return all;
  }
  void print(const char* name, double seconds, double in_optimizer) const {
    const float scale = place_ == Place::in_turn ? scaler_.get_scale() : async_scaler_.get_scale();
    std::printf("%-14s %9.1f %12.1f %13.1f %% %10.4f %9d %10g\n", name, 1e3 * seconds, 1e3 * in_optimizer, accuracy(), loss_,
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
  void step_in_background(const digits::Images& batch) {
    // The other thread may still read the other buffer.
    digits::Model<float>& grads = buffers_[static_cast<std::size_t>(step_) % 2];
    compute_gradients(batch, async_scaler_.scale(1.0F), grads);
    auto result = async_scaler_.submit_gradients(optimizer_, std::ref(grads), next_rate());
    if (place_ == Place::background_alone) result.wait();
    async_scaler_.update();
    if (before_.valid()) take(before_.get());  // does not wait, because update has waited
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
  headroom::GradScaler<> scaler_;             // in turn
  headroom::AsyncGradScaler<> async_scaler_;  // in the background
  std::future<headroom::StepResult<std::size_t>> before_;
  std::size_t current_ = 0;  // the copy of the weights that the next batch goes through
  int all_steps_, step_ = 0, skipped_ = 0;
  double loss_ = 0.0;
  Place place_;
};

/// The seconds of all epochs; and of the fastest epoch also those of the optimizer and of the processor.
struct Epochs {
  std::vector<double> all;
  double seconds = 1e9, in_optimizer = 0.0, of_processor = 0.0;

  void measure(Training& training) {
    const double before = training.optimizer_seconds();
    const std::clock_t clock = std::clock();
    all.push_back(training.epoch());
    if (all.back() >= seconds) return;
    seconds = all.back();
    in_optimizer = training.optimizer_seconds() - before;
    of_processor = static_cast<double>(std::clock() - clock) / CLOCKS_PER_SEC;
  }
  /// Half of the epochs took at most a tenth longer than the fastest.
  [[nodiscard]] bool are_alike() const {
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2] <= 1.1 * seconds;
  }
};

/// Seconds of an epoch of gradients and of one of steps, alone and in two threads that share no data and never wait. The
/// threads slow each other down if their cores share execution units, a cache or the path to memory.
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

void print_overlap(const Epochs& turn, const Epochs& background, const Unrelated& bound) {
  const double saved = 1.0 - background.seconds / turn.seconds, share = turn.in_optimizer / turn.seconds;
  const double saved_at_best = 1.0 - bound.both / (bound.gradients + bound.steps);
  const bool has_cores = std::thread::hardware_concurrency() > 1;
  const bool has_them_alone = turn.seconds <= 1.05 * turn.of_processor;  // one thread, which never waits
  const bool is_steady = turn.are_alike() && background.are_alike();
  const bool is_possible = saved >= 0.0 && saved <= share + 0.1 && saved_at_best >= 0.0 && saved_at_best <= 0.5;
  if (!has_cores || !has_them_alone || !is_steady || !is_possible) {
    std::printf("\nThis machine is too busy, or has too few cores, to tell how much time the overlap saves.\n");
    return;
  }
  std::printf("\nThe overlap saves %.0f %% of an epoch in turn, of which the optimizer takes %.0f %%.\n", 100.0 * saved,
              100.0 * share);
  std::printf(
      "Two threads that share no data save %.0f %%. Beside each other, forward and backward take %.2f times as long as alone,\n"
      "and the optimizer %.2f times.\n",
      100.0 * saved_at_best, bound.gradients_beside / bound.gradients, bound.steps_beside / bound.steps);
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
  // Keep freed memory. Otherwise the kernel hands out pages again and again, which takes more or less time by chance.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  const auto policy = headroom::presets::torch(65536.0, 2.0, 0.5, 200),
             constant = headroom::presets::torch(1.0, 2.0, 0.5, 1 << 30);
  std::printf("Trains for about %d seconds on an idle machine.\n\n", 1 + epochs);
  std::fflush(stdout);
  Training in_turn(images, epochs, seed, Place::in_turn, policy),
      in_background(images, epochs, seed, Place::in_background, policy);
  Training alone(images, epochs, seed, Place::background_alone, policy);
  Training gradients(images, epochs, seed, Place::in_turn, policy), steps(images, epochs, seed, Place::in_turn, constant);
  (void)steps.epoch_of_gradients();
  Epochs turn, background;
  Unrelated unrelated;
  for (int epoch = 0; epoch < epochs; ++epoch) {  // by turns, so that other work on the machine slows all alike
    turn.measure(in_turn);
    background.measure(in_background);
    unrelated.measure(gradients, steps);
    (void)alone.epoch();
  }
  std::printf("optimizer       ms/epoch in optimizer test accuracy       loss   skipped last scale\n");
  in_turn.print("in turn", turn.seconds, turn.in_optimizer);
  in_background.print("in background", background.seconds, background.in_optimizer);
  print_overlap(turn, background, unrelated);
  const std::vector<float> here = in_background.weights(), there = alone.weights();
  const bool same = std::memcmp(here.data(), there.data(), here.size() * sizeof(float)) == 0;
  std::printf("\n%s\n", same ? "The weights have the same bits if each batch waits for the optimizer in the background."
                             : "OTHER WEIGHTS if each batch waits for the optimizer in the background.");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
