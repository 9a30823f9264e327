#include <headroom/observe/exponent_histogram.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/own_formats.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using namespace headroom;

namespace {

/// Compares a histogram with counts made element by element.
template <class T>
void check_counts(const std::vector<T>& elements) {
  using Format = headroom::detail::format_of<T>;
  std::map<int, std::uint64_t> counts;
  std::uint64_t zeros = 0, infs = 0, nans = 0;
  double max_abs = 0.0;
  for (const T& element : elements) {
    const auto magnitude =
        static_cast<support::bits_type<T>>(support::bits_of(element) & Format::abs_mask);
    if (magnitude == 0) ++zeros;
    if (magnitude > Format::largest_finite_bits)
      ++(magnitude >= Format::smallest_nan_bits ? nans : infs);
    if (magnitude == 0 || magnitude > Format::largest_finite_bits) continue;
    const support::Number number = support::decode<Format>(magnitude);
    ++counts[support::floor_log2(number)];
    max_abs =
        std::max(max_abs, std::ldexp(static_cast<double>(number.significand), number.exponent));
  }
  const ExponentHistogram histogram = exponent_histogram(elements);
  INFO(support::name_of<T>());
  CHECK((histogram.size() == elements.size() && histogram.zeros() == zeros &&
         histogram.max_abs() == max_abs));
  CHECK((histogram.infs() == infs && histogram.nans() == nans));
  CHECK(histogram.lowest_exponent() == (counts.empty() ? 0 : counts.begin()->first));
  CHECK(histogram.highest_exponent() == (counts.empty() ? -1 : counts.rbegin()->first));
  for (int exponent = -160; exponent <= 140; ++exponent)
    REQUIRE(histogram.count(exponent) == counts[exponent]);
}

/// Compares shares with the exact product of each element and the scale, rounded to T in integers.
template <class T, class Element>
void check_shares(const std::vector<Element>& elements, float scale) {
  using Format = headroom::detail::format_of<T>;
  using From = headroom::detail::format_of<Element>;
  const support::Number by = support::decode<headroom::binary32>(support::bits_of(scale));
  FormatShares exact;
  for (const Element& element : elements) {
    const auto magnitude =
        static_cast<typename From::bits_type>(support::bits_of(element) & From::abs_mask);
    if (magnitude == 0 || magnitude > From::largest_finite_bits) continue;
    ++exact.elements;
    const support::Number product = support::product(support::decode<From>(magnitude), by);
    const auto bits = support::nearest<Format>(product);
    if (bits == 0) ++exact.underflows;
    if (bits != 0 && support::floor_log2(product) < 1 - Format::bias) ++exact.subnormals;
    if (bits > Format::largest_finite_bits) ++exact.overflows;
  }
  const FormatShares shares = exponent_histogram(elements).template shares<T>(scale);
  INFO(support::name_of<T>() << " times " << scale);
  CHECK((shares.elements == exact.elements && shares.underflows == exact.underflows &&
         shares.subnormals == exact.subnormals));
  CHECK((shares.overflows <= exact.overflows && (shares.overflows == 0) == (exact.overflows == 0)));
}

/// Checks shares for values around the edges of a format, many of them exactly at an edge.
template <class T>
void check_format(std::mt19937& random) {
  using Format = headroom::detail::format_of<T>;
  const int lowest = -Format::bias - Format::mantissa_bits - 3, normal = 1 - Format::bias;
  const int highest =
      static_cast<int>(Format::largest_finite_bits >> Format::mantissa_bits) - Format::bias + 1;
  std::vector<float> floats;
  std::vector<half> halves;
  for (int i = 0; i < support::cases(3000); ++i) {
    const int near = random() % 3 == 0 ? lowest : random() % 2 == 0 ? normal - 3 : highest - 4;
    const int exponent = near + static_cast<int>(random() % 6);
    const auto digits = random() % 4 == 0   ? 0UL
                        : random() % 3 == 0 ? (random() & 15U) << 19U
                                            : random() & 0x7FFFFFU;
    const double value = std::ldexp(1.0 + std::ldexp(static_cast<double>(digits), -23), exponent);
    floats.push_back(static_cast<float>(random() % 2 == 0 ? value : -value));
    halves.push_back(static_cast<half>(floats.back()));
  }
  for (const float scale : {1.0F, 0.5F, 0x1p24F, 0x1p-30F, 0x1p3F, 0x1p-126F, 0x1p126F}) {
    check_shares<T>(floats, scale);
    check_shares<T>(halves, scale);
    check_shares<T>(std::vector<float>(floats.begin(), floats.begin() + 1), scale);
  }
  const FormatShares three = exponent_histogram(floats).shares<T>(3.0F),
                     two = exponent_histogram(floats).shares<T>(2.0F);
  CHECK((three.underflows == two.underflows && three.overflows == two.overflows));
}

}  // namespace

