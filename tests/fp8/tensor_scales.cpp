#include <headroom/fp8/tensor_scales.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/state/text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/fp8.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using headroom::binary32;
using headroom::CurrentScaling;
using headroom::DelayedScaling;
using headroom::float8_e4m3;
using headroom::float8_e5m2;
using headroom::span;
using headroom::StateDict;
using headroom::TensorScales;
using headroom::TorchaoScaling;
using support::bits_of;
using support::leaves_of;
using support::message_of;
using support::Network;
using support::Strided;

namespace {

using Floats = std::vector<float>;

std::vector<std::uint32_t> bits_of_all(span<const float> values) { return bits_of(Floats(values.begin(), values.end())); }
template <class Scales>
std::string text_of(const Scales& scales) {
  return headroom::to_text(scales.state_dict());
}
/// Fills elements with random numbers, or with zeros.
auto random_elements(std::mt19937& random, int low, bool nonfinite) {
  return [&random, low, nonfinite](float& element) {
    std::uint32_t bits = support::random_magnitude<binary32>(random, low, low + 4);
    if (nonfinite && random() % 200 == 0) bits = random() % 2 == 0 ? binary32::infinity_bits : binary32::quiet_nan_bits;
    support::set_bits(element, random() % 2 == 0 ? bits : bits | binary32::sign_mask);
  };
}
DelayedScaling random_rule(std::mt19937& random, DelayedScaling rule) {
  rule.history = 1 + static_cast<int>(random() % 5);
  rule.amax = random() % 2 == 0 ? headroom::Amax::max : headroom::Amax::most_recent;
  rule.margin = static_cast<int>(random() % 3);
  rule.record_nonfinite = random() % 4 == 0;
  return rule;
}
CurrentScaling random_rule(std::mt19937& random, CurrentScaling rule) {
  rule.epsilon = random() % 2 == 0 ? 0.0F : 0.01F;
  rule.power_of_two = random() % 2 == 0;
  return rule;
}
TorchaoScaling random_rule(std::mt19937& random, TorchaoScaling rule) {
  rule.power_of_two = random() % 2 == 0;
  return rule;
}

/// A run of some steps with some calls of `quantize` each. In another one, the state goes through text once, at a random place.
template <class To, class Rule>
std::size_t wrong_resumed_runs(int runs) {
  std::mt19937 random(support::seed);
  std::size_t wrong = 0;
  for (int run = 0; run < runs; ++run) {
    const auto tree_from = [&](std::uint32_t structure, bool nonfinite) {
      std::mt19937 of_structure(structure);
      auto tree = support::random_network<float>(of_structure, [](float&) {});
      headroom::for_each_leaf(tree, [&, low = 0](auto& leaf) mutable {
        const auto fill = random_elements(random, (low = static_cast<int>(random() % 20) - 10), nonfinite);
        auto* const data = headroom::detail::data_of(leaf);
        std::for_each(data, data + headroom::detail::size_of(leaf), fill);
      });
      return tree;
    };
    const auto structure = static_cast<std::uint32_t>(random());
    const Rule rule = random_rule(random, Rule());
    const auto like = tree_from(structure, false);
    TensorScales<To, Rule> straight(like, rule), resumed(like, rule);
    const auto resume = [&] {
      TensorScales<To, Rule> loaded(like, rule);
      loaded.load_state_dict(headroom::from_text(text_of(resumed)));
      wrong += text_of(loaded) == text_of(resumed) ? 0 : 1;
      resumed = loaded;
    };
    const std::uint32_t resumed_at = static_cast<std::uint32_t>(random() % 8),
                        in_step = static_cast<std::uint32_t>(random() % 2);
    for (std::uint32_t step = 0; step < 8; ++step) {
      if (step == resumed_at && in_step == 0) resume();
      for (std::size_t call = 0; call < 1 + step % 2; ++call) {
        const auto tree = tree_from(structure, random() % 4 == 0);
        const auto codes = straight.quantize(tree), same_codes = resumed.quantize(tree);
        wrong += leaves_of(codes) == leaves_of(same_codes) ? 0 : 1;
        wrong += bits_of_all(straight.inverse_scales()) == bits_of_all(resumed.inverse_scales()) ? 0 : 1;
        if (step == resumed_at && in_step == 1 && call == 0) resume();
      }
      if (random() % 5 == 0) {
        straight.loss_scale_changed(3.0F);
        resumed.loss_scale_changed(3.0F);
      }
      straight.update();
      resumed.update();
      wrong += bits_of_all(straight.scales()) == bits_of_all(resumed.scales()) && text_of(straight) == text_of(resumed) ? 0 : 1;
    }
  }
  return wrong;
}

/// Leaves of several kinds with enough elements for four threads; one is empty, one is zero, one has an Inf.
struct Large {
  std::vector<Floats> layers;
  Floats memory;
  Strided<float> matrix;
  HEADROOM_TREE(Large, layers, matrix)
};
struct LargeCodes {
  std::vector<std::vector<float8_e4m3>> layers;
  std::vector<float8_e4m3> memory;
  Strided<float8_e4m3> matrix;
  HEADROOM_TREE(LargeCodes, layers, matrix)
};

template <class Rule>
void check_current(const Rule& rule) {
  std::mt19937 random(support::seed);
  Large tree{{Floats(250000), Floats(), Floats(10), Floats(200000), Floats(7)}, Floats(300000), {}};
  LargeCodes codes{{}, std::vector<float8_e4m3>(150000), {}};
  for (Floats& layer : tree.layers) {
    std::for_each(layer.begin(), layer.end(), random_elements(random, static_cast<int>(layer.size() % 20), false));
    codes.layers.emplace_back(layer.size());
  }
  std::for_each(tree.memory.begin(), tree.memory.end(), random_elements(random, -5, false));
  support::set_bits(tree.layers[3][199999], binary32::infinity_bits);
  tree.layers[2].assign(10, 0.0F);
  tree.matrix = {tree.memory.data(), {300, 500}, {2, 600}};
  codes.matrix = {codes.memory.data(), {300, 500}, {1, 300}};

  TensorScales<float8_e4m3, Rule> scales(tree, rule), in_two_passes(tree, rule);
  in_two_passes.set_reducer([](span<float>) {});
  const headroom::GradientReport report = scales.quantize_into(tree, codes);
  CHECK((!report.finite && bits_of(report.max_abs) == headroom::binary64::infinity_bits));
  const auto expected_codes = leaves_of(codes);
  std::vector<std::uint32_t> amaxes, expected_scales;
  for (const support::AnyBits& leaf : leaves_of(tree)) {
    std::uint64_t largest = 0;
    for (const std::uint64_t bits : leaf) largest = std::max(largest, bits & binary32::abs_mask);
    amaxes.push_back(static_cast<std::uint32_t>(largest));
    auto state = rule.start();
    rule.update(state, support::values_with<float>({amaxes.back()})[0], 448.0F);
    const bool is_usable = bits_of(state.scale) - 1 < binary32::infinity_bits - 1;
    expected_scales.push_back(is_usable ? bits_of(state.scale) : bits_of(1.0F));
  }
  CHECK(bits_of_all(scales.max_abs()) == amaxes);
  CHECK(bits_of_all(scales.scales()) == expected_scales);
  const auto text = text_of(scales);
  scales.update();
  CHECK(text_of(scales) == text);
  Floats max_abs(6);
  (void)headroom::quantize_into(tree, codes, scales.scales(), max_abs);
  CHECK(leaves_of(codes) == expected_codes);
  const auto check_same = [&](auto& others, int threads) {
    std::fill(codes.memory.begin(), codes.memory.end(), float8_e4m3());
    for (auto& layer : codes.layers) std::fill(layer.begin(), layer.end(), float8_e4m3());
    CHECK(!others.quantize_into(headroom::parallel(threads), tree, codes).finite);
    CHECK(leaves_of(codes) == expected_codes);
    CHECK(text_of(others) == text);
    CHECK(bits_of_all(others.inverse_scales()) == bits_of_all(scales.inverse_scales()));
  };
  for (int threads = 1; threads <= 4; ++threads) {
    check_same(scales, threads);
    check_same(in_two_passes, threads);
  }
}

}  // namespace

