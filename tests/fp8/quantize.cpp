#include <headroom/fp8/quantize.hpp>
#include <headroom/ops/executor.hpp>

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
#include "support/strided.hpp"

using headroom::bfloat16;
using headroom::binary32;
using headroom::binary64;
using headroom::float8_e4m3;
using headroom::float8_e5m2;
using headroom::GradientReport;
using headroom::half;
using headroom::quantize_into;
using headroom::span;
using headroom::detail::format_of;
using support::bits_of;
using support::leaves_of;
using support::message_of;
using support::Mismatches;
using support::Network;
using support::Strided;

namespace {

constexpr std::uint32_t infinity = binary32::infinity_bits;

/// Fills elements with numbers of many magnitudes; one in `rarity` is Inf, NaN or any pattern.
template <class T>
auto random_elements(std::mt19937& random, unsigned rarity) {
  return [&random, rarity](T& element) {
    using Format = format_of<T>;
    auto bits = support::random_magnitude<Format>(random, -9, 9);
    if (random() % rarity == 0) {
      const auto nonfinite = support::nonfinite_bits<Format>();
      bits = random() % 2 == 0 ? nonfinite[random() % nonfinite.size()] : support::random_bits<Format>(random);
    }
    if (random() % 2 == 0) bits = static_cast<support::bits_type<T>>(bits ^ Format::sign_mask);
    support::set_bits(element, bits);
  };
}
std::vector<float> random_scales(std::mt19937& random, std::size_t count) {
  std::vector<float> scales(count);
  for (float& scale : scales) support::set_bits(scale, support::random_magnitude<binary32>(random, -8, 8));
  return scales;
}

/// The largest magnitude of a leaf as a float: +Inf if an element is Inf or NaN.
template <class Format>
std::uint32_t largest_of(const support::AnyBits& leaf) {
  std::uint64_t largest = 0;
  for (const std::uint64_t bits : leaf) largest = std::max(largest, bits & Format::abs_mask);
  const auto magnitude = static_cast<typename Format::bits_type>(largest);
  return support::is_finite<Format>(magnitude) ? support::nearest<binary32>(support::decode<Format>(magnitude)) : infinity;
}

/// Quantizes, compares with the slow reference and dequantizes.
template <class T, class To, class Source, class Destination, class Executor = headroom::SequentialExecutor>
void check_tree(Mismatches& wrong, const Source& source, Destination& destination, std::mt19937& random,
                const Executor& executor = {}) {
  using In = format_of<T>;
  using F = format_of<To>;
  const std::vector<support::AnyBits> elements = leaves_of(source);
  const std::vector<float> scales = random_scales(random, elements.size());
  std::vector<float> max_abs(scales.size(), -1.0F);
  const GradientReport report = quantize_into(executor, source, destination, scales, max_abs);
  const std::vector<support::AnyBits> codes = leaves_of(destination);
  REQUIRE(codes.size() == elements.size());
  std::uint32_t largest = 0;
  bool finite = true;
  for (std::size_t leaf = 0; leaf < codes.size(); ++leaf) {
    REQUIRE(codes[leaf].size() == elements[leaf].size());
    for (std::size_t i = 0; i < codes[leaf].size(); ++i) {
      const auto element = static_cast<typename In::bits_type>(elements[leaf][i]);
      finite = finite && support::is_finite<In>(element);
      wrong.expect(support::agrees<F>(codes[leaf][i], support::quantized<In, F>(element, scales[leaf])),
                   [&] { return "leaf " + std::to_string(leaf) + ": " + support::hex(element); });
    }
    largest = std::max(largest, largest_of<In>(elements[leaf]));
    wrong.expect(bits_of(max_abs[leaf]) == largest_of<In>(elements[leaf]), [&] { return "max_abs " + std::to_string(leaf); });
  }
  const auto report_largest = headroom::detail::convert_bits<binary64, binary32>(bits_of(report.max_abs));
  wrong.expect(report.finite == finite && report_largest == largest, [] { return "the report"; });
}

template <class T, class To>
void check_dequantize(Mismatches& wrong, const Network<To>& codes, std::mt19937& random) {
  const std::vector<support::AnyBits> elements = leaves_of(codes);
  const std::vector<float> inverse_scales = random_scales(random, elements.size());
  const Network<T> values = headroom::dequantize<T>(codes, inverse_scales);
  const std::vector<support::AnyBits> results = leaves_of(values);
  for (std::size_t leaf = 0; leaf < elements.size(); ++leaf) {
    for (std::size_t i = 0; i < elements[leaf].size(); ++i) {
      const auto code = static_cast<std::uint8_t>(elements[leaf][i]);
      const auto expected = support::compute<format_of<To>, format_of<T>>(&support::product, code, inverse_scales[leaf]);
      wrong.expect(support::agrees<format_of<T>>(results[leaf][i], expected), [&] { return support::hex(code); });
    }
  }
}

/// More than 2^19 elements, enough for four threads, in leaves of several kinds.
template <class T>
struct Large {
  std::vector<std::vector<T>> layers;
  std::vector<T> memory;
  Strided<T> matrix;  // with gaps
  HEADROOM_TREE(Large, layers, matrix)
};
template <class T>
Large<T> make_large(std::vector<std::ptrdiff_t> strides) {
  Large<T> tree{{}, std::vector<T>(400000), {}};
  for (const std::size_t size : {200000U, 0U, 7U, 70000U, 131072U, 100U}) tree.layers.emplace_back(size);
  tree.matrix = {tree.memory.data(), {300, 500}, std::move(strides)};
  return tree;
}

}  // namespace

