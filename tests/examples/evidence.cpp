#include "../../examples/evidence/faults.hpp"
#include "../../examples/evidence/runs.hpp"
#include "../../examples/evidence/statistics.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.hpp"

using evidence::Random;

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
  settings.test_batches = 2;
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
  Random random(5);
  for (std::size_t leaf = 0; leaf < found.size(); ++leaf) {
    CAPTURE(leaf);
    Eigen::ArrayXf direction(found[leaf].size());
    for (float& value : direction) value = random.normal();
    const double expected = static_cast<double>((direction * found[leaf]).sum());
    const auto loss_at = [&](float distance) {
      auto moved = model;
      std::size_t next = 0;
      headroom::for_each_leaf(moved, [&](auto& values) {
        if (next++ == leaf) Eigen::Map<Eigen::ArrayXf>(values.data(), values.size()) += distance * direction;
      });
      return network.gradients(moved, batch, 1.0F).loss;
    };
    const double measured = (loss_at(2e-4F) - loss_at(-2e-4F)) / 4e-4;
    const double norm = std::sqrt(static_cast<double>(direction.square().sum() * found[leaf].square().sum()));
    CHECK(std::abs(measured - expected) < 4e-3 * norm + 1e-3);
    CHECK(norm > 1e-3);
  }
}

/// With a scale that loses nothing, fp16 gradients divided by the scale equal the float ones up to rounding.
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

/// The gradients of two halves of a batch, each with a scale of 1/2, add up to the gradients of the batch.
template <class Network>
void check_parts(Network network) {
  const auto model = network.initial();
  const auto batch = network.next_batch();
  const auto whole = network.gradients(model, batch, 1.0F).grads;
  const auto first = network.gradients(model, Network::part(batch, 0, 2), 0.5F).grads;
  const auto second = network.gradients(model, Network::part(batch, 1, 2), 0.5F).grads;
  const auto a = evidence::leaves(first), b = evidence::leaves(second), sum = evidence::leaves(whole);
  for (std::size_t leaf = 0; leaf < sum.size(); ++leaf) {
    CHECK((a[leaf] + b[leaf] - sum[leaf]).abs().maxCoeff() < 1e-5F);
  }
}

template <class Network>
evidence::Result train_half(const Network& network, const headroom::AnyLossScale& policy) {
  return evidence::train<Eigen::half>(network, evidence::Step(policy, network.schedule()), 5);
}

/// A step that makes all weights NaN.
struct Breaks {
  [[nodiscard]] static float loss_scale() { return 1.0F; }
  template <class Model, class Gradients>
  headroom::GradientReport operator()(Model& weights, const Gradients& gradients, float) const {
    (void)gradients(1.0F);
    headroom::for_each_leaf(weights, [](auto& leaf) { leaf.setConstant(std::numeric_limits<float>::quiet_NaN()); });
    return {};
  }
};

using Weights = std::vector<std::vector<float>>;

/// Two weights, each of another optimizer or rank, with gradients of 0.25. A step moves them by gradient / (gradient + 1).
struct Toy {
  evidence::Schedule schedule{1, 0, 1.0F, 1.0F};
  Weights weights{{0.0F}, {0.0F}};
  int overflows = -1;  // the leaf that overflows in the next step; -1: none

  template <class Step>
  headroom::GradientReport take(Step& step) {
    const auto gradients = [this](float loss_scale, int = 0, int = 1) {
      std::vector<std::vector<headroom::half>> grads16(2, {headroom::half(0.25F * loss_scale)});
      if (overflows >= 0) grads16[static_cast<std::size_t>(overflows)][0] = headroom::half(1e6F);
      return grads16;
    };
    weights = {{0.0F}, {0.0F}};
    return step(weights, gradients, 1.0F);
  }
  [[nodiscard]] double moved(std::size_t i) const { return -static_cast<double>(weights[i][0]); }
};
evidence::FaultyStep faulty(evidence::Fault fault, int growth_interval = 100) {
  headroom::LossScaleConfig config;
  config.initial_scale = 1024.0F;
  config.growth_interval = growth_interval;
  return {fault, headroom::DynamicLossScale(config), Toy().schedule, {1, false}};
}

}  // namespace

