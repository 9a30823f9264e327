#include "../../evidence/networks/faults.hpp"
#include "../../evidence/networks/runs.hpp"
#include "../../evidence/networks/statistics.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using evidence::Fault;

namespace {

evidence::Text small_text() {
  evidence::Text text;
  text.vocabulary = 11;
  for (int i = 0; i < 200; ++i) text.training.push_back(i * i % 11);
  text.test = text.training;
  return text;
}

evidence::Language small_language(const evidence::Text& text) {
  evidence::Language::Settings settings;
  settings.schedule = {30, 12, 0.01F};
  settings.shape = {text.vocabulary, 8, 2, 2, 5, 0.2F};
  settings.batch = 4;
  settings.test_sequences = 8;
  return {text, settings, 3};
}

evidence::Adding small_adding() {
  evidence::Adding::Settings settings;
  settings.length = 6;
  settings.width = 5;
  settings.batch = 8;
  settings.test_examples = 16;
  return {settings, 3};
}

/// Compares the gradients with differences of the loss along a random direction in each leaf.
template <class Network>
void check_gradients(Network network) {
  const auto model = network.initial();
  const auto batch = network.next_batch();
  const auto grads = network.gradients(model, batch, 1.0F).grads;
  const auto found = evidence::leaves(grads);
  evidence::Random random(5);
  for (std::size_t leaf = 0; leaf < found.size(); ++leaf) {
    CAPTURE(leaf);
    Eigen::ArrayXf direction(found[leaf].size());
    for (float& value : direction) value = random.normal();
    const double expected = static_cast<double>((direction * found[leaf]).sum());
    const auto loss_at = [&](float distance) {
      auto moved = model;
      std::size_t next = 0;
      headroom::for_each_leaf(moved, [&](auto& values) {
        if (next++ == leaf)
          Eigen::Map<Eigen::ArrayXf>(values.data(), values.size()) += distance * direction;
      });
      return network.gradients(moved, batch, 1.0F).loss;
    };
    const double measured = (loss_at(2e-4F) - loss_at(-2e-4F)) / 4e-4;
    const double norm =
        std::sqrt(static_cast<double>(direction.square().sum() * found[leaf].square().sum()));
    CHECK(std::abs(measured - expected) < 4e-3 * norm + 1e-3);
    CHECK(norm > 1e-3);
  }
}

/// With a scale that loses nothing, fp16 gradients divided by the scale equal the float ones up to
/// rounding.
template <class Network>
void check_half(Network network) {
  const auto model = network.initial();
  const auto batch = network.next_batch();
  const auto exact = network.gradients(model, batch, 1.0F).grads;
  const auto grads16 = network.gradients(headroom::cast<Eigen::half>(model), batch, 1024.0F).grads;
  const auto unscaled = headroom::unscale<float>(grads16, 1024.0F).grads;
  const auto found = evidence::leaves(unscaled), wanted = evidence::leaves(exact);
  for (std::size_t leaf = 0; leaf < wanted.size(); ++leaf) {
    CAPTURE(leaf);
    CHECK((found[leaf] - wanted[leaf]).matrix().norm() < 0.02F * wanted[leaf].matrix().norm());
  }
}

/// A step that makes all weights NaN.
struct Breaks {
  [[nodiscard]] static float loss_scale() { return 1.0F; }
  template <class Model, class Gradients>
  headroom::GradientReport operator()(Model& weights, const Gradients& gradients, float) const {
    (void)gradients(1.0F);
    headroom::for_each_leaf(
        weights, [](auto& leaf) { leaf.setConstant(std::numeric_limits<float>::quiet_NaN()); });
    return {};
  }
};

constexpr headroom::DynamicLossScale doubling(headroom::LossScaleConfig{1024.0F, 1});
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// One step with a fault. It trains two weights, each of another optimizer or rank, with gradients
/// of 0.25 and a scale of 1024.
struct FaultyCase {
  Fault fault;
  int overflow;  ///< the weight whose gradient is Inf; -1: none
  /// The gradients that the optimizers should get; 0: no step; NaN: not finite
  double first, second;
  float scale;  ///< the next scale; a step that seems finite doubles it
};
const FaultyCase faulty_cases[] = {
    {Fault::updated_before_unscale, -1, 0.125, 0.125, 2048.0F},
    {Fault::unscaled_twice, -1, 0.25 / 1024.0, 0.25 / 1024.0, 2048.0F},
    {Fault::clipped_before_unscale, -1, std::sqrt(0.5) / 1024.0, std::sqrt(0.5) / 1024.0, 2048.0F},
    {Fault::skip_ignored, 0, nan, 0.25, 512.0F},
    {Fault::one_flag, 0, nan, 0.25, 2048.0F},
    {Fault::one_flag, 1, 0.0, 0.0, 512.0F},
    {Fault::flags_not_combined, 0, 0.0, 0.25, 2048.0F},
    {Fault::ranks_apart, 0, 0.0, 0.25, 512.0F},
};

void check_fault(const FaultyCase& expected) {
  evidence::FaultyStep step(expected.fault, doubling, evidence::Schedule{1, 0, 1.0F, 1.0F},
                            {1, false});
  std::vector<std::vector<float>> weights{{0.0F}, {0.0F}};
  const auto gradients = [&](float loss_scale, int = 0, int = 1) {
    std::vector<std::vector<headroom::half>> grads16(2, {headroom::half(0.25F * loss_scale)});
    if (expected.overflow >= 0)
      grads16[static_cast<std::size_t>(expected.overflow)][0] = headroom::half(1e6F);
    return grads16;
  };
  CHECK(step(weights, gradients, 1.0F).finite == (expected.overflow < 0));
  CHECK(step.loss_scale() == expected.scale);
  // Adam's first step, with an epsilon of 1
  const auto moved_by = [&](std::size_t i, double gradient) {
    const double moved = -static_cast<double>(weights[i][0]);
    if (std::isnan(gradient)) return !std::isfinite(moved);
    return std::abs(moved - gradient / (gradient + 1.0)) < 1e-6;
  };
  CHECK(moved_by(0, expected.first));
  CHECK(moved_by(1, expected.second));
}

}  // namespace

