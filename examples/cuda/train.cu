// The network of examples/digits, trained on a GPU three times: in float, in fp16 without a loss
// scale, and with one. The loss scale, the decision to skip a step and the clipping stay on the
// device, so a CUDA graph has a whole step: the host launches it, a fifth of the training ahead at
// most.
//
//   nvcc -std=c++17 -O2 -Iinclude examples/cuda/train.cu -o train && ./train
//   train [data.csv [epochs [batch [hidden layers [weight of the loss]]]]]
//
// The tests run it on the CPU.
#include <headroom/gpu.hpp>
#include <headroom/policy/constant.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "../digits/random.hpp"
#include "adamw.cuh"
#include "kernels.cuh"
#include "runtime.cuh"

namespace digits {
namespace gpu = headroom::gpu;

struct Settings {
  unsigned epochs = 400, batch = 700, hidden_layers = 6;
  unsigned hidden_width = 64, training_images = 1400;  // of 1797; the rest are the test set
  unsigned micro_batches = 2;
  float loss_weight = 1.0F;  // as if the loss were one of several: Adam's steps do not depend on it
  float peak_rate = 0.02F;
  double max_norm = 1.0;

  [[nodiscard]] unsigned steps_per_epoch() const { return training_images / batch; }
  [[nodiscard]] unsigned steps() const { return epochs * steps_per_epoch(); }
  [[nodiscard]] unsigned log_every() const { return steps() / 5; }
};

/// The digits of UCI, on the host.
struct Digits {
  std::vector<float> pixels;  // from -1 (paper) to 1 (ink)
  std::vector<unsigned char> labels;
};
Digits read_digits(const std::string& file) {
  std::ifstream stream(file);
  Digits data;
  std::vector<int> row(pixels + 1);
  for (char comma = 0; stream >> row[0];) {
    for (unsigned i = 1; i <= pixels; ++i) stream >> comma >> row[i];
    for (unsigned i = 0; i < pixels; ++i)
      data.pixels.push_back(static_cast<float>(row[i]) / 8.0F - 1.0F);
    data.labels.push_back(static_cast<unsigned char>(row[pixels]));
  }
  if (!stream.eof() || data.labels.empty()) throw std::runtime_error(file + ": cannot be read");
  return data;
}

struct Layer {
  unsigned inputs, outputs;
  std::size_t begin;  // of its weights among all

  [[nodiscard]] std::size_t size() const { return std::size_t{outputs} * (inputs + 1); }
};

/// The images of every step, those of the test set, and the first weights: the random numbers of
/// examples/digits.
struct Start {
  std::vector<unsigned> order, test;
  std::vector<Layer> layers;
  std::vector<float> weights;

  Start(const Settings& settings, std::size_t n_images) {
    Random random(8);
    std::vector<unsigned> numbers(n_images);
    std::iota(numbers.begin(), numbers.end(), 0U);
    random.shuffle(numbers);
    test.assign(numbers.begin() + settings.training_images, numbers.end());
    numbers.resize(settings.training_images);
    for (unsigned i = 0; i <= settings.hidden_layers; ++i) {
      const Layer layer{i == 0 ? pixels : settings.hidden_width,
                        i == settings.hidden_layers ? classes : settings.hidden_width,
                        weights.size()};
      weights.resize(weights.size() + layer.size());
      for (unsigned k = 0; k < layer.inputs; ++k)
        for (unsigned o = 0; o < layer.outputs; ++o)
          weights[layer.begin + o * (layer.inputs + 1) + k] =
              random.normal() / std::sqrt(static_cast<float>(layer.inputs));
      layers.push_back(layer);
    }
    for (unsigned epoch = 0; epoch < settings.epochs; ++epoch) {
      random.shuffle(numbers);
      order.insert(order.end(), numbers.begin(),
                   numbers.begin() + settings.steps_per_epoch() * settings.batch);
    }
  }
};

/// Weights and activations in Scalar, and the float weights that Adam updates.
template <class Scalar>
class Network {
 public:
  Network(const Start& start, unsigned most_images)
      : layers_(start.layers),
        size_(start.weights.size()),
        weights_(start.weights),
        mean_(size_),
        square_(size_),
        sums_(size_),
        gradients_(size_) {
    std::vector<Scalar> values;
    for (const float weight : start.weights) values.push_back(rounded<Scalar>(weight));
    rounded_ = Buffer<Scalar>(values);
    unsigned widest = classes;
    for (const Layer& layer : layers_) {
      activations_.emplace_back(std::size_t{most_images} * layer.inputs);
      widest = std::max(widest, layer.inputs);
      list_.emplace_back(gradients_ + layer.begin, layer.size(), sums_ + layer.begin);
    }
    activations_.emplace_back(std::size_t{most_images} * classes);
    for (Buffer<Scalar>& delta : deltas_) delta = Buffer<Scalar>(std::size_t{most_images} * widest);
  }