TEST_CASE("each fault makes the mistake that its name says") {
  using evidence::Fault;
  Toy toy;
  evidence::Step right(headroom::ConstantLossScale(1024.0F), toy.schedule);
  (void)toy.take(right);
  const auto is_moved_by = [](double gradient) { return Catch::Matchers::WithinAbs(gradient / (gradient + 1.0), 1e-6); };
  CHECK_THAT(toy.moved(0), is_moved_by(0.25));

  SECTION("the gradients are of the wrong size") {
    auto updated = faulty(Fault::updated_before_unscale, 1);
    (void)toy.take(updated);
    CHECK_THAT(toy.moved(0), is_moved_by(0.125));
    auto twice = faulty(Fault::unscaled_twice);
    (void)toy.take(twice);
    CHECK_THAT(toy.moved(0), is_moved_by(0.25 / 1024.0));
    auto early = faulty(Fault::clipped_before_unscale);
    (void)toy.take(early);
    CHECK_THAT(toy.moved(0), is_moved_by(std::sqrt(0.5) / 1024.0));
  }
  SECTION("an overflow is ignored") {
    toy.overflows = 0;
    auto ignored = faulty(Fault::skip_ignored);
    CHECK_FALSE(toy.take(ignored).finite);
    CHECK_FALSE(std::isfinite(toy.moved(0)));
    CHECK(toy.moved(1) > 0.0);
    CHECK(ignored.loss_scale() == 512.0F);
    auto one_flag = faulty(Fault::one_flag);
    (void)toy.take(one_flag);
    CHECK_FALSE(std::isfinite(toy.moved(0)));
    CHECK(one_flag.loss_scale() == 1024.0F);
    auto not_combined = faulty(Fault::flags_not_combined);
    (void)toy.take(not_combined);
    CHECK(toy.moved(0) == 0.0);
    CHECK(toy.moved(1) > 0.0);
    CHECK(not_combined.loss_scale() == 1024.0F);
  }
  SECTION("an overflow of the second optimizer skips both") {
    toy.overflows = 1;
    auto one_flag = faulty(Fault::one_flag);
    (void)toy.take(one_flag);
    CHECK(toy.moved(0) == 0.0);
    CHECK(toy.moved(1) == 0.0);
    CHECK(one_flag.loss_scale() == 512.0F);
  }
  SECTION("each rank has its own scale") {
    toy.overflows = 0;
    auto apart = faulty(Fault::ranks_apart);
    CHECK_FALSE(toy.take(apart).finite);
    CHECK(toy.moved(0) == 0.0);
    CHECK_THAT(toy.moved(1), is_moved_by(0.25));
    CHECK(apart.loss_scale() == 512.0F);
    toy.overflows = -1;  // the loss is scaled by (512 + 1024) / 2, the gradients are divided by 512 and by 1024
    (void)toy.take(apart);
    CHECK_THAT(toy.moved(0), is_moved_by(0.25 * 768.0 / 512.0));
    CHECK(toy.moved(1) < 0.2);
  }
}

TEST_CASE("Wilcoxon's p is the share of all choices of signs that are at least as extreme") {
  CHECK(evidence::wilcoxon({1, 2, -3, 4, 5, 6}) == 10.0 / 64.0);
  CHECK(evidence::wilcoxon({0, 0}) == 1.0);
  CHECK(evidence::wilcoxon(std::vector<double>(20, 0.5)) == 0x1p-19);
  Random random(1);
  for (int repetition = 0; repetition < 20; ++repetition) {
    std::vector<double> differences;
    for (int i = 0; i < 8; ++i) differences.push_back(std::floor(9.0 * random.uniform()) - 3.0);  // with ties and zeros
    const auto rank_sum = [&](unsigned signs) {  // the sum of the positive ranks, minus its mean
      double sum = 0.0;
      for (std::size_t i = 0; i < 8; ++i) {
        if (differences[i] == 0.0) continue;
        double rank = 0.5;
        for (const double other : differences) {
          if (other != 0.0)
            rank += std::abs(other) < std::abs(differences[i]) ? 1.0 : std::abs(other) == std::abs(differences[i]) ? 0.5 : 0.0;
        }
        sum += (signs >> i & 1U) != 0 ? 0.5 * rank : -0.5 * rank;
      }
      return sum;
    };
    unsigned actual = 0;
    for (std::size_t i = 0; i < 8; ++i) actual |= differences[i] > 0.0 ? 1U << i : 0U;
    int as_far = 0;
    for (unsigned signs = 0; signs < 256; ++signs) as_far += std::abs(rank_sum(signs)) >= std::abs(rank_sum(actual)) ? 1 : 0;
    CHECK_THAT(evidence::wilcoxon(differences), Catch::Matchers::WithinAbs(as_far / 256.0, 1e-12));
  }
}

TEST_CASE("Holm's correction multiplies the smallest p by the number of tests, and keeps the order") {
  const std::vector<double> corrected = evidence::holm({0.01, 0.04, 0.03, 0.9});
  CHECK_THAT(corrected[0], Catch::Matchers::WithinAbs(0.04, 1e-12));
  CHECK_THAT(corrected[1], Catch::Matchers::WithinAbs(0.09, 1e-12));
  CHECK_THAT(corrected[2], Catch::Matchers::WithinAbs(0.09, 1e-12));
  CHECK(corrected[3] == 0.9);
  CHECK(evidence::holm({0.5, 0.7}) == std::vector<double>{1.0, 1.0});
}

