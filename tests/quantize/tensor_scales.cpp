#include <headroom/ops/executor.hpp>
#include <headroom/quantize/tensor_scales.hpp>
#include <headroom/state/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/fp8.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"

using namespace headroom;
using support::bits_of;
using support::leaves_of;

namespace {

using Floats = std::vector<float>;
using Bits = std::vector<std::uint32_t>;

Bits bits_of_all(span<const float> values) { return bits_of(Floats(values.begin(), values.end())); }
template <class Scales>
std::string text_of(const Scales& scales) {
  return to_text(scales.state_dict());
}
template <class Tree>
void randomize_each(Tree& tree, std::mt19937& random, unsigned rarity = 1U << 30) {
  for_each_leaf(tree, [&](auto& leaf) {
    const int low = static_cast<int>(random() % 20) - 10;
    support::for_each_element(
        leaf, [&](float& element) { support::randomize(element, random, low, low + 4, rarity); });
  });
}
DelayedScaling random_rule(std::mt19937& random, const DelayedScaling&) {
  const auto amax = random() % 2 == 0 ? Amax::max : Amax::most_recent;
  return {1 + static_cast<int>(random() % 5), amax, static_cast<int>(random() % 3),
          random() % 4 == 0};
}
CurrentScaling random_rule(std::mt19937& random, const CurrentScaling&) {
  return {random() % 2 == 0 ? 0.0F : 0.01F, random() % 2 == 0};
}
TorchaoScaling random_rule(std::mt19937& random, const TorchaoScaling&) {
  return {random() % 2 == 0};
}

/// Runs of five steps with two calls each. In each run, one of two TensorScales goes through text
/// once, between two steps or within one. Counts what they do not do alike.
template <class To, class Rule>
std::size_t wrong_resumed_runs(int runs) {
  std::mt19937 random(support::seed);
  std::size_t wrong = 0;
  for (int run = 0; run < runs; ++run) {
    const auto like = support::random_network<float>(random);
    const Rule rule = random_rule(random, Rule());
    TensorScales<To, Rule> straight(like, rule), resumed(like, rule);
    const auto resumed_at = static_cast<int>(random() % 10);
    for (int place = 0; place < 10; ++place) {
      if (place == resumed_at) {
        const std::string text = text_of(resumed);
        resumed = TensorScales<To, Rule>(like, rule);
        resumed.load_state_dict(from_text(text));
        wrong += text_of(resumed) == text ? 0 : 1;
      }
      auto tree = like;
      randomize_each(tree, random, random() % 4 == 0 ? 200 : 1U << 30);
      wrong += leaves_of(straight.quantize(tree).codes) == leaves_of(resumed.quantize(tree).codes)
                   ? 0
                   : 1;
      wrong +=
          bits_of_all(straight.inverse_scales()) == bits_of_all(resumed.inverse_scales()) ? 0 : 1;
      for (auto* const scales : {&straight, &resumed}) {
        if (place % 5 == 4) scales->loss_scale_changed(3.0F);
        if (place % 2 == 1) scales->update();
      }
      wrong += bits_of_all(straight.scales()) == bits_of_all(resumed.scales()) ? 0 : 1;
    }
    wrong += text_of(straight) == text_of(resumed) ? 0 : 1;
  }
  return wrong;
}

/// Leaf by leaf, with a reducer and with several threads the results are those of the rule, applied
/// to each leaf.
template <class Rule>
void check_current(const Rule& rule) {
  std::mt19937 random(support::seed);
  support::RandomTensors<float> tree(support::large_shapes, random, 1);
  support::RandomTensors<float8_e4m3> codes(support::large_shapes, random, 2);
  randomize_each(tree.leaves, random);
  support::set_bits(tree.leaves[4].at(70000), binary32::infinity_bits);
  support::for_each_element(tree.leaves[5], [](float& element) { element = 0.0F; });

  const std::size_t count = support::large_shapes.size();
  Bits amaxes, scales, inverse_scales;
  Floats factors(count), max_abs(count);
  for (std::size_t leaf = 0; leaf < count; ++leaf) {
    const std::uint64_t largest = support::largest_of<binary32>(leaves_of(tree.leaves[leaf])[0]);
    amaxes.push_back(detail::convert_bits<binary64, binary32>(largest));
    auto state = rule.start();
    rule.update(state, support::values_with<float>({amaxes[leaf]})[0], 448.0F);
    const bool is_usable = bits_of(state.scale) - 1 < binary32::infinity_bits - 1;
    factors[leaf] = is_usable ? state.scale : 1.0F;
    inverse_scales.push_back(bits_of(1.0F / factors[leaf]));
  }
  (void)quantize_into(tree.leaves, codes.leaves, factors, max_abs);
  std::vector<std::vector<std::uint8_t>> expected;
  for (const auto& memory : codes.memories) expected.push_back(bits_of(memory));

  for (const bool has_reducer : {false, true}) {
    TensorScales<float8_e4m3, Rule> current(tree.leaves, rule);
    if (has_reducer) current.set_reducer([](span<float>) {});
    // Whose maxima must not count
    support::RandomTensors<float> before(support::large_shapes, random, 1);
    randomize_each(before.leaves, random);
    (void)current.quantize_into(before.leaves, codes.leaves);
    for (int threads = 1; threads <= 4; ++threads) {
      codes.clear();
      const GradientReport report =
          current.quantize_into(tree.leaves, codes.leaves, parallel(threads));
      CHECK((!report.finite && bits_of(report.max_abs) == binary64::infinity_bits));
      for (std::size_t leaf = 0; leaf < count; ++leaf)
        CHECK(bits_of(codes.memories[leaf]) == expected[leaf]);
      current.update();  // does nothing
      CHECK(bits_of_all(current.max_abs()) == amaxes);
      CHECK(bits_of_all(current.scales()) == bits_of(factors));
      CHECK(bits_of_all(current.inverse_scales()) == inverse_scales);
    }
  }
}

}  // namespace