TEST_CASE("quantize_into and dequantize: trees of all dtypes, with a scale and a largest magnitude for each leaf") {
  std::mt19937 random(support::seed);
  Mismatches wrong;
  support::for_each_dtype([&](auto type) {
    using T = typename decltype(type)::type;
    support::for_each_type<float8_e4m3, float8_e5m2>([&](auto code_type) {
      using To = typename decltype(code_type)::type;
      for (int run = 0; run < 60; ++run) {
        const auto source = support::random_network<T>(random, random_elements<T>(random, run % 2 == 0 ? 1U << 30 : 50));
        auto destination = headroom::detail::make_like<To>(source);
        check_tree<T, To>(wrong, source, destination, random);
        check_dequantize<T, To>(wrong, destination, random);
      }
    });
  });
  INFO(wrong.first());
  CHECK(wrong.count() == 0);
}

TEST_CASE("quantize_into: leaves with strides, to other strides and to flat leaves") {
  std::mt19937 random(support::seed);
  Mismatches wrong;
  std::vector<float> memory(5000);
  for (float& element : memory) random_elements<float>(random, 100)(element);
  std::vector<float8_e5m2> codes(5000), flat(15 * 21);
  using Shape = std::vector<std::ptrdiff_t>;
  for (const auto& from : {Shape{21, 1}, Shape{1, 15}, Shape{40, 2}, Shape{-100, 3}}) {
    for (const auto& to : {Shape{21, 1}, Shape{1, 15}, Shape{3, 50}, Shape{30, -1}}) {
      const std::vector<Strided<float>> source = {{memory.data() + 2000, {15, 21}, from}};
      std::vector<Strided<float8_e5m2>> destination = {{codes.data() + 100, {15, 21}, to}};
      std::fill(codes.begin(), codes.end(), float8_e5m2(1.0F));
      check_tree<float, float8_e5m2>(wrong, source, destination, random);
      std::size_t untouched = 0;
      for (const auto code : bits_of(codes)) untouched += code == 0x3C ? 1 : 0;
      wrong.expect(untouched + 15 * 21 >= codes.size(), [] { return "a gap was written"; });
    }
  }
  const std::vector<Strided<float>> source = {{memory.data(), {15, 21}, {21, 1}}};
  std::vector<std::vector<float8_e5m2>> destination = {flat};
  check_tree<float, float8_e5m2>(wrong, source, destination, random);
  INFO(wrong.first());
  CHECK(wrong.count() == 0);
}

TEST_CASE("quantize_into, dequantize_into: the number of threads changes no bit") {
  std::mt19937 random(support::seed);
  auto tree = make_large<float>({2, 700});
  headroom::for_each_leaf(tree.layers, [&](auto& leaf) {
    for (float& element : leaf) random_elements<float>(random, 1U << 30)(element);
  });
  for (float& element : tree.memory) random_elements<float>(random, 1U << 30)(element);
  support::set_bits(tree.layers[3][69999], infinity);
  support::set_bits(tree.matrix.at(149999), binary32::quiet_nan_bits);
  const std::vector<float> inverse_scales = random_scales(random, 7);
  Mismatches wrong;
  std::vector<support::AnyBits> expected_codes, expected_values;
  for (int threads = 1; threads <= 4; ++threads) {
    const headroom::ParallelExecutor executor = headroom::parallel(threads);
    auto codes = make_large<float8_e4m3>({700, 1});
    auto values = make_large<bfloat16>({500, 1});
    std::mt19937 same(1);
    check_tree<float, float8_e4m3>(wrong, tree, codes, same, executor);
    headroom::dequantize_into(executor, codes, values, inverse_scales);
    if (threads == 1) {
      expected_codes = leaves_of(codes);
      expected_values = leaves_of(values);
    }
    CHECK(leaves_of(codes) == expected_codes);
    CHECK(leaves_of(values) == expected_values);
  }
  INFO(wrong.first());
  CHECK(wrong.count() == 0);
}