TEST_CASE("every pattern of 8 and 16 bits, and random ones of 32, are counted by their values") {
  std::mt19937 random(support::seed);
  support::for_each_type<half, headroom::bfloat16, headroom::cbfloat16, headroom::float8_e4m3,
                         headroom::float8_e5m2, float>([&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> elements(65536);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      support::set_bits(elements[i],
                        static_cast<support::bits_type<T>>(sizeof(T) == 4 ? random() : i));
    }
    check_counts(elements);
  });
  check_counts(std::vector<float>());
  check_counts(std::vector<float>{0.0F, -0.0F});
  CHECK(exponent_histogram(std::vector<double>{0x1p-140, 0x1p-300, 0x1.5p9}).count(-140) == 1);
}

TEST_CASE("shares equal those of scaling and converting every element") {
  std::mt19937 random(support::seed);
  support::for_each_storage_float(
      [&](auto type) { check_format<typename decltype(type)::type>(random); });
  check_format<support::own8>(random);
}

TEST_CASE("shares at ties, and as a part of the elements that are finite and not zero") {
  const FormatShares ties =
      exponent_histogram(std::vector<float>{0x1p-25F, 0x1.8p-25F, 0x1p-24F, 65504.0F, 65520.0F})
          .shares<half>();
  CHECK((ties.underflows == 1 && ties.subnormals == 2 && ties.overflows == 1));
  CHECK(exponent_histogram(std::vector<float>{65519.0F}).shares<half>().overflows == 0);
  CHECK(exponent_histogram(std::vector<float>{464.0F}).shares<headroom::float8_e4m3>().overflows ==
        0);
  CHECK(exponent_histogram(std::vector<float>{0x1.d00002p8F})
            .shares<headroom::float8_e4m3>()
            .overflows == 1);
  std::vector<float> elements = {0.0F, 0.0F, 0x1p-30F, 0x1p-20F, 1.0F,
                                 1e6F, 1.0F, 1.0F,     1.0F,     1.0F};
  support::set_bits(elements[0], 0x7F800000U);
  const FormatShares shares = exponent_histogram(elements).shares<half>();
  CHECK((shares.elements == 8 && shares.underflow_share() == 0.125));
  CHECK((shares.subnormal_share() == 0.125 && shares.overflow_share() == 0.125));
  CHECK(ExponentHistogram().shares<half>().underflow_share() == 0.0);
  CHECK(ExponentHistogram().shares<half>(0x1p100F).overflows == 0);
  CHECK_THROWS_WITH((void)ExponentHistogram().shares<half>(0.0F),
                    "headroom: scale is 0; it must be in [2^-126, 2^126]");
}

TEST_CASE("the recommended scale is the largest power of two that leaves the bits asked for") {
  std::mt19937 random(support::seed);
  support::for_each_type<half, headroom::bfloat16, headroom::float8_e4m3, headroom::float8_e5m2,
                         float>([&random](auto tag) {
    using T = typename decltype(tag)::type;
    using Format = headroom::detail::format_of<T>;
    for (int i = 0; i < support::cases(200); ++i) {
      const int exponent = static_cast<int>(random() % 80) - 40,
                bits = static_cast<int>(random() % 4);
      const float digits = random() % 3 == 0
                               ? 1.9375F
                               : 1.0F + std::ldexp(static_cast<float>(random() & 0x7FFFFF), -23);
      const float max_abs = std::ldexp(digits, exponent);
      const float scale = exponent_histogram(std::vector<float>{max_abs, -max_abs / 3.0F})
                              .recommended_scale<T>(bits);
      const auto overflows = [&](double value) {
        return headroom::detail::convert_bits<headroom::binary64, Format>(support::bits_of(value)) >
               Format::largest_finite_bits;
      };
      const double with_headroom =
          std::ldexp(static_cast<double>(max_abs), bits) * static_cast<double>(scale);
      CHECK(headroom::detail::is_power_of_two(scale));
      CHECK((scale == headroom::smallest_loss_scale || !overflows(with_headroom)));
      CHECK((scale == headroom::largest_loss_scale || overflows(2.0 * with_headroom)));
    }
  });
  const auto of = [](float max_abs) {
    return exponent_histogram(std::vector<float>{max_abs, 0.0F});
  };
  CHECK(of(0x1p-149F).recommended_scale<half>() == 0x1p126F);
  CHECK(of(1.0F).recommended_scale<half>() == 0x1p15F);
  CHECK(of(1.0F).recommended_scale<half>(2147483647) == 0x1p-126F);
  CHECK(of(0.0F).recommended_scale<half>() == 1.0F);
  std::vector<float> overflowed = {8.0F, 1.0F};
  support::set_bits(overflowed[1], 0x7FC00000U);
  CHECK(exponent_histogram(overflowed).recommended_scale<half>() == 0x1p12F);
  CHECK_THROWS_WITH((void)of(1.0F).recommended_scale<half>(-1),
                    "headroom: headroom_bits is -1; it must be 0 or more");
}