TEST_CASE(
    "TensorScales: 1,000 runs that are resumed in the middle have the bits of those that are not") {
  const int runs = support::cases(250);
  CHECK(wrong_resumed_runs<float8_e4m3, DelayedScaling>(runs) == 0);
  CHECK(wrong_resumed_runs<float8_e5m2, DelayedScaling>(runs) == 0);
  CHECK(wrong_resumed_runs<float8_e4m3, CurrentScaling>(runs) == 0);
  CHECK(wrong_resumed_runs<float8_e5m2, TorchaoScaling>(runs) == 0);
}

TEST_CASE(
    "TensorScales with a rule of the current step: one pass, two passes and several threads have "
    "the same bits") {
  check_current(CurrentScaling());
  check_current(TorchaoScaling());
}

TEST_CASE("TensorScales, delayed: the amax of a step is the largest of all its calls") {
  TensorScales<float8_e4m3> scales(std::vector<Floats>(2), DelayedScaling{2, Amax::most_recent});
  const auto bits = [](float a, float b) { return bits_of(Floats{a, b}); };
  for (const Floats& step : {Floats{7.0F, 1.0F, 3.5F, 0.875F}, Floats{1.0F, 0.4375F, 3.5F, 0.0F}}) {
    const Bits scales_before = bits_of_all(scales.scales());
    std::vector<std::vector<float8_e4m3>> codes;
    for (std::size_t i = 0; i < 4; i += 2)
      codes = scales.quantize(std::vector<Floats>{{step[i]}, {step[i + 1]}}).codes;
    CHECK(bits_of_all(scales.max_abs()) ==
          bits(std::max(step[0], step[2]), std::max(step[1], step[3])));
    CHECK(bits_of_all(scales.scales()) == scales_before);
    scales.update();
    CHECK(bits_of_all(scales.max_abs()) == bits(0.0F, 0.0F));
    // What the last call has written can still be dequantized.
    CHECK(dequantize<float>(codes, scales.inverse_scales()) ==
          std::vector<Floats>{{step[2]}, {step[3]}});
  }
  CHECK(bits_of_all(scales.scales()) == bits(128.0F, 1024.0F));
  scales.update();  // a step without a call changes nothing
  CHECK(bits_of_all(scales.scales()) == bits(128.0F, 1024.0F));
}

TEST_CASE(
    "TensorScales: a change of the loss scale before update or after it gives the same scales") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < 100; ++run) {
    const Floats like(20);
    const DelayedScaling rule = random_rule(random, DelayedScaling());
    TensorScales<float8_e5m2> before(like, rule), after(like, rule), constant(like, rule);
    int exponent = 0;  // of the loss scale
    for (int step = 0; step < 10; ++step) {
      Floats grads = like;
      randomize_each(grads, random);
      CHECK(leaves_of(before.quantize(grads).codes) == leaves_of(after.quantize(grads).codes));
      for (float& element : grads) element = std::ldexp(element, 20 - exponent);
      (void)constant.quantize(grads);  // as if the loss scale had always been 2^20
      const int change = static_cast<int>(random() % 5) - 2;
      before.loss_scale_changed(std::ldexp(1.0F, change));
      before.update();
      after.update();
      after.loss_scale_changed(std::ldexp(1.0F, change));
      constant.update();
      exponent += change;
      CHECK(text_of(before) == text_of(after));
      CHECK(bits_of(after.scales()[0]) == bits_of(std::ldexp(constant.scales()[0], 20 - exponent)));
    }
  }
  TensorScales<float8_e5m2> scales(Floats(1));
  for (const float& ratio : support::values_with<float>(
           {0, bits_of(-2.0F), binary32::infinity_bits, binary32::quiet_nan_bits})) {
    CHECK(MESSAGE_OF(scales.loss_scale_changed(ratio)) == "headroom: ratio is " +
                                                              detail::to_text(double{ratio}) +
                                                              "; it must be positive and finite");
  }
}