  /// Of a micro-batch. The destinations are the sums of all.
  [[nodiscard]] const std::vector<gpu::Gradient>& gradients() const { return list_; }
  void clear_sums(cudaStream_t stream) const {
    check(cudaMemsetAsync(sums_, 0, size_ * sizeof(float), stream));
  }

  /// The logits.
  const Scalar* run(const Images& images, cudaStream_t stream) const {
    launch(gather<Scalar>, std::size_t{images.n} * pixels, stream, images, activations_[0]);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      launch(forward<Scalar>, std::size_t{images.n} * layer.outputs, stream, rounded_ + layer.begin,
             activations_[i], layer.inputs, layer.outputs, images.n, i + 1 < layers_.size(),
             activations_[i + 1]);
    }
    return activations_.back();
  }
  /// The gradients of the weights, times the loss scale.
  void run_back(const Images& images, float loss_weight, const float* loss_scale,
                cudaStream_t stream) const {
    launch(loss_gradient<Scalar>, images.n, stream, run(images, stream), images, loss_weight,
           loss_scale, deltas_[0]);
    for (std::size_t i = layers_.size(), k = 0; i-- > 0; k = 1 - k) {
      const Layer& layer = layers_[i];
      launch(weight_gradient<Scalar>, layer.size(), stream, deltas_[k], activations_[i],
             layer.inputs, layer.outputs, images.n, gradients_ + layer.begin);
      if (i > 0)
        launch(input_gradient<Scalar>, std::size_t{images.n} * layer.inputs, stream,
               rounded_ + layer.begin, deltas_[k], activations_[i], layer.inputs, layer.outputs,
               images.n, deltas_[1 - k]);
    }
  }
  /// All layers as one. Its gradients are the sums.
  [[nodiscard]] fused::gpu::Parameter parameter() const {
    float* const sums = sums_;
    Scalar* const copy = rounded_;
    return {{sums, size_}, weights_, mean_, square_, {copy, size_}};
  }

 private:
  std::vector<Layer> layers_;
  std::size_t size_;  // number of weights
  Buffer<float> weights_, mean_, square_, sums_;
  Buffer<Scalar> rounded_, gradients_;
  std::vector<Buffer<Scalar>> activations_;  // the input of each layer; the logits
  Buffer<Scalar> deltas_[2];                 // gradients of activations
  std::vector<gpu::Gradient> list_;
};

/// Images that are classified correctly, in percent. `numbers` are theirs in `data`.
template <class Scalar>
double accuracy(const Network<Scalar>& network, const Images& images, const Digits& data,
                const std::vector<unsigned>& numbers) {
  std::vector<Scalar> logits(numbers.size() * classes);
  check(cudaMemcpy(logits.data(), network.run(images, nullptr), logits.size() * sizeof(Scalar),
                   cudaMemcpyDeviceToHost));
  int right = 0;
  auto row = logits.begin();
  for (const unsigned number : numbers) {
    const auto is_less = [](Scalar a, Scalar b) { return to_float(a) < to_float(b); };
    right += std::max_element(row, row + classes, is_less) - row == data.labels[number] ? 1 : 0;
    row += classes;
  }
  return 100.0 * right / static_cast<double>(numbers.size());
}

