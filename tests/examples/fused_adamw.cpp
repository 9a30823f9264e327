#include "../../examples/fused_adamw.hpp"

#include <headroom/headroom.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using fused::adamw_step;
using fused::AdamWOptions;
using headroom::half;

namespace {

template <class T>
using Leaves = std::vector<std::vector<T>>;

const std::vector<std::size_t> sizes = {3, 0, 1030, 1};

template <class T>
Leaves<T> leaves_of(float value) {
  Leaves<T> leaves;
  for (const std::size_t size : sizes) leaves.emplace_back(size, T(value));
  return leaves;
}

/// Unscales and clips the gradients, then does AdamW, all in double. The steps are those of torch's
/// documentation of AdamW, which are algorithm 2 of Loshchilov and Hutter, "Decoupled Weight Decay
/// Regularization".
class Reference {
 public:
  Leaves<double> weights = leaves_of<double>(1.0F);

  template <class T>
  void step(const Leaves<T>& scaled, double loss_scale, double max_norm, const AdamWOptions& by) {
    Leaves<double> gradients = leaves_of<double>(0.0F);
    double squares = 0.0;
    for_each([&](std::size_t leaf, std::size_t i) {
      gradients[leaf][i] = static_cast<double>(static_cast<float>(scaled[leaf][i])) / loss_scale;
      squares += gradients[leaf][i] * gradients[leaf][i];
    });
    const double clip = std::min(1.0, max_norm / std::sqrt(squares));
    ++steps_;
    for_each([&](std::size_t leaf, std::size_t i) {
      const double gradient = gradients[leaf][i] * clip;
      double& weight = weights[leaf][i];
      weight -= by.lr * by.weight_decay * weight;
      first_[leaf][i] = by.beta1 * first_[leaf][i] + (1.0 - by.beta1) * gradient;
      second_[leaf][i] = by.beta2 * second_[leaf][i] + (1.0 - by.beta2) * gradient * gradient;
      const double mean = first_[leaf][i] / (1.0 - std::pow(by.beta1, steps_));
      const double square = second_[leaf][i] / (1.0 - std::pow(by.beta2, steps_));
      weight -= by.lr * mean / (std::sqrt(square) + by.eps);
    });
  }
  [[nodiscard]] double largest_difference(const Leaves<float>& others) const {
    double largest = 0.0;
    for_each([&](std::size_t leaf, std::size_t i) {
      largest =
          std::max(largest, std::abs(weights[leaf][i] - static_cast<double>(others[leaf][i])));
    });
    return largest;
  }

 private:
  template <class F>
  static void for_each(F f) {
    for (std::size_t leaf = 0; leaf < sizes.size(); ++leaf) {
      for (std::size_t i = 0; i < sizes[leaf]; ++i) f(leaf, i);
    }
  }

  Leaves<double> first_ = leaves_of<double>(0.0F), second_ = leaves_of<double>(0.0F);
  int steps_ = 0;
};

/// Fills `scaled` with scaled gradients: half the weight plus noise, rounded to T.
template <class T>
void fill(Leaves<T>& scaled, const Leaves<float>& weights, float loss_scale, float size,
          std::mt19937& random) {
  std::uniform_real_distribution<float> noise(-1.0F, 1.0F);
  for (std::size_t leaf = 0; leaf < sizes.size(); ++leaf) {
    for (std::size_t i = 0; i < sizes[leaf]; ++i) {
      scaled[leaf][i] = T(loss_scale * size * (0.5F * weights[leaf][i] + noise(random)));
    }
  }
}

/// Compares 300 steps with the reference. One step in fifty overflows.
template <class T>
void check_training(float size, double max_norm, const AdamWOptions& options) {
  INFO(support::name_of<T>() << ", gradients of " << size << ", clipped to " << max_norm);
  std::mt19937 random(support::seed);
  Reference reference;
  auto weights = leaves_of<float>(1.0F);
  auto scaled = leaves_of<T>(0.0F);
  fused::AdamW<Leaves<T>> optimizer(weights, scaled, options);
  headroom::GradScaler<> scaler(1000.0, 3.0, 0.5, 60);
  int skipped = 0;
  for (int step = 1; step <= 300; ++step) {
    const float loss_scale = scaler.scale(1.0F);
    fill(scaled, weights, loss_scale, size, random);
    if (step % 50 == 0)
      support::set_bits(scaled[2][700], headroom::detail::format_of<T>::infinity_bits);
    const auto before = weights;
    const auto given = scaled;
    (void)scaler.unscale_and_clip_(optimizer, max_norm);
    const bool is_skipped = scaler.step(optimizer).skipped;
    scaler.update();
    skipped += is_skipped ? 1 : 0;
    CHECK((weights == before) == is_skipped);
    CHECK(scaled == given);  // the step does not change the gradients
    if (!is_skipped) reference.step(scaled, static_cast<double>(loss_scale), max_norm, options);
  }
  CHECK(skipped == 6);
  CHECK(reference.largest_difference(leaves_of<float>(1.0F)) > 0.1);  // the weights have moved
  CHECK(reference.largest_difference(weights) < 1e-5);
}

}  // namespace

TEST_CASE("300 fused steps equal unscaling, clipping and AdamW in double") {
  support::for_each_isa([](headroom::Isa) {
    const AdamWOptions usual, others{3e-3, 0.8, 0.95, 1e-6, 0.1};
    support::for_each_type<float, headroom::bfloat16, half>([&](auto type) {
      check_training<typename decltype(type)::type>(0.1F, 0.5, usual);   // always clips
      check_training<typename decltype(type)::type>(0.1F, 1e9, others);  // never clips
    });
  });
}

TEST_CASE("gradients may be any tree, and weights any list with one span for each leaf") {
  std::vector<float> first = {1.0F, 1.0F}, second = {1.0F};
  const std::vector<headroom::span<float>> weights = {first, second};
  const auto gradients = std::make_tuple(
      std::vector<headroom::bfloat16>{headroom::bfloat16(1.0F), headroom::bfloat16(1.0F)}, 7,
      std::optional<double>(), 1.0);
  fused::AdamWState state;
  adamw_step(weights, gradients, state, {}, 0.25);
  CHECK(first[1] == Approx(1.0 - 1e-3 - 1e-5));
  CHECK(second[0] == first[1]);
  CHECK(state.second[1][0] == Approx(0.001 * 0.0625));
}

TEST_CASE("sizes that do not match are an error, and nothing is written") {
  const Leaves<half> gradients = {{half(1.0F), half(1.0F)}, {half(1.0F)}};
  Leaves<float> weights = {{1.0F, 1.0F}, {1.0F, 1.0F}};
  fused::AdamWState state;
  CHECK_THROWS_WITH(adamw_step(weights, gradients, state, {}, 1.0), ContainsSubstring("leaf 1"));
  CHECK(weights == Leaves<float>{{1.0F, 1.0F}, {1.0F, 1.0F}});
  CHECK(state.steps == 0);
}
