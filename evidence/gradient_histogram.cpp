// How large are gradients, and how much of them would fp16 lose? Trains on handwritten digits in
// float and counts the binary exponents of the gradients of every tenth step, for the whole network
// and tensor by tensor: Figure 3 of "Mixed Precision Training" (Micikevicius et al., 2018), for a
// network of one's own.
//
//   gradient_histogram [data.csv [output directory [epochs]]]
//
// Prints bars and a table; writes gradients.csv for plots.gp.

#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <headroom/observe/exponent_histogram.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "../examples/digits/data.hpp"
#include "../examples/digits/progress.hpp"
#include "../examples/digits/random.hpp"
#include "../examples/digits/training.hpp"

namespace {

struct Leaf {
  std::string path;
  headroom::ExponentHistogram histogram;
};

/// The sums over the training, by leaf.
std::vector<Leaf> record(const digits::Images& images, const digits::Settings& settings) {
  digits::Random random(settings.seed);
  std::vector<int> order(settings.training_images);
  std::iota(order.begin(), order.end(), 0);
  std::vector<Eigen::Index> widths(static_cast<std::size_t>(settings.hidden_layers) + 2,
                                   settings.hidden_width);
  widths.front() = digits::pixels;
  widths.back() = digits::classes;
  digits::Model<float> model = digits::random_model(widths, random);
  digits::Adam adam(model);
  digits::Progress progress(settings.steps());
  std::vector<Leaf> sums;
  int step = 0;
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    random.shuffle(order);
    for (std::size_t begin = 0; begin + settings.batch <= order.size();
         begin += settings.batch, ++step) {
      const digits::Images batch = images.subset(order, begin, begin + settings.batch);
      const auto activations = digits::forward(model, batch.pixels);
      const digits::Loss loss = digits::cross_entropy(activations.back(), batch.labels, 1.0F);
      const auto grads = digits::backward(model, activations, loss.logit_gradient);
      if (step % 10 == 0) {
        std::size_t i = 0;
        headroom::for_each_leaf_with_path(grads, [&](const std::string& path, const auto& leaf) {
          if (i == sums.size()) sums.push_back({path, {}});
          sums[i++].histogram += headroom::exponent_histogram(leaf);
        });
      }
      adam.step(model, grads, settings.rate(step));
      progress.tick();
    }
  }
  return sums;
}

/// In percent, without a scale and with one, in fp16.
void print_row(const std::string& name, const headroom::ExponentHistogram& histogram, float scale) {
  const auto without = histogram.shares<headroom::half>(),
             with = histogram.shares<headroom::half>(scale);
  std::printf("%-18s %10.3g %10.1f %% %10.1f %% %12.1f %% %10.1f %%\n", name.c_str(),
              histogram.max_abs(), 100.0 * without.underflow_share(),
              100.0 * without.subnormal_share(), 100.0 * with.underflow_share(),
              100.0 * with.subnormal_share());
}

/// For plots: how many gradients are zero, and how many have which exponent.
void write(const std::filesystem::path& file, const headroom::ExponentHistogram& histogram) {
  std::ofstream out(file);
  out << "kind,exponent,count\nzero,," << histogram.zeros() << '\n';
  for (int exponent = histogram.lowest_exponent(); exponent <= histogram.highest_exponent();
       ++exponent) {
    out << "finite," << exponent << ',' << histogram.count(exponent) << '\n';
  }
  out.close();
  if (!out) throw std::runtime_error(file.string() + ": cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string data = argc > 1 ? argv[1] : "examples/data/digits.csv";
    const std::filesystem::path output = argc > 2 ? argv[2] : "build/evidence";
    digits::Settings settings;
    if (argc > 3) settings.epochs = digits::parse_number(argv[3], 100000, "epochs, argument", 3);
    if (settings.epochs < 1) throw std::runtime_error("epochs, argument 3: at least 1 is needed");
    const digits::Images images = digits::read_images(data);
    if (images.size() <= settings.training_images)
      throw std::runtime_error(data + ": more than 1400 images are needed");
    std::filesystem::create_directories(output);

    const std::vector<Leaf> leaves = record(images, settings);
    headroom::ExponentHistogram all;
    for (const Leaf& leaf : leaves) all += leaf.histogram;
    write(output / "gradients.csv", all);

    std::printf("Gradients of %d steps in float, every tenth one, by their binary exponents:\n%s\n",
                settings.steps(), histogram_text(all).c_str());
    const float scale = all.recommended_scale<headroom::half>(2);
    std::printf("Of the gradients that are not zero, in fp16, without a scale and with %.0f:\n",
                static_cast<double>(scale));
    std::printf("%-18s %10s %12s %12s %14s %12s\n", "", "largest", "lost", "subnormal",
                "scaled: lost", "subnormal");
    for (const Leaf& leaf : leaves) print_row(leaf.path, leaf.histogram, scale);
    print_row("all", all, scale);
    std::printf(
        "\nThe scale is the largest power of two that leaves the largest gradient two bits below "
        "overflow.\n");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gradient_histogram: %s\n", error.what());
    return 1;
  }
}
