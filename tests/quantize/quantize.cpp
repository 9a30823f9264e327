#include <headroom/ops/executor.hpp>
#include <headroom/quantize/quantize.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/fp8.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"

using namespace headroom::detail;
using namespace headroom;
using support::bits_of;
using support::leaves_of;
using support::Mismatches;
using support::RandomTensors;

namespace {

using Floats = std::vector<float>;
constexpr std::uint32_t infinity_bits = binary32::infinity_bits;

template <class Tree>
void randomize_all(Tree& tree, std::mt19937& random, unsigned rarity) {
  for_each_leaf(tree, [&](auto& leaf) {
    support::for_each_element(
        leaf, [&](auto& element) { support::randomize(element, random, -9, 9, rarity); });
  });
}
Floats random_scales(std::mt19937& random, std::size_t count) {
  Floats scales(count);
  for (float& scale : scales)
    support::set_bits(scale, support::random_magnitude<binary32>(random, -8, 8));
  return scales;
}

/// Quantizes and dequantizes, and compares with the slow references.
template <class T, class To, class Source, class Codes>
void check_tree(Mismatches& wrong, Source& source, Codes& codes, std::mt19937& random) {
  using In = format_of<T>;
  using F = format_of<To>;
  const std::vector<support::AnyBits> elements = leaves_of(source);
  const Floats scales = random_scales(random, elements.size());
  Floats max_abs(scales.size(), -1.0F);
  const GradientReport report = quantize_into(source, codes, scales, max_abs);
  const std::vector<support::AnyBits> results = leaves_of(codes);
  dequantize_into(codes, source, scales);
  const std::vector<support::AnyBits> back = leaves_of(source);
  std::uint64_t largest = 0;
  for (std::size_t leaf = 0; leaf < elements.size(); ++leaf) {
    REQUIRE(results[leaf].size() == elements[leaf].size());
    for (std::size_t i = 0; i < results[leaf].size(); ++i) {
      const auto element = static_cast<typename In::bits_type>(elements[leaf][i]);
      const auto code = static_cast<std::uint8_t>(results[leaf][i]);
      const auto value = support::compute<F, In>(&support::product, code, scales[leaf]);
      wrong.expect(support::agrees(support::layout_of<F>, code,
                                   support::quantized<In, F>(element, scales[leaf])) &&
                       support::agrees(support::layout_of<In>, back[leaf][i], value),
                   [&] { return "leaf " + std::to_string(leaf) + ": " + support::hex(element); });
    }
    const std::uint64_t of_leaf = support::largest_of<In>(elements[leaf]);
    largest = std::max(largest, of_leaf);
    wrong.expect(bits_of(max_abs[leaf]) == convert_bits<binary64, binary32>(of_leaf),
                 [&] { return "max_abs " + std::to_string(leaf); });
  }
  wrong.expect(
      report.finite == (largest < binary64::infinity_bits) && bits_of(report.max_abs) == largest,
      [] { return "the report"; });
}

}  // namespace

TEST_CASE(
    "quantize_into, dequantize_into: trees of all dtypes, with a scale and a largest magnitude for "
    "each leaf") {
  std::mt19937 random(support::seed);
  Mismatches wrong;
  support::for_each_dtype([&](auto type) {
    using T = typename decltype(type)::type;
    support::for_each_type<float8_e4m3, float8_e5m2>([&](auto code_type) {
      using To = typename decltype(code_type)::type;
      for (unsigned run = 0; run < 60; ++run) {
        auto network = support::random_network<T>(random);
        randomize_all(network, random, run % 2 == 0 ? 1U << 30 : 50);
        auto codes = make_like<To>(network);
        check_tree<T, To>(wrong, network, codes, random);
        const Floats scales(leaves_of(codes).size(), 0.3F);
        dequantize_into(codes, network, scales);
        wrong.expect(leaves_of(network) == leaves_of(dequantize<T>(codes, scales)),
                     [] { return "a new tree"; });
        // Any strides.
        const std::vector<support::Shape> shapes = {{15, 21}, {4, 5, 6}, {300}};
        RandomTensors<T> tensors(shapes, random, run);
        randomize_all(tensors.leaves, random, 100);
        RandomTensors<To> tensor_codes(shapes, random, run + run % 2);
        check_tree<T, To>(wrong, tensors.leaves, tensor_codes.leaves, random);
        wrong.expect(tensor_codes.has_old_gaps(), [] { return "a gap was written"; });
      }
    });
  });
  CHECK(wrong.first() == "");
}

