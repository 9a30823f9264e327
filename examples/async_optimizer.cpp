// The optimizer in a background thread: while it unscales, checks and steps, the next batch goes
// forward and backward, with the weights from before that step. Trains handwritten digits in fp16
// with the optimizer in turn, in the background, and in the background while the next batch waits.
// Prints a table. Ends with 1 if the last two do not end with the same bits.
//
//   example_async_optimizer <digits.csv> [epochs [seed]]

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

namespace {

using headroom::half;

constexpr std::size_t training_images = 1400, batch_size = 8;

/// Adam with master weights in float. Each step writes them in fp16 to one of two copies in turn,
/// because the other thread may still read the copy of the step before.
class Optimizer {
 public:
  explicit Optimizer(const digits::Model<float>& model)
      : model_(model),
        gradients_(model),
        adam_(model),
        published_{headroom::cast<half>(model), headroom::cast<half>(model)} {}

  /// For a scaler in the same thread.
  digits::Model<float>& gradients() { return gradients_; }
  std::size_t step(float rate) { return step(gradients_, rate); }
  /// Returns which copy has the new weights.
  std::size_t step(const digits::Model<float>& grads, float rate) {
    adam_.step(model_, grads, rate);
    last_ = 1 - last_;
    headroom::cast_into(model_, published_[last_]);
    return last_;
  }

  [[nodiscard]] const digits::Model<half>& published(std::size_t copy) const {
    return published_[copy];
  }
  [[nodiscard]] const digits::Model<float>& model() const { return model_; }

 private:
  digits::Model<float> model_, gradients_;
  digits::Adam adam_;
  std::array<digits::Model<half>, 2> published_;
  std::size_t last_ = 0;
};

/// Where the optimizer runs.
enum class Place {
  in_turn,        // after each batch, in the same thread
  in_background,  // while the next batch goes forward and backward
  waited_for      // in the background, but the next batch waits for it
};

/// A training, an epoch at a time.
class Training {
 public:
  Training(const digits::Images& images, int epochs, std::uint32_t seed, Place place,
           const headroom::DynamicLossScale& policy)
      : images_(images),
        random_(seed),
        order_(shuffled(images.size(), random_)),
        test_(images.subset(order_, training_images, images.size())),
        optimizer_(digits::random_model({digits::pixels, 512, 512, digits::classes}, random_)),
        buffers_{optimizer_.model(), optimizer_.model()},
        scaler_(policy),
        async_scaler_(policy),
        epochs_(epochs),
        place_(place) {
    order_.resize(training_images);
  }

  void epoch() {
    const auto start = std::chrono::steady_clock::now();
    random_.shuffle(order_);
    for (std::size_t begin = 0; begin + batch_size <= order_.size(); begin += batch_size) {
      const digits::Images batch = images_.subset(order_, begin, begin + batch_size);
      place_ == Place::in_turn ? step_in_turn(batch) : step_in_background(batch);
    }
    async_scaler_.synchronize();
    if (before_.valid()) take(before_.get());
    milliseconds_ +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  [[nodiscard]] std::vector<float> weights() const {
    std::vector<float> all;
    headroom::for_each_leaf(optimizer_.model(), [&all](const auto& leaf) {
      all.insert(all.end(), leaf.data(), leaf.data() + leaf.size());
    });
    return all;
  }
  void print(const char* name) const {
    const float scale = place_ == Place::in_turn ? scaler_.get_scale() : async_scaler_.get_scale();
    std::printf("%-26s %9.1f %13.1f %% %10.4f %9d %10g\n", name, milliseconds_ / epochs_,
                digits::accuracy<half>(optimizer_.model(), test_), loss_, skipped_,
                static_cast<double>(scale));
  }

 private:
  static std::vector<int> shuffled(std::size_t size, digits::Random& random) {
    std::vector<int> order(size);
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(order);
    return order;
  }

  /// In float, so that nothing is lost when they are unscaled.
  void compute_gradients(const digits::Images& batch, float loss_scale,
                         digits::Model<float>& grads) {
    const auto& params = optimizer_.published(current_);
    const auto activations = digits::forward(params, batch.pixels);
    const auto loss =
        digits::cross_entropy(digits::widen(activations.back()), batch.labels, loss_scale);
    headroom::cast_into(
        digits::backward(params, activations, digits::rounded<half>(loss.logit_gradient)), grads);
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
    if (place_ == Place::waited_for) result.wait();
    async_scaler_.update();
    if (before_.valid()) take(before_.get());  // does not wait, because update has waited
    before_ = std::move(result);
  }
  float next_rate() {
    const int all_steps = epochs_ * static_cast<int>(training_images / batch_size);
    return 0.002F * (1.0F - static_cast<float>(step_++) / static_cast<float>(all_steps));
  }
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
  int epochs_, step_ = 0, skipped_ = 0;
  double loss_ = 0.0, milliseconds_ = 0.0;
  Place place_;
};

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
  const auto policy = headroom::presets::torch(65536.0, 2.0, 0.5, 200);
  std::printf("Trains for about %d seconds on an idle machine.\n\n", 1 + epochs);
  std::fflush(stdout);
  Training in_turn(images, epochs, seed, Place::in_turn, policy);
  Training in_background(images, epochs, seed, Place::in_background, policy);
  Training waited_for(images, epochs, seed, Place::waited_for, policy);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (Training* training : {&in_turn, &in_background, &waited_for}) training->epoch();
  }
  std::printf("%-26s %9s %15s %10s %9s %10s\n", "optimizer", "ms/epoch", "test accuracy", "loss",
              "skipped", "last scale");
  in_turn.print("in turn");
  in_background.print("in background");
  waited_for.print("in background, waited for");
  const std::vector<float> here = in_background.weights(), there = waited_for.weights();
  const bool same = std::memcmp(here.data(), there.data(), here.size() * sizeof(float)) == 0;
  std::printf(
      "\n%s\n",
      same ? "Waiting for the optimizer in the background does not change a bit of the weights."
           : "WAITING for the optimizer in the background changes the weights.");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