TEST_CASE("each fault makes the mistake that its name says") {
  for (const FaultyCase& expected : faulty_cases) {
    CAPTURE(static_cast<int>(expected.fault), expected.overflow);
    check_fault(expected);
  }
}

TEST_CASE("a step sums the gradients of its micro-batches, and is skipped if one overflows") {
  for (const int overflow : {-1, 0, 1, 3}) {
    evidence::Schedule schedule{1, 0, 1.0F, 1.0F};
    schedule.micro_batches = 4;
    evidence::Step step(doubling, schedule);
    std::vector<float> weights(1);
    const auto gradients = [&](float loss_scale, int part, int parts) {
      CHECK(parts == 4);
      const float mean = 0.25F * static_cast<float>(part + 1);
      return std::vector<headroom::half>{
          headroom::half(part == overflow ? 1e6F : mean * loss_scale)};
    };
    CHECK(step(weights, gradients, 1.0F).finite == (overflow < 0));
    CHECK(step.loss_scale() == (overflow < 0 ? 2048.0F : 512.0F));
    // Adam's first step, with an epsilon of 1
    const double moved = overflow < 0 ? 0.625 / 1.625 : 0.0;
    CHECK(std::abs(static_cast<double>(weights[0]) + moved) < 1e-6);
  }
}

TEST_CASE("Wilcoxon's p is the share of all choices of signs that are at least as extreme") {
  CHECK(evidence::wilcoxon({1, 2, -3, 4, 5, 6}) == 10.0 / 64.0);
  CHECK(evidence::wilcoxon({0, 0}) == 1.0);
  CHECK(evidence::wilcoxon(std::vector<double>(20, 0.5)) == 0x1p-19);
  // Zeros are left out, and ties have their mean rank
  CHECK(evidence::wilcoxon({0, 1, -1, 1, 2}) == 8.0 / 16.0);
}

TEST_CASE("Holm's correction multiplies the smallest p by the number of tests, in order") {
  const std::vector<double> corrected = evidence::holm({0.01, 0.04, 0.03, 0.9});
  CHECK_THAT(corrected[0], Catch::Matchers::WithinAbs(0.04, 1e-12));
  CHECK_THAT(corrected[1], Catch::Matchers::WithinAbs(0.09, 1e-12));
  CHECK_THAT(corrected[2], Catch::Matchers::WithinAbs(0.09, 1e-12));
  CHECK(corrected[3] == 0.9);
  CHECK(evidence::holm({0.5, 0.7}) == std::vector<double>{1.0, 1.0});
}

TEST_CASE("the networks' gradients are the derivatives of their losses") {
  const evidence::Text text = small_text();
  check_gradients(small_language(text));
  check_half(small_language(text));
  check_gradients(small_adding());
  check_half(small_adding());
}

TEST_CASE("a network that returns NaN has an accuracy of 0 and an infinite loss") {
  digits::Images images;
  images.pixels.setOnes(digits::pixels, 3);
  images.labels = {0, 0, 9};
  digits::Model<float> model{{{digits::Matrix<float>::Zero(digits::classes, digits::pixels),
                               digits::Vector<float>::Zero(digits::classes)}}};
  CHECK(digits::accuracy<float>(model, images) > 60.0);
  for (const int place : {0, 5, 9}) {
    model.layers[0].bias.setZero();
    model.layers[0].bias(place) = std::numeric_limits<float>::quiet_NaN();
    CHECK(digits::accuracy<float>(model, images) == 0.0);
  }
  CHECK(evidence::train<Eigen::half>(small_adding(), Breaks(), 0).quality ==
        std::numeric_limits<double>::infinity());
}

TEST_CASE("the parts of a batch together are the batch, in order") {
  digits::Images images;
  images.pixels.setRandom(digits::pixels, 20);
  for (int i = 0; i < 20; ++i) images.labels.push_back(i);
  for (std::size_t parts = 1; parts <= 21; ++parts) {
    std::vector<int> labels;
    Eigen::Index column = 0;
    for (std::size_t i = 0; i < parts; ++i) {
      const digits::Images part = images.part(i, parts);
      CHECK(part.pixels == images.pixels.middleCols(column, part.pixels.cols()));
      column += part.pixels.cols();
      labels.insert(labels.end(), part.labels.begin(), part.labels.end());
    }
    CHECK(labels == images.labels);
  }
}