TEST_CASE("TensorScales: 1,000 runs that are resumed in the middle have the bits of those that are not") {
  const int runs = support::cases(250);
  CHECK(wrong_resumed_runs<float8_e4m3, DelayedScaling>(runs) == 0);
  CHECK(wrong_resumed_runs<float8_e5m2, DelayedScaling>(runs) == 0);
  CHECK(wrong_resumed_runs<float8_e4m3, CurrentScaling>(runs) == 0);
  CHECK(wrong_resumed_runs<float8_e5m2, TorchaoScaling>(runs) == 0);
}

TEST_CASE("TensorScales with a rule of the current step: one pass, two passes and several threads have the same bits") {
  check_current(CurrentScaling());
  check_current(TorchaoScaling());
}

TEST_CASE("TensorScales, delayed: the amax of a step is the largest of all its calls") {
  const std::vector<Floats> like = {{0.0F}, {0.0F}};
  TensorScales<float8_e4m3> scales(like, DelayedScaling{2, headroom::Amax::most_recent});
  const auto bits = [](float a, float b) { return std::vector<std::uint32_t>{bits_of(a), bits_of(b)}; };
  for (const Floats& step : {Floats{7.0F, 1.0F, 3.5F, 0.875F}, Floats{1.0F, 0.4375F, 3.5F, 0.0F}}) {
    const auto scales_before = bits_of_all(scales.scales());
    std::vector<std::vector<float8_e4m3>> codes;
    for (std::size_t i = 0; i < 4; i += 2) codes = scales.quantize(std::vector<Floats>{{step[i]}, {step[i + 1]}});
    CHECK(bits_of_all(scales.max_abs()) == bits(std::max(step[0], step[2]), std::max(step[1], step[3])));
    CHECK(bits_of_all(scales.scales()) == scales_before);
    scales.update();
    CHECK(bits_of_all(scales.max_abs()) == bits(0.0F, 0.0F));
    // What the last call has written can still be dequantized.
    CHECK(headroom::dequantize<float>(codes, scales.inverse_scales()) == std::vector<Floats>{{step[2]}, {step[3]}});
  }
  CHECK(bits_of_all(scales.scales()) == bits(128.0F, 1024.0F));
  scales.update();  // a step without a call changes nothing
  CHECK(bits_of_all(scales.scales()) == bits(128.0F, 1024.0F));
}

