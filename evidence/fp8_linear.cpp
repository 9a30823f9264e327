// Trains on handwritten digits in 8 bits. Each linear layer quantizes its input and weight to e4m3,
// and the gradient of its output to e5m2, as TransformerEngine's does. The products are computed in
// float from the dequantized values; master weights, biases and Adam are float.
//
//   fp8_linear [data.csv [output directory [epochs [seed]]]]
//
// Compares float, one loss scale, and delayed scales per tensor: alone, and with a loss scale that
// doubles every 20 steps. Prints a table; writes fp8_scales.csv for plots.gp.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <headroom/quantize.hpp>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "../examples/digits/data.hpp"
#include "../examples/digits/progress.hpp"
#include "../examples/digits/random.hpp"
#include "../examples/digits/training.hpp"

namespace {

using digits::Matrix;
using headroom::float8_e4m3;
using headroom::float8_e5m2;

/// `both`: delayed scales of gradients that have a loss scale. `untold`: the same without
/// loss_scale_changed.
enum class Scaling { in_float, loss_scale, delayed, both, untold };

struct Counts {
  long all = 0, became_zero = 0, saturated = 0;

  [[nodiscard]] double lost() const {
    return all == 0 ? 0.0 : 100.0 * static_cast<double>(became_zero) / static_cast<double>(all);
  }
};

/// The scale of a tensor of a layer.
template <class Fp8>
struct Quantizer {
  // A history of 16 steps, of 800
  headroom::TensorScales<Fp8> scales{Matrix<float>(), headroom::DelayedScaling{16}};
  // In the last call
  bool finite = true;

  /// Quantizes and dequantizes.
  Matrix<float> operator()(Scaling scaling, const Matrix<float>& x, Counts& counts) {
    if (scaling == Scaling::in_float) return x;
    const float scale = scaling == Scaling::loss_scale ? 1.0F : scales.scales()[0];
    Matrix<Fp8> codes(x.rows(), x.cols());
    if (scaling == Scaling::loss_scale) {
      // A gradient that overflows becomes Inf, and the step is skipped
      headroom::cast_into(x, codes);
      finite = headroom::all_finite(codes);
    } else {
      finite = scales.quantize_into(x, codes).finite;
    }
    Matrix<float> result = headroom::dequantize<float>(codes, std::vector<float>{1.0F / scale});
    constexpr auto largest = static_cast<float>(std::numeric_limits<Fp8>::max());  // 1.75 * 2^n
    constexpr auto epsilon = static_cast<float>(std::numeric_limits<Fp8>::epsilon());
    counts.all += x.size();
    counts.became_zero += (x.array() != 0.0F && result.array() == 0.0F).count();
    // Beyond half a step
    counts.saturated += (x.array().abs() * scale > largest * (1.0F + epsilon / 3.5F)).count();
    return result;
  }
};

struct Linear {
  Quantizer<float8_e4m3> input, weight;
  Quantizer<float8_e5m2> gradient;  // of the output
};

struct Network {
  Scaling scaling;
  digits::Model<float> master;
  std::vector<Linear> layers{master.layers.size()};
  // Of each layer, as quantized
  std::vector<Matrix<float>> inputs{layers.size()}, weights{layers.size()};
  Counts forwards{}, backwards{};

  /// Returns the logits.
  Matrix<float> forward(Matrix<float> x) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      inputs[i] = layers[i].input(scaling, x, forwards);
      weights[i] = layers[i].weight(scaling, master.layers[i].weight, forwards);
      x = (weights[i] * inputs[i]).colwise() + master.layers[i].bias;
      if (i + 1 < layers.size()) x = digits::activated(x, digits::Activation::sigmoid);
    }
    return x;
  }
  /// `delta` is the gradient of the logits. Returns whether all gradients were finite.
  bool backward(Matrix<float> delta, digits::Model<float>& grads) {
    bool finite = true;
    for (std::size_t i = layers.size(); i-- > 0;) {
      delta = layers[i].gradient(scaling, delta, backwards);
      finite = finite && layers[i].gradient.finite;
      grads.layers[i].weight.noalias() = delta * inputs[i].transpose();
      grads.layers[i].bias = delta.rowwise().sum();
      delta =
          (weights[i].transpose() * delta).array() * inputs[i].array() * (1.0F - inputs[i].array());
    }
    return finite;
  }
  /// Ends a step. `ratio`: of the next loss scale to this one.
  void update(float ratio) {
    for (Linear& layer : layers) {
      layer.input.scales.update();
      layer.weight.scales.update();
      layer.gradient.scales.update();
      if (scaling == Scaling::both) layer.gradient.scales.loss_scale_changed(ratio);
    }
  }
};