TEST_CASE("quantize_into, dequantize_into: the number of threads changes no bit") {
  std::mt19937 random(support::seed);
  RandomTensors<float> tensors(support::large_shapes, random, 1),
      back(support::large_shapes, random, 2);
  RandomTensors<float8_e4m3> codes(support::large_shapes, random, 3);
  randomize_all(tensors.leaves, random, 1U << 30);
  support::set_bits(tensors.leaves[0].at(199999), infinity_bits);
  support::set_bits(tensors.leaves[6].at(299999), binary32::quiet_nan_bits);
  const Floats scales = random_scales(random, tensors.leaves.size());
  Floats max_abs(scales.size());
  std::vector<std::uint8_t> expected[7];
  std::vector<std::uint32_t> expected_values[7], expected_max_abs;
  for (int threads = 1; threads <= 4; ++threads) {
    const Executor executor = parallel(threads);
    CHECK(!quantize_into(tensors.leaves, codes.leaves, scales, max_abs, executor).finite);
    dequantize_into(codes.leaves, back.leaves, scales, executor);
    for (std::size_t leaf = 0; leaf < 7; ++leaf) {
      if (threads == 1) expected[leaf] = bits_of(codes.memories[leaf]);
      if (threads == 1) expected_values[leaf] = bits_of(back.memories[leaf]);
      CHECK((bits_of(codes.memories[leaf]) == expected[leaf] &&
             bits_of(back.memories[leaf]) == expected_values[leaf]));
    }
    if (threads == 1) expected_max_abs = bits_of(max_abs);
    CHECK((bits_of(max_abs) == expected_max_abs && expected_max_abs[0] == infinity_bits &&
           expected_max_abs[6] == infinity_bits));
    codes.clear();
    back.clear();
  }
}

TEST_CASE("dequantize_into: a tree that is large enough to stream has the same bits") {
  const std::size_t n = least_streamed_pass / 5 + 1000, part = 100000;
  std::vector<float8_e4m3> codes(n);
  for (std::size_t i = 0; i < n; ++i)
    support::set_bits(codes[i], static_cast<std::uint8_t>(i * i >> 3));
  Floats values(n), expected(n);
  const Floats scale = {0.3F};
  dequantize_into(codes, values, scale);
  for (std::size_t begin = 0; begin < n; begin += part) {
    const std::size_t size = std::min(part, n - begin);
    dequantize_into(span(codes.data() + begin, size), span(expected.data() + begin, size), scale);
  }
  CHECK(bits_of(values) == bits_of(expected));
}

TEST_CASE(
    "quantize_into, dequantize_into: errors name what is wrong, and nothing has been written") {
  const auto one = float8_e4m3(1.0F);
  auto network = support::network_of(3.0F);
  auto codes = support::network_of(one);
  Floats scales(support::network_leaves, 2.0F), max_abs(support::network_leaves, -1.0F);
  const auto check = [&](const std::string& quantizing, const std::string& dequantizing) {
    const auto before = leaves_of(codes);
    const std::string message = MESSAGE_OF(quantize_into(network, codes, scales, max_abs));
    CHECK(message.substr(0, quantizing.size() + 10) == "headroom: " + quantizing);
    CHECK(leaves_of(codes) == before);
    CHECK(max_abs == Floats(max_abs.size(), -1.0F));
    if (dequantizing.empty()) return;
    const std::string other = MESSAGE_OF(dequantize_into(codes, network, scales));
    CHECK(other.substr(0, dequantizing.size() + 10) == "headroom: " + dequantizing);
    CHECK(support::is_network_of(network, 3.0F));
  };
  const std::pair<std::uint32_t, const char*> bad_scales[] = {{0, "0"},
                                                              {0x80000000, "-0"},
                                                              {bits_of(-1.0F), "-1"},
                                                              {infinity_bits, "inf"},
                                                              {binary32::quiet_nan_bits, "nan"}};
  for (const auto& [bits, text] : bad_scales) {
    support::set_bits(scales[4], bits);
    const std::string message = "scales[4] of heads[\"decoder\"] is " + std::string(text) +
                                "; it must be positive and finite";
    check(message, "inverse_" + message);
  }
  for (const std::size_t size : {6U, 8U}) {
    scales.assign(size, 1.0F);
    const std::string message =
        "scales has a size of " + std::to_string(size) + "; the tree has 7 leaves";
    check(message, "inverse_" + message);
  }
  scales.pop_back();
  max_abs.push_back(-1.0F);
  check("max_abs has a size of 8; the tree has 7 leaves", "");
  max_abs.pop_back();

  codes.temperature.reset();
  check("the trees differ at temperature: ", "the trees differ at temperature: ");
  codes.heads.erase("encoder");
  check("the trees differ at heads", "the trees differ at heads");
  codes.layers[1].weight.pop_back();
  check("the trees differ at layers[1].weight: ", "the trees differ at layers[1].weight: ");
  codes.layers.pop_back();
  check("the trees differ at layers: ", "the trees differ at layers: ");
}
