#include "../../examples/evidence/training.hpp"

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
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
  settings.schedule.steps = 30;
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

/// Along a random direction in one leaf after the other, the gradients are those that the loss itself shows.
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

/// In fp16, where nothing is lost, they are the same up to rounding, times the scale.
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

/// Those of the halves of a batch have the gradient of the batch as their mean.
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
  return evidence::train<Eigen::half>(network, evidence::Step(policy, network.schedule()), 5, [] {});
}

}  // namespace

TEST_CASE("the transformer's gradients are those of its loss") {
  const evidence::Text text = small_text();
  check_gradients(small_language(text));
  check_half(small_language(text));
  check_parts(small_language(text));
}

TEST_CASE("the recurrent network's gradients are those of its loss") {
  check_gradients(small_adding());
  check_half(small_adding());
  check_parts(small_adding());
}

TEST_CASE("a training learns, and its result says what happened") {
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

TEST_CASE("a recorded training has the largest gradient of each step") {
  const evidence::Text text = small_text();
  const auto max_abs = evidence::record(small_language(text));
  REQUIRE(max_abs.size() == 30);
  for (const double value : max_abs) CHECK((value > 0.0 && value < 100.0));
  CHECK(max_abs == evidence::record(small_language(text)));
}

TEST_CASE("words are numbered by how frequent they are, then by the alphabet") {
  const auto directory = std::filesystem::temp_directory_path() / "headroom_evidence_text";
  std::filesystem::create_directories(directory);
  const auto file = directory / "text";
  std::ofstream(file) << "the zebra and the\nant and the end";
  const evidence::Text text = evidence::read_text({file}, 4);
  CHECK(text.training == std::vector<int>{1, 0, 2, 1, 3, 2, 1, 0});
  CHECK(text.test.empty());
  CHECK_THROWS_WITH(evidence::read_text({file}, 7), ContainsSubstring("1 files have 5 different words, but 6 are needed"));
  std::filesystem::remove_all(directory);
}