TEST_CASE("quantize_into: a tree that is large enough to stream has the same bits") {
  std::mt19937 random(support::seed);
  const std::size_t n = headroom::detail::least_streamed_pass / 5 + 1000;
  std::vector<std::uint32_t> bits(n);
  for (auto& one : bits) one = static_cast<std::uint32_t>(random());
  const auto source = support::values_with<float>(bits);
  std::vector<float8_e4m3> codes(n), expected(n);
  const std::vector<float> scale = {0.3F};
  std::vector<float> max_abs(1);
  CHECK(!quantize_into(source, codes, scale, max_abs).finite);
  for (std::size_t begin = 0; begin < n; begin += 100000) {
    const std::size_t size = std::min<std::size_t>(100000, n - begin);
    (void)quantize_into(span(source.data() + begin, size), span(expected.data() + begin, size), scale, max_abs);
  }
  CHECK(bits_of(codes) == bits_of(expected));
}

TEST_CASE("quantize_into: a double is rounded once, and beyond float its largest magnitude is Inf") {
  const std::vector<double> source = {1.0625 + 0x1p-40, -0x1p200};
  std::vector<float8_e4m3> codes(2);
  std::vector<float> max_abs(1);
  const GradientReport report = quantize_into(source, codes, std::vector<float>{1.0F}, max_abs);
  CHECK(bits_of(codes) == std::vector<std::uint8_t>{0x39, 0xFE});  // through a float the first would be 0x38
  CHECK((report.finite && report.max_abs == 0x1p200));
  CHECK(bits_of(max_abs[0]) == infinity);
}

TEST_CASE("quantize_into, dequantize_into: errors name what is wrong, and nothing has been written") {
  auto source = support::network_of(3.0F);
  const auto one = float8_e4m3(1.0F);
  auto codes = support::network_of(one);
  std::vector<float> scales(support::network_leaves, 2.0F), max_abs(support::network_leaves, -1.0F);
  const auto check = [&](const std::string& message) {
    CHECK(message_of([&] { (void)quantize_into(source, codes, scales, max_abs); }) == "headroom: " + message);
    CHECK(bits_of(max_abs) == std::vector<std::uint32_t>(max_abs.size(), bits_of(-1.0F)));
    headroom::for_each_leaf(codes, [&](const auto& leaf) { CHECK(*headroom::detail::data_of(leaf) == one); });
  };
  const std::pair<std::uint32_t, const char*> bad_scales[] = {
      {0, "0"}, {0x80000000, "-0"}, {bits_of(-1.0F), "-1"}, {infinity, "inf"}, {binary32::quiet_nan_bits, "nan"}};
  for (const auto& [bits, text] : bad_scales) {
    support::set_bits(scales[4], bits);
    const std::string rest = "scales[4] of heads[\"decoder\"] is " + std::string(text) + "; it must be positive and finite";
    check(rest);
    CHECK(message_of([&] { headroom::dequantize_into(codes, source, scales); }) == "headroom: inverse_" + rest);
  }
  scales[4] = 2.0F;
  scales.pop_back();
  check("scales has 6 elements; the tree has 7 leaves");
  CHECK(message_of([&] { headroom::dequantize_into(codes, source, scales); }) ==
        "headroom: inverse_scales has 6 elements; the tree has 7 leaves");
  CHECK(support::is_network_of(source, 3.0F));
  scales.resize(8, 1.0F);
  check("scales has 8 elements; the tree has 7 leaves");
  scales.pop_back();
  max_abs.push_back(-1.0F);
  check("max_abs has 8 elements; the tree has 7 leaves");
}

TEST_CASE("quantize_into: trees that differ are named by path, and nothing has been written") {
  const auto one = float8_e4m3(1.0F);
  const std::vector<float> scales(support::network_leaves, 2.0F);
  const auto check = [&](auto change, const std::string& message) {
    const auto source = support::network_of(3.0F);
    auto codes = support::network_of(one);
    change(codes);
    const auto before = leaves_of(codes);
    std::vector<float> max_abs(support::network_leaves, -1.0F);
    CHECK_THAT(message_of([&] { (void)quantize_into(source, codes, scales, max_abs); }),
               Catch::Matchers::ContainsSubstring(message));
    CHECK(bits_of(max_abs) == std::vector<std::uint32_t>(max_abs.size(), bits_of(-1.0F)));
    CHECK(leaves_of(codes) == before);
  };
  check([](auto& codes) { codes.layers[1].weight.pop_back(); }, "the trees differ at layers[1].weight: ");
  check([](auto& codes) { codes.layers.pop_back(); }, "the trees differ at layers: ");
  check([](auto& codes) { codes.heads.erase("encoder"); }, "the trees differ at heads");
  check([](auto& codes) { codes.temperature.reset(); }, "the trees differ at temperature: ");
}
