// In which order should ranks scale, sum and unscale their gradients? Trains a network on
// handwritten digits for a few steps in float. Then it distributes the images of a batch over
// simulated ranks. Each rank computes scaled gradients in fp16. They are summed in five ways: the
// first three are in use, the other two are faults. Prints for each the largest loss scale that
// does not overflow, and what is lost at that scale.
//
//   reduction_order [data.csv]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "../examples/digits/data.hpp"
#include "../examples/digits/training.hpp"

namespace {

using headroom::half;
using Floats = std::vector<float>;
using Halves = std::vector<half>;

Floats flattened(const digits::Model<float>& grads) {
  Floats all;
  headroom::for_each_leaf(grads, [&](const auto& leaf) {
    all.insert(all.end(), leaf.data(), leaf.data() + leaf.size());
  });
  return all;
}
/// The mean over a rank's images, in fp16, times the scale.
Floats gradients(const digits::Model<float>& model, const digits::Images& batch, float scale) {
  const auto params = headroom::cast<Eigen::half>(model);
  const auto activations = digits::forward(params, batch.pixels);
  const auto loss = digits::cross_entropy(digits::widen(activations.back()), batch.labels, scale);
  return flattened(headroom::cast<float>(
      digits::backward(params, activations, digits::rounded<Eigen::half>(loss.logit_gradient))));
}
Floats exact_gradients(const digits::Model<float>& model, const digits::Images& batch) {
  const auto activations = digits::forward(model, batch.pixels);
  const auto loss = digits::cross_entropy(activations.back(), batch.labels, 1.0F);
  return flattened(digits::backward(model, activations, loss.logit_gradient));
}

float in_half(float value) { return static_cast<float>(half(value)); }

/// The weights of the first layer, whose gradients are the smallest.
constexpr std::size_t first_layer = 64 * digits::pixels;

/// A way to get the unscaled mean from the scaled gradients of the ranks.
struct Way {
  const char* name;
  /// The number a rank sends for a scaled gradient, the rounding of a partial sum, and the divisor
  /// of the sum.
  std::function<float(float gradient, float scale, float ranks)> sent;
  float (*summed)(float);
  std::function<float(float scale, float ranks)> left;
};
std::vector<Way> ways() {
  const auto as_it_is = [](float gradient, float, float) { return gradient; };
  const auto scale_and_ranks = [](float scale, float ranks) { return scale * ranks; };
  const auto in_float = [](float sum) { return sum; };
  return {
      {"scaled, summed in float, then unscaled", as_it_is, +in_float, scale_and_ranks},
      {"scaled, summed in fp16, then unscaled", as_it_is, in_half, scale_and_ranks},
      {"scaled, divided by the ranks, summed in fp16, unscaled",
       [](float gradient, float, float ranks) { return in_half(gradient / ranks); }, in_half,
       [](float scale, float) { return scale; }},
      {"unscaled in fp16, then summed in float",
       [](float gradient, float scale, float) { return in_half(gradient / scale); }, +in_float,
       [](float, float ranks) { return ranks; }},
      {"unscaled in fp16, then summed in fp16",
       [](float gradient, float scale, float) { return in_half(gradient / scale); }, in_half,
       [](float, float ranks) { return ranks; }},
  };
}

struct Outcome {
  bool finite = true;
  double lost_share = 0.0;   // of the first layer's: zero here, not zero in float
  double first_error = 0.0;  // relative, in L2, of the first layer
  double error = 0.0;        // of all gradients
};

double relative_error(const Floats& found, const Floats& exact, std::size_t size) {
  double error = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    error += std::pow(static_cast<double>(found[i]) - static_cast<double>(exact[i]), 2.0);
    norm += std::pow(static_cast<double>(exact[i]), 2.0);
  }
  return std::sqrt(error / norm);
}

Outcome outcome_of(const Way& way, const std::vector<Floats>& of_ranks, const Floats& exact,
                   float scale) {
  const auto ranks = static_cast<float>(of_ranks.size());
  Floats means;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    float sum = 0.0F;
    // As a ring does
    for (const Floats& rank : of_ranks) sum = way.summed(sum + way.sent(rank[i], scale, ranks));
    means.push_back(sum / way.left(scale, ranks));
  }
  Outcome outcome;
  outcome.finite = headroom::all_finite(means);
  int lost = 0, present = 0;
  for (std::size_t i = 0; i < first_layer; ++i) {
    present += exact[i] != 0.0F ? 1 : 0;
    lost += exact[i] != 0.0F && means[i] == 0.0F ? 1 : 0;
  }
  outcome.lost_share = static_cast<double>(lost) / static_cast<double>(present);
  outcome.first_error = relative_error(means, exact, first_layer);
  outcome.error = relative_error(means, exact, exact.size());
  return outcome;
}

digits::Model<float> trained_model(const digits::Images& images, int steps) {
  digits::Random random(8);
  digits::Model<float> model =
      digits::random_model({digits::pixels, 64, 64, 64, 64, 64, 64, digits::classes}, random);
  digits::Adam adam(model);
  for (int step = 0; step < steps; ++step) {
    const auto activations = digits::forward(model, images.pixels);
    const auto loss = digits::cross_entropy(activations.back(), images.labels, 1.0F);
    adam.step(model, digits::backward(model, activations, loss.logit_gradient), 0.005F);
  }
  return model;
}

void print_ways(const digits::Model<float>& model, const digits::Images& batch, std::size_t ranks) {
  const std::size_t share = batch.size() / ranks;
  std::vector<int> order(share * ranks);
  std::iota(order.begin(), order.end(), 0);
  const Floats exact = exact_gradients(model, batch.subset(order, 0, order.size()));
  const std::vector<Way> all = ways();
  std::vector<int> largest(all.size(), 13);
  std::vector<Outcome> best(all.size());
  for (int exponent = 14; exponent <= 40; ++exponent) {
    // All have overflowed
    if (*std::max_element(largest.begin(), largest.end()) < exponent - 1) break;
    const float scale = std::ldexp(1.0F, exponent);
    std::vector<Floats> of_ranks;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      of_ranks.push_back(
          gradients(model, batch.subset(order, rank * share, (rank + 1) * share), scale));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Outcome outcome = outcome_of(all[i], of_ranks, exact, scale);
      if (!outcome.finite || largest[i] != exponent - 1) continue;
      largest[i] = exponent;
      best[i] = outcome;
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::printf("%5zu  %-56s 2^%-11d %6.1f %% %11.1f %% %8.2f %%\n", ranks, all[i].name, largest[i],
                100.0 * best[i].lost_share, 100.0 * best[i].first_error, 100.0 * best[i].error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const digits::Images images =
        digits::read_images(argc > 1 ? argv[1] : "examples/data/digits.csv");
    std::vector<int> order(1024);
    std::iota(order.begin(), order.end(), 0);
    const digits::Images batch = images.subset(order, 0, order.size());
    const auto model = trained_model(batch, 3);
    std::printf("%5s  %-56s %-13s %-22s %s\n%79s %7s %13s %10s\n", "ranks", "gradients are",
                "largest scale", "of the first layer", "of all", "", "lost", "error", "error");
    for (const std::size_t ranks : {2, 16, 128}) print_ways(model, batch, ranks);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reduction_order: %s\n", error.what());
    return 1;
  }
}