TEST_CASE(
    "TensorScales: a tree that does not fit and a bad setting are errors, and nothing has been "
    "written") {
  const auto tree = support::network_of(3.0F);
  TensorScales<float8_e4m3> scales(tree);
  (void)scales.quantize(tree);
  const std::string before = text_of(scales);
  const auto one = float8_e4m3(1.0F);
  auto codes = support::network_of(one);
  const auto check = [&](const auto& source, auto& destination, const std::string& message) {
    CHECK_INVALID(message, scales.quantize_into(source, destination));
    CHECK(text_of(scales) == before);
  };
  auto other = tree;
  other.temperature.reset();
  check(other, codes, "the trees differ at temperature");
  CHECK(support::is_network_of(codes, one));
  codes.temperature.reset();
  check(other, codes, "this TensorScales has a size of 7; the tree has 6 leaves");
  codes.temperature = one;
  CHECK(support::is_network_of(codes, one));
  CHECK(MESSAGE_OF(TensorScales<float8_e4m3>(tree, DelayedScaling{0})) ==
        "headroom: history is 0; it must be in [1, 2^20]");
}

/// Refuses an amax of 3.
struct Picky : CurrentScaling {
  void update(State& state, const float& amax, float fp8_max) const {
    if (amax == 3.0F) throw std::runtime_error("picky");
    CurrentScaling::update(state, amax, fp8_max);
  }
};
TEST_CASE(
    "TensorScales: a call that throws changes no scale, no inverse scale and no largest "
    "magnitude") {
  const std::vector<Floats> good = {{1.0F, 2.0F}, {4.0F}}, bad = {{5.0F, 6.0F}, {3.0F}};
  for (const bool has_reducer : {false, true}) {
    TensorScales<float8_e4m3, Picky> scales(good);
    if (has_reducer) scales.set_reducer([](span<float>) {});
    (void)scales.quantize(good);
    const std::string before = text_of(scales);
    const Bits inverse = bits_of_all(scales.inverse_scales());
    CHECK_THROWS_WITH((void)scales.quantize(bad), "picky");
    scales.set_reducer([](span<float> largest) {
      largest[0] = 100.0F;
      throw std::runtime_error("a rank is gone");
    });
    CHECK_THROWS_WITH((void)scales.quantize(bad), "a rank is gone");
    CHECK(text_of(scales) == before);
    CHECK(bits_of_all(scales.inverse_scales()) == inverse);
  }
}

TEST_CASE(
    "TensorScales: a state of other paths or formats, or with bad numbers, is named and changes "
    "nothing") {
  const auto tree = support::network_of(3.0F);
  TensorScales<float8_e4m3> scales(tree);
  (void)scales.quantize(tree);
  scales.update();
  (void)scales.quantize(tree);
  const std::string before = text_of(scales), key = "scale of layers[0].bias";
  const StateDict good = scales.state_dict();
  const auto check = [&](const StateDict& state, const std::string& message) {
    CHECK_INVALID(message, scales.load_state_dict(state));
    CHECK(text_of(scales) == before);
  };
  const auto list = [](const std::string& numbers) { return from_text("x = " + numbers).at("x"); };
  StateDict state = good;
  for (const char* scale_and_magnitudes :
       {"[]", "[1]", "[0, 1]", "[-1, 1]", "[nan, 1]", "[inf, 1]", "[1, nan]", "[1e-60, 1]",
        "[1, 1, nan]", "[1, -1]", "[1e60, 1]"}) {
    state.set(key, list(scale_and_magnitudes));
    check(state, key + " is ");
  }
  state.set(key, "text");
  check(state, key + " is ");
  state.erase(key);
  check(state, key);
  state = good;
  state.set("scale of other", list("[1, 1]"));
  check(state, "the key 'scale of other' is unknown");
  check(TensorScales<float8_e5m2>(tree).state_dict(),
        "policy is \"scales of e5m2\"; it must be \"scales of e4m3\"");
  check(StateDict(), "the key 'version' is missing");

  state = good;
  state.set(key, list("[2, inf, inf]"));
  scales.load_state_dict(state);
  CHECK(bits_of(scales.max_abs()[1]) == binary32::infinity_bits);
  CHECK((scales.scales()[1] == 2.0F && scales.inverse_scales()[1] == 0.5F));
}