TEST_CASE("histograms of leaves add up to the histogram of the tree") {
  std::mt19937 random(support::seed);
  std::vector<float> many(3000);
  for (float& element : many) support::set_bits(element, static_cast<std::uint32_t>(random()));
  many[0] = 0x1p-149F, many[1] = 0x1p127F;  // the lowest and the highest exponent of float
  const auto tree = std::make_tuple(
      many, 1, std::map<std::string, std::vector<half>>{{"b", {half(3.0F)}}, {"c", {}}}, 1e30);
  std::vector<ExponentHistogram> leaves;
  headroom::for_each_leaf(tree,
                          [&](const auto& leaf) { leaves.push_back(exponent_histogram(leaf)); });
  REQUIRE(leaves.size() == 4);
  CHECK(leaves[0] == exponent_histogram(many));
  CHECK(leaves[1].count(1) == 1);
  CHECK(leaves[2] == ExponentHistogram());
  CHECK(leaves[3] + leaves[2] + leaves[1] + leaves[0] == exponent_histogram(tree));
  CHECK(leaves[1] + leaves[0] != exponent_histogram(tree));
  const std::vector<headroom::span<const float>> bad = {{nullptr, 3}};
  CHECK_THROWS_WITH(exponent_histogram(bad), "headroom: [0] is null, with a size of 3");
}

TEST_CASE("elements at odd addresses are counted") {
  const float value = 3.0F;
  alignas(float) unsigned char memory[sizeof value + 1] = {};
  std::memcpy(memory + 1, &value, sizeof value);
  CHECK(
      exponent_histogram(headroom::span<const float>(reinterpret_cast<const float*>(memory + 1), 1))
          .count(1) == 1);
}

TEST_CASE("histograms differ in each of their counts") {
  const auto of = [](const std::vector<float>& elements) { return exponent_histogram(elements); };
  CHECK(of(support::values_with<float>({0x7f800000})) != of({0.0F}));  // Inf
  CHECK(of(support::values_with<float>({0x7fc00000})) != of({0.0F}));  // NaN
  CHECK(of({1.0F}) != of({1.5F}));
  CHECK(of({2.0F, 2.0F}) != of({2.0F, 1.0F}));
  CHECK(of({2.0F, 1.0F}) != of({2.0F, 1.5F}));
}

TEST_CASE("histogram_text draws bars") {
  std::vector<float> elements = {3.0F,  -2.0F, 3.0F, -2.0F, 3.0F, -2.0F, 3.0F, -2.0F,
                                 0.25F, 1e-3F, 0,    0,     0,    0,     0,    0};
  support::set_bits(elements[10], 0x7F800000U);
  support::set_bits(elements[11], 0xFFC00000U);
  CHECK(histogram_text(exponent_histogram(elements), 16) ==
        "     NaN               1   6.25 %\n"
        "     Inf               1   6.25 %\n"
        "     2^1               8  50.00 %  ################\n"
        "     2^0               0   0.00 %\n"
        "    2^-2               1   6.25 %  ##\n"
        "    2^-3               0   0.00 %\n"
        "   2^-10               1   6.25 %  ##\n"
        "    zero               4  25.00 %\n");
  CHECK(
      histogram_text(exponent_histogram(elements), 1).find("2^-2               1   6.25 %  #\n") !=
      std::string::npos);
  CHECK(histogram_text(exponent_histogram(elements), 0).find('#') == std::string::npos);
  CHECK(histogram_text(ExponentHistogram()) == "    zero               0   0.00 %\n");
}