TEST_CASE("TensorScales: a change of the loss scale before update or after it gives the same scales") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < 100; ++run) {
    const auto tree = std::vector<Floats>(3, Floats(20));
    const DelayedScaling rule = random_rule(random, DelayedScaling());
    TensorScales<float8_e5m2> before(tree, rule), after(tree, rule), grown(tree, rule);
    int exponent = 0;  // of the loss scale
    for (int step = 0; step < 10; ++step) {
      auto grads = tree, grown_grads = tree;
      for (std::size_t leaf = 0; leaf < 3; ++leaf) {
        std::for_each(grads[leaf].begin(), grads[leaf].end(), random_elements(random, -10, false));
        for (std::size_t i = 0; i < 20; ++i) grown_grads[leaf][i] = std::ldexp(grads[leaf][i], 20 - exponent);
      }
      CHECK(leaves_of(before.quantize(grads)) == leaves_of(after.quantize(grads)));
      (void)grown.quantize(grown_grads);
      const int change = static_cast<int>(random() % 5) - 2;
      exponent += change;
      before.loss_scale_changed(std::ldexp(1.0F, change));
      before.update();
      after.update();
      after.loss_scale_changed(std::ldexp(1.0F, change));
      grown.update();
      CHECK(text_of(before) == text_of(after));
      // As if the loss scale had always been 2^20.
      for (std::size_t leaf = 0; leaf < 3; ++leaf)
        CHECK(bits_of(after.scales()[leaf]) == bits_of(std::ldexp(grown.scales()[leaf], 20 - exponent)));
    }
  }
  TensorScales<float8_e5m2> scales(Floats(1));
  const std::pair<std::uint32_t, const char*> bad_ratios[] = {
      {0, "0"}, {bits_of(-2.0F), "-2"}, {binary32::infinity_bits, "inf"}, {binary32::quiet_nan_bits, "nan"}};
  for (const auto& [bits, text] : bad_ratios) {
    const Floats ratio = support::values_with<float>({bits});
    CHECK(message_of([&] { scales.loss_scale_changed(ratio[0]); }) ==
          "headroom: ratio is " + std::string(text) + "; it must be positive and finite");
  }
}