TEST_CASE("the transformer's gradients are the derivatives of its loss") {
  const evidence::Text text = small_text();
  check_gradients(small_language(text));
  check_half(small_language(text));
  check_parts(small_language(text));
}

TEST_CASE("the recurrent network's gradients are the derivatives of its loss") {
  check_gradients(small_adding());
  check_half(small_adding());
  check_parts(small_adding());
}

TEST_CASE("a training learns, and its result counts skipped steps and lost gradients") {
  const evidence::Text text = small_text();
  const auto good = train_half(small_language(text), headroom::ConstantLossScale(64.0F));
  CHECK(good.losses.size() == 30);
  CHECK(good.losses.back() < 0.9 * good.losses.front());
  CHECK(good.skipped == 0);
  CHECK(good.lost_share < 0.01);
  CHECK(good.wasted_bits > 5.0);
  CHECK(train_half(small_language(text), headroom::ConstantLossScale(64.0F)).quality == good.quality);

  const auto lost = train_half(small_language(text), headroom::ConstantLossScale(0x1p-24F));
  CHECK(lost.lost_share > 0.9);
  CHECK(train_half(small_language(text), headroom::ConstantLossScale(0x1p30F)).skipped == 30);
}

TEST_CASE("results that were not measured are NaN") {
  const auto network = small_adding();
  const auto step = [&](float scale) { return evidence::Step(headroom::ConstantLossScale(scale), network.schedule()); };
  const auto skipped = train_half(network, headroom::ConstantLossScale(0x1p40F));
  CHECK(skipped.skipped == network.schedule().steps);
  CHECK(std::isnan(skipped.lost_share));
  CHECK(std::isnan(skipped.wasted_bits));
  CHECK(std::isnan(evidence::train<Eigen::half>(network, step(1.0F), 0).lost_share));
  const auto bf16 = evidence::train<Eigen::bfloat16>(network, step(1.0F), 5);
  CHECK(bf16.lost_share >= 0.0);
  CHECK(std::isnan(bf16.wasted_bits));
}

TEST_CASE("a network that returns NaN has an accuracy of 0 and an infinite loss") {
  digits::Images images;
  images.pixels.setOnes(digits::pixels, 3);
  images.labels = {0, 0, 9};
  digits::Model<float> model{
      {{digits::Matrix<float>::Zero(digits::classes, digits::pixels), digits::Vector<float>::Zero(digits::classes)}}};
  Eigen::VectorXf& bias = model.layers[0].bias;
  bias(0) = 2.0F;
  bias(1) = -std::numeric_limits<float>::infinity();  // softmax is 0 there, which is a valid answer
  CHECK_THAT(digits::accuracy<Eigen::half>(model, images), Catch::Matchers::WithinAbs(200.0 / 3.0, 1e-9));
  bias(0) = 1e6F;  // Inf in fp16, finite in float
  CHECK(digits::accuracy<float>(model, images) > 60.0);
  CHECK(digits::accuracy<Eigen::half>(model, images) == 0.0);
  bias(0) = 2.0F;
  for (const int nan : {0, 5, 9}) {
    bias.setZero();
    bias(0) = 2.0F;
    bias(nan) = std::numeric_limits<float>::quiet_NaN();
    CHECK(digits::accuracy<float>(model, images) == 0.0);
  }

  const auto diverged = evidence::train<Eigen::half>(small_adding(), Breaks(), 0);
  CHECK(diverged.quality == std::numeric_limits<double>::infinity());
  CHECK(evidence::Run(diverged).diverged);
}

TEST_CASE("a recorded training has the largest gradient of each step") {
  const evidence::Text text = small_text();
  const auto max_abs = evidence::record(small_language(text));
  REQUIRE(max_abs.size() == 30);
  for (const double value : max_abs) CHECK((value > 0.0 && value < 100.0));
  CHECK(max_abs == evidence::record(small_language(text)));
}

TEST_CASE("the made-up text is the same on every machine, and follows Zipf's law") {
  const evidence::Text text = evidence::make_text(1000, 100000);
  CHECK(text.vocabulary == 1000);
  CHECK(text.training.size() == 90000);
  CHECK(text.test.size() == 10000);
  std::uint64_t digest = 0xcbf29ce484222325U;  // FNV-1a
  std::vector<int> counts(1000);
  for (const int word : text.training) {
    digest = (digest ^ static_cast<std::uint64_t>(word)) * 0x100000001b3U;
    ++counts.at(static_cast<std::size_t>(word));
  }
  CHECK(digest == 0x8a5da4774ba5e189U);
  CHECK_THAT(counts[0] / 90000.0, Catch::Matchers::WithinAbs(1.0 / 7.485, 0.05));  // 1 + 1/2 + … + 1/1000 = 7.485
  CHECK(counts[0] > counts[99]);
}