/// Returns a line of the table.
template <class Scalar, class Policy>
std::string train(const char* name, const Policy& policy, const Digits& data,
                  const Settings& settings) {
  const Start start(settings, data.labels.size());
  const Buffer<float> all_pixels(data.pixels);
  const Buffer<unsigned char> all_labels(data.labels);
  const Buffer<unsigned> order(start.order), test_order(start.test);
  const Buffer<unsigned> step_number(1), zero(1);
  const Buffer<float> rate(1);
  const auto n_test = static_cast<unsigned>(start.test.size()),
             n = settings.batch / settings.micro_batches;
  const Images images{all_pixels, all_labels, order, step_number, settings.batch, 0, n};
  const Images test{all_pixels, all_labels, test_order, zero, n_test, 0, n_test};

  const Network<Scalar> network(start, std::max(n, n_test));
  const gpu::Gradients gradients(network.gradients());
  gpu::Scaler<Policy> scaler(policy);
  fused::gpu::AdamWOptions options;
  options.eps = 1e-12;
  options.weight_decay = 0.0;
  options.gradients_are_scaled = false;
  const fused::gpu::AdamW adamw({network.parameter()}, rate, options);
  const Stream stream;

  const Graph step(stream, [&] {
    network.clear_sums(stream);
    for (Images part = images; part.offset < settings.batch; part.offset += n) {
      network.run_back(part, settings.loss_weight, scaler.loss_scale(), stream);
      scaler.accumulate(gradients, stream);  // sums += gradients / loss scale
    }
    scaler.measure(gradients, stream);  // the norm of the sums
    scaler.update(stream, settings.max_norm);
    launch(advance<>, 1, stream, settings.peak_rate, settings.steps(), step_number, rate);
    adamw.step(scaler.step(), stream);
  });
  const Pace pace;
  for (unsigned i = 0; i < settings.steps(); ++i) {
    step.launch(stream);
    if ((i + 1) % settings.log_every() != 0) continue;
    pace.wait();
    if (const auto seen = scaler.poll())  // what the last call fetched
      std::printf("%s, step %lld: scale %g, norm %.3g, %lld skipped\n", name, seen->steps,
                  static_cast<double>(seen->loss_scale), seen->report.norm, seen->skips);
    scaler.fetch(stream);
    pace.mark(stream);
  }
  const auto last = scaler.read(stream);
  char line[100];
  std::snprintf(line, sizeof line, "%-25s %11.1f %% %13lld %10.0f", name,
                accuracy(network, test, data, start.test), last.skips,
                static_cast<double>(last.loss_scale));
  return line;
}

}  // namespace digits

int main(int argc, char** argv) {
  using namespace digits;
  try {
    Settings settings;
    if (argc > 2) settings.epochs = static_cast<unsigned>(std::stoul(argv[2]));
    if (argc > 3) settings.batch = static_cast<unsigned>(std::stoul(argv[3]));
    if (argc > 4) settings.hidden_layers = static_cast<unsigned>(std::stoul(argv[4]));
    if (argc > 5) settings.loss_weight = std::stof(argv[5]);
    const Digits data = read_digits(argc > 1 ? argv[1] : "examples/data/digits.csv");
    if (settings.batch == 0 || settings.batch % settings.micro_batches != 0 ||
        settings.batch > settings.training_images ||
        data.labels.size() <= settings.training_images || settings.steps() < 40)
      throw std::runtime_error(
          "the batch must be even and at most 1400, and there must be more images and at least 40 "
          "steps");
    headroom::LossScaleConfig config;
    config.growth_interval = settings.steps() / 40;  // not 2000, because there are few steps
    const std::string lines[] = {
        train<float>("float", headroom::NoOpLossScale(), data, settings),
        train<__half>("fp16, no scaling", headroom::NoOpLossScale(), data, settings),
        train<__half>("fp16, DynamicLossScale", headroom::DynamicLossScale(config), data, settings),
    };
    std::printf("%-25s %13s %13s %10s\n", "", "test accuracy", "steps skipped", "last scale");
    for (const std::string& line : lines) std::puts(line.c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