TEST_CASE("TensorScales: a tree that does not fit and a bad setting are errors, and nothing has been written") {
  const auto tree = support::network_of(3.0F);
  TensorScales<float8_e4m3> scales(tree);
  CHECK(scales.paths() == std::vector<std::string>{"layers[0].weight", "layers[0].bias", "layers[1].weight", "layers[1].bias",
                                                   "heads[\"decoder\"]", "heads[\"encoder\"]", "temperature"});
  (void)scales.quantize(tree);
  const std::string before = text_of(scales);
  auto other = tree;
  other.temperature.reset();
  const auto one = float8_e4m3(1.0F);
  auto codes = support::network_of(one);
  CHECK_THAT(message_of([&] { (void)scales.quantize_into(other, codes); }),
             Catch::Matchers::ContainsSubstring("the trees differ at temperature"));
  codes.layers[1].weight.resize(2, one);
  CHECK_THAT(message_of([&] { (void)scales.quantize_into(tree, codes); }),
             Catch::Matchers::ContainsSubstring("the trees differ at layers[1].weight"));
  CHECK(message_of([&] { (void)scales.quantize(other); }) == "headroom: the tree has 6 leaves, these TensorScales have 7");
  CHECK(text_of(scales) == before);
  codes.layers[1].weight.resize(1);
  CHECK(support::is_network_of(codes, one));
  CHECK(message_of([&] { TensorScales<float8_e4m3>(tree, DelayedScaling{0}); }) ==
        "headroom: history is 0; it must be in [1, 2^20]");
}

TEST_CASE("TensorScales: a state of other paths or formats, or with bad numbers, is named and changes nothing") {
  const auto tree = support::network_of(3.0F);
  TensorScales<float8_e4m3> scales(tree);
  for (int step = 0; step < 3; ++step) {
    (void)scales.quantize(tree);
    if (step < 2) scales.update();
  }
  const std::string before = text_of(scales), key = "scale of layers[0].bias";
  const StateDict good = scales.state_dict();
  const auto check = [&](const StateDict& state, const std::string& message) {
    CHECK_THAT(message_of([&] { scales.load_state_dict(state); }), Catch::Matchers::ContainsSubstring(message));
    CHECK(text_of(scales) == before);
  };
  const auto check_numbers = [&](const std::vector<double>& numbers) {
    StateDict state = good;
    state.set(key, numbers);
    check(state, key + " is ");
  };
  const auto special = support::values_with<double>({headroom::binary64::infinity_bits, headroom::binary64::quiet_nan_bits});
  for (const std::vector<double>& numbers :
       {std::vector<double>{}, {1.0}, {0.0, 1.0}, {-1.0, 1.0}, {1e-60, 1.0}, {1e60, 1.0}, {1.0, -1.0}, {1.0, 1.0, -1.0}}) {
    check_numbers(numbers);
  }
  for (const double& number : special) {
    check_numbers({number, 1.0});
  }
  check_numbers({1.0, special[1]});
  check_numbers({1.0, 1.0, special[1]});
  StateDict state = good;
  state.set(key, "text");
  check(state, key + " is ");
  state.erase(key);
  check(state, key);
  state = good;
  state.set("scale of other", std::vector<double>{1.0, 1.0});
  check(state, "the key 'scale of other' is unknown");
  check(TensorScales<float8_e5m2>(tree).state_dict(), "policy is \"scales of e5m2\"; it must be \"scales of e4m3\"");
  check(StateDict(), "the key 'version' is missing");
  state = good;
  state.set(key, std::vector<double>{2.0, special[0], special[0]});
  scales.load_state_dict(state);
  CHECK(bits_of(scales.max_abs()[1]) == binary32::infinity_bits);
  CHECK((scales.scales()[1] == 2.0F && scales.inverse_scales()[1] == 0.5F));
}