double accuracy(const Matrix<float>& logits, const std::vector<int>& labels) {
  int right = 0;
  for (Eigen::Index i = 0; i < logits.cols(); ++i) {
    Eigen::Index best = 0;
    logits.col(i).maxCoeff(&best);
    right += best == labels[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  return 100.0 * right / static_cast<double>(logits.cols());
}

void write(std::ofstream& csv, const std::string& name, int step, const Network& network,
           long saturated) {
  const auto scale = [](const auto& quantizer) { return quantizer.scales.scales()[0]; };
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Linear& layer = network.layers[i];
    csv << name << ',' << step << ',' << i << ',' << scale(layer.input) << ','
        << scale(layer.weight) << ',' << scale(layer.gradient) << ',' << saturated << '\n';
  }
}

/// Trains, prints a row of the table, writes scales for the picture. Returns the number of
/// gradients that were quantized.
long train(const char* name, Scaling scaling, const digits::Images& images,
           const digits::Settings& settings, digits::Progress& progress, std::ofstream& csv) {
  digits::Random random(settings.seed);
  std::vector<int> order(images.size());
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  const digits::Images test = images.subset(order, settings.training_images, images.size());
  order.resize(settings.training_images);
  std::vector<Eigen::Index> widths(static_cast<std::size_t>(settings.hidden_layers) + 2,
                                   settings.hidden_width);
  widths.front() = digits::pixels;
  widths.back() = digits::classes;
  Network network{scaling, digits::random_model(widths, random)};
  digits::Model<float> grads = network.master;
  digits::Adam adam(grads);

  headroom::LossScaleConfig config;
  config.growth_interval = 20;
  if (scaling == Scaling::in_float || scaling == Scaling::delayed)
    config.initial_scale = config.max_scale = 1.0F;
  headroom::DynamicLossScale loss_scale(config);
  int step = 0, skipped = 0, saturating_steps = 0;
  double last_loss = 0.0;
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    random.shuffle(order);
    for (std::size_t begin = 0; begin + settings.batch <= order.size();
         begin += settings.batch, ++step) {
      const digits::Images batch = images.subset(order, begin, begin + settings.batch);
      const digits::Loss loss = digits::cross_entropy(network.forward(batch.pixels), batch.labels,
                                                      loss_scale.loss_scale());
      last_loss = loss.mean;
      const long saturated_before = network.backwards.saturated;
      const bool finite = network.backward(loss.logit_gradient, grads);
      (void)loss_scale.unscale_in_place(grads);
      if (finite) adam.step(network.master, grads, settings.rate(step));
      skipped += finite ? 0 : 1;

      const long saturated = network.backwards.saturated - saturated_before;
      saturating_steps += saturated > 0 ? 1 : 0;
      write(csv, name, step, network, saturated);
      const headroom::DynamicLossScale next = loss_scale.adjust(finite);
      network.update(next.loss_scale() / loss_scale.loss_scale());
      loss_scale = next;
      progress.tick();
    }
  }
  const Counts forwards = network.forwards, backwards = network.backwards;
  std::printf("%-24s %6.1f %% %10.4f %9.2f %% %9ld %9.2f %% %9ld %10d %7d\n", name,
              accuracy(network.forward(test.pixels), test.labels), last_loss, forwards.lost(),
              forwards.saturated, backwards.lost(), backwards.saturated, saturating_steps, skipped);
  return backwards.all;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string data = argc > 1 ? argv[1] : "examples/data/digits.csv";
    const std::filesystem::path output = argc > 2 ? argv[2] : "build/evidence";
    digits::Settings settings;
    settings.peak_rate = 0.01F;
    settings.hidden_layers = 4;
    if (argc > 3) settings.epochs = digits::parse_number(argv[3], 100000, "epochs, argument", 3);
    if (argc > 4)
      settings.seed =
          static_cast<std::uint32_t>(digits::parse_number(argv[4], 1000000, "seed, argument", 4));
    if (settings.epochs < 1) throw std::runtime_error("epochs, argument 3: at least 1 is needed");
    const digits::Images images = digits::read_images(data);
    if (images.size() <= settings.training_images)
      throw std::runtime_error(data + ": more than 1400 images are needed");
    std::filesystem::create_directories(output);
    std::ofstream csv(output / "fp8_scales.csv");
    // Saturated: gradients of all layers
    csv << "name,step,layer,input,weight,gradient,saturated\n";

    std::printf("%-24s %8s %10s %21s %21s %10s %7s\n", "", "test", "", "inputs and weights",
                "gradients", "saturating", "steps");
    std::printf("%-24s %8s %10s %11s %9s %11s %9s %10s %7s\n", "", "accuracy", "final loss",
                "became zero", "saturated", "became zero", "saturated", "steps", "skipped");
    digits::Progress progress(5 * settings.steps());
    (void)train("float", Scaling::in_float, images, settings, progress, csv);
    (void)train("fp8 with one loss scale", Scaling::loss_scale, images, settings, progress, csv);
    (void)train("fp8 with delayed scales", Scaling::delayed, images, settings, progress, csv);
    (void)train("fp8 with both", Scaling::both, images, settings, progress, csv);
    const long gradients =
        train("fp8 with both; not told", Scaling::untold, images, settings, progress, csv);
    std::printf(
        "\nA training quantizes %.1f million gradients. The last one does not call "
        "loss_scale_changed.\n",
        static_cast<double>(gradients) * 1e-6);
    csv.close();
    if (!csv)
      throw std::runtime_error((output / "fp8_scales.csv").string() + ": cannot be written");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fp8_linear: %s\n", error.what());
    return 1;
  }
}
