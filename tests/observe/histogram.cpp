#include <headroom/observe/exponent_histogram.hpp>
#include <headroom/observe/histogram.hpp>
#include <headroom/state/text.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using headroom::exponent_histogram;
using headroom::ExponentHistogram;
using headroom::FormatShares;
using headroom::half;

namespace {

struct e3m4 : headroom::ieee_format<std::uint8_t, 3, 4> {};

/// What becomes of each element, by the exact product, in integers.
template <class T, class Element>
FormatShares convert_all(const std::vector<Element>& elements, float scale) {
  using Format = headroom::detail::format_of<T>;
  using From = headroom::detail::format_of<Element>;
  const support::Number by = support::decode<headroom::binary32>(support::bits_of(scale));
  FormatShares shares;
  std::uint64_t zero = 0, small = 0, infinite = 0;
  for (const Element& element : elements) {
    const auto magnitude = static_cast<typename From::bits_type>(support::bits_of(element) & From::abs_mask);
    if (magnitude == 0 || magnitude > From::largest_finite_bits) continue;
    ++shares.elements;
    const support::Number product = support::product(support::decode<From>(magnitude), by);
    const auto bits = support::nearest<Format>(product);
    if (bits == 0) ++zero;
    if (bits != 0 && support::floor_log2(product) < 1 - Format::bias) ++small;
    if (bits > Format::largest_finite_bits) ++infinite;
  }
  shares.underflows = {zero, zero};
  shares.subnormals = {small, small};
  shares.overflows = {infinite, infinite};
  return shares;
}

bool holds(const headroom::CountRange& range, const headroom::CountRange& exact) {
  return range.least <= exact.least && exact.least <= range.most;
}

template <class T, class Element>
void check_shares(const std::vector<Element>& elements, float scale) {
  INFO(support::name_of<T>() << " times " << scale);
  const ExponentHistogram histogram = exponent_histogram(elements);
  const FormatShares shares = histogram.shares<T>(scale), exact = convert_all<T>(elements, scale);
  CHECK(shares.elements == exact.elements);
  CHECK(holds(shares.underflows, exact.underflows));
  CHECK(holds(shares.subnormals, exact.subnormals));
  CHECK(holds(shares.overflows, exact.overflows));
  CHECK((shares.overflows.most == 0) == (exact.overflows.most == 0));
  CHECK((shares.overflows.least == 0) == (exact.overflows.most == 0));
  if (headroom::detail::is_power_of_two(scale)) {
    CHECK(shares.underflows.is_exact());
    CHECK(shares.subnormals.is_exact());
  }
}

/// Around the edges of a format, many of them exactly there.
template <class T, class Element>
std::vector<Element> elements_around(std::mt19937& random) {
  using Format = headroom::detail::format_of<T>;
  const int lowest = -Format::bias - Format::mantissa_bits - 3, normal = 1 - Format::bias;
  const int highest = static_cast<int>(Format::largest_finite_bits >> Format::mantissa_bits) - Format::bias + 1;
  std::vector<Element> elements;
  for (int i = 0; i < support::cases(3000); ++i) {
    const int near = random() % 3 == 0 ? lowest : random() % 2 == 0 ? normal - 3 : highest - 4;
    const int exponent = near + static_cast<int>(random() % 6);
    const auto digits = random() % 4 == 0 ? 0UL : random() % 3 == 0 ? (random() & 15U) << 19U : random() & 0x7FFFFFU;
    const double value = std::ldexp(1.0 + std::ldexp(static_cast<double>(digits), -23), exponent);
    elements.push_back(static_cast<Element>(random() % 2 == 0 ? value : -value));
  }
  return elements;
}

template <class T>
void check_format(std::mt19937& random) {
  const auto floats = elements_around<T, float>(random);
  const auto halves = elements_around<T, half>(random);
  for (const float scale : {1.0F, 0.5F, 0x1p24F, 0x1p-30F, 0x1p3F, 3.0F, 0.1F, 1.9999999F, 65535.0F, 1e-5F}) {
    check_shares<T>(floats, scale);
    check_shares<T>(halves, scale);
  }
}

/// Doubles as near to edge / scale as there are, whose products with the scale have more digits than a double; alone, where the
/// histogram knows what becomes of each, and two at a time.
template <class T>
void check_doubles_at(const support::Number& edge, std::mt19937& random) {
  for (int i = 0; i < support::cases(30); ++i) {
    const float digits = std::ldexp(static_cast<float>((random() & 0x7FFFFFU) | 0x800000U), -23);
    const int exponent = static_cast<int>(random() % 252) - 126;
    const double quotient = static_cast<double>(edge.significand) / static_cast<double>(digits);
    const double near = std::ldexp(quotient, edge.exponent - exponent);
    for (const int unit : {-2, -1, 0, 1, 2}) {
      const std::uint64_t bits = support::bits_of(near) + static_cast<std::uint64_t>(unit);
      if (bits <= headroom::binary64::mantissa_mask || bits > headroom::binary64::largest_finite_bits) continue;
      std::vector<double> elements(1);
      support::set_bits(elements[0], bits);
      check_shares<T>(elements, std::ldexp(digits, exponent));
      elements.push_back(near);
      check_shares<T>(elements, std::ldexp(digits, exponent));
    }
  }
}
template <class T>
void check_doubles(std::mt19937& random) {
  using Format = headroom::detail::format_of<T>;
  support::Number middle = support::decode<Format>(Format::largest_finite_bits);
  middle.significand = 2 * middle.significand + 1;
  --middle.exponent;
  check_doubles_at<T>(middle, random);
  check_doubles_at<T>({false, 1, 1 - Format::bias}, random);
  check_doubles_at<T>({false, 1, -Format::bias - Format::mantissa_bits}, random);
}

}  // namespace

TEST_CASE("shares of doubles are those of their exact products") {
  std::mt19937 random(support::seed);
  check_doubles<half>(random);
  check_doubles<headroom::float8_e4m3>(random);
  check_doubles<float>(random);
  check_doubles<double>(random);
  // The product is 65520 less 8e-13, and its nearest double is 65520, from which on numbers overflow.
  check_shares<half>(std::vector<double>{60284.77471754139}, 1.08684158F);
}

TEST_CASE("shares are those of a conversion of every element") {
  std::mt19937 random(support::seed);
  check_format<half>(random);
  check_format<headroom::bfloat16>(random);
  check_format<headroom::cbfloat16>(random);
  check_format<headroom::float8_e4m3>(random);
  check_format<headroom::float8_e5m2>(random);
  check_format<headroom::storage_float<e3m4>>(random);
}

TEST_CASE("ties: half the smallest number, and the middle between the largest one and the next") {
  const std::vector<float> ties = {0x1p-25F, 0x1.8p-25F, 0x1p-24F, 65504.0F, 65519.0F, 65520.0F};
  const FormatShares of_half = exponent_histogram(ties).shares<half>();
  CHECK(of_half.underflows.least == 1);
  CHECK(of_half.underflows.is_exact());
  CHECK(of_half.subnormals.least == 2);
  CHECK(of_half.overflows.least == 1);
  CHECK(of_half.overflows.most == 3);  // all that have the exponent of 65504
  CHECK(exponent_histogram(std::vector<float>{65519.0F}).shares<half>().overflows.most == 0);
  CHECK(exponent_histogram(std::vector<float>{65520.0F}).shares<half>().overflows.least == 1);
  CHECK(exponent_histogram(std::vector<float>{464.0F}).shares<headroom::float8_e4m3>().overflows.most == 0);
  CHECK(exponent_histogram(std::vector<float>{0x1.d00002p8F}).shares<headroom::float8_e4m3>().overflows.least == 1);
  const std::vector<double> doubles = {0x1.fffffep127, 0x1.fffffefffffffp127, 0x1.ffffffp127, 0x1p-149, 0x1p-150};
  const FormatShares of_float = exponent_histogram(doubles).shares<float>();
  CHECK(of_float.underflows.least == 1);
  CHECK(of_float.overflows.most == 3);
  CHECK(exponent_histogram(std::vector<double>{0x1.fffffefffffffp127}).shares<float>().overflows.most == 0);
  CHECK(exponent_histogram(std::vector<double>{0x1.fffffffffffffp1000}).shares<double>(0x1p23F).overflows.most == 0);
  CHECK(exponent_histogram(std::vector<double>{0x1.fffffffffffffp1000}).shares<double>(0x1p24F).overflows.least == 1);
}

TEST_CASE("shares as numbers from 0 to 1, of what is finite and not zero") {
  std::vector<float> elements = {0.0F, 0.0F, 0x1p-30F, 0x1p-20F, 1.0F, 1e6F, 1.0F, 1.0F, 1.0F, 1.0F};
  support::set_bits(elements[0], 0x7F800000U);
  const FormatShares shares = exponent_histogram(elements).shares<half>();
  CHECK(shares.elements == 8);
  CHECK(shares.underflow_share() == 0.125);
  CHECK(shares.subnormal_share() == 0.125);
  CHECK(shares.overflow_share() == 0.125);
  CHECK(ExponentHistogram().shares<half>().underflow_share() == 0.0);
}

TEST_CASE("the recommended scale is the largest that is safe") {
  std::mt19937 random(support::seed);
  support::for_each_storage_float([&random](auto tag) {
    using T = typename decltype(tag)::type;
    using Format = headroom::detail::format_of<T>;
    for (int i = 0; i < support::cases(200); ++i) {
      const int exponent = static_cast<int>(random() % 80) - 40, bits = static_cast<int>(random() % 4);
      const double digits = random() % 3 == 0 ? 1.9375 : 1.0 + std::ldexp(static_cast<double>(random() & 0xFFFFFF), -24);
      const double max_abs = std::ldexp(digits, exponent);
      const float scale = exponent_histogram(std::vector<double>{max_abs, -max_abs / 3.0}).recommended_scale<T>(bits);
      const auto overflows = [&](double value) {
        return headroom::detail::convert_bits<headroom::binary64, Format>(support::bits_of(value)) >
               Format::largest_finite_bits;
      };
      const double with_headroom = std::ldexp(max_abs, bits) * static_cast<double>(scale);
      CHECK(headroom::detail::is_power_of_two(scale));
      CHECK((scale == headroom::smallest_loss_scale || !overflows(with_headroom)));
      CHECK((scale == headroom::largest_loss_scale || overflows(2.0 * with_headroom)));
    }
  });
}

TEST_CASE("the recommended scale at its limits, and where there is nothing to go by") {
  const auto of = [](double max_abs) { return exponent_histogram(std::vector<double>{max_abs, 0.0}); };
  CHECK(of(0x1p-149).recommended_scale<half>() == 0x1p126F);
  CHECK(of(0x1p-1074).recommended_scale<half>() == 0x1p126F);
  CHECK(of(0x1p1000).recommended_scale<half>() == 0x1p-126F);
  CHECK(of(1.0).recommended_scale<half>() == 0x1p15F);
  CHECK(of(1.0).recommended_scale<half>(2) == 0x1p13F);
  CHECK(of(1.0).recommended_scale<half>(2147483647) == 0x1p-126F);
  CHECK(of(0.0).recommended_scale<half>() == 1.0F);
  CHECK(ExponentHistogram().recommended_scale<half>() == 1.0F);
  std::vector<float> overflowed = {8.0F, 1.0F};
  support::set_bits(overflowed[1], 0x7FC00000U);
  CHECK(exponent_histogram(overflowed).recommended_scale<half>() == 0x1p12F);
  CHECK(exponent_histogram(overflowed).max_abs() == 8.0);
  CHECK_THROWS_WITH((void)of(1.0).recommended_scale<half>(-1), "headroom: headroom_bits is -1; it must be 0 or more");
}

TEST_CASE("a scale out of range") {
  const auto histogram = exponent_histogram(std::vector<float>{1.0F});
  CHECK_THROWS_WITH((void)histogram.shares<half>(0.0F), "headroom: scale is 0; it must be in [2^-126, 2^126]");
  CHECK_THROWS_WITH((void)histogram.shares<half>(-1.0F), "headroom: scale is -1; it must be in [2^-126, 2^126]");
}

TEST_CASE("histograms add up in any order") {
  std::mt19937 random(support::seed);
  std::vector<ExponentHistogram> parts = {ExponentHistogram(), exponent_histogram(std::vector<float>{0.0F, 0.0F})};
  std::vector<float> all = {0.0F, 0.0F};
  for (int i = 0; i < 20; ++i) {
    std::vector<float> part(random() % 50);
    for (float& element : part) support::set_bits(element, static_cast<std::uint32_t>(random()));
    all.insert(all.end(), part.begin(), part.end());
    parts.push_back(exponent_histogram(part));
  }
  ExponentHistogram forwards, backwards;
  for (const auto& part : parts) forwards += part;
  for (std::size_t i = parts.size(); i-- > 0;) backwards = parts[i] + backwards;
  CHECK(forwards == exponent_histogram(all));
  CHECK(backwards == forwards);
  CHECK(forwards != ExponentHistogram());
  CHECK(exponent_histogram(std::vector<float>{1.0F}) != exponent_histogram(std::vector<float>{-1.5F}));
  CHECK(exponent_histogram(std::vector<float>{1.0F}) != exponent_histogram(std::vector<float>{1.0F, 0.0F}));
  CHECK(exponent_histogram(std::vector<float>{1.25F}) != exponent_histogram(std::vector<float>{1.5F}));
  CHECK(exponent_histogram(std::vector<float>{1.0F}) == exponent_histogram(std::vector<half>{half(-1.0F)}));
  ExponentHistogram twice = forwards;
  twice += twice;
  CHECK(twice == forwards + forwards);
}

TEST_CASE("a histogram comes back from its state, and from its text; on another rank it is added") {
  std::mt19937 random(support::seed);
  const auto through_text = [](const ExponentHistogram& histogram) {
    return ExponentHistogram::from_state_dict(headroom::from_text(to_text(histogram.state_dict())));
  };
  CHECK(through_text(ExponentHistogram()) == ExponentHistogram());
  CHECK(through_text(exponent_histogram(std::vector<half>(7))) == exponent_histogram(std::vector<half>(7)));
  ExponentHistogram sum;
  support::for_each_storage_float([&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const std::size_t size : {1U, 2U, 300U}) {
      std::vector<T> elements(size);
      for (T& element : elements) support::set_bits(element, support::random_bits<headroom::detail::format_of<T>>(random));
      const ExponentHistogram histogram = exponent_histogram(elements);
      CHECK(through_text(histogram) == histogram);
      CHECK(through_text(sum) + through_text(histogram) == sum + histogram);
      sum += histogram;
    }
  });
  for (const std::uint64_t bits : {std::uint64_t{1}, std::uint64_t{3}, 0x7FEFFFFFFFFFFFFFUL, 0x7FE0000000000000UL}) {
    std::vector<double> elements = {0.0, 1e-30};
    support::set_bits(elements[0], bits);
    CHECK(through_text(exponent_histogram(elements)) == exponent_histogram(elements));
  }
  ExponentHistogram large = exponent_histogram(std::vector<float>(16, 1.0F));
  for (int bits = 5; bits < 63; ++bits) {
    large += large;
    CHECK(through_text(large) == large);
  }
  large += large;
  CHECK_THAT(support::message_of([&] { (void)large.state_dict(); }), Catch::Matchers::ContainsSubstring("too large"));
}

TEST_CASE("a state that is no histogram's is refused by key and value") {
  std::vector<float> elements = {-3.0F, 1.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F};
  support::set_bits(elements[3], 0x7F800000U);
  support::set_bits(elements[4], 0x7FC00000U);
  support::set_bits(elements[5], 0x00400000U);  // 2^-127
  const ExponentHistogram histogram = exponent_histogram(elements);
  const headroom::StateDict state = histogram.state_dict();
  CHECK(state.at("elements") == headroom::StateValue(7));
  CHECK(state.at("max_abs") == headroom::StateValue(3.0));
  CHECK(state.at("lowest_exponent") == headroom::StateValue(-127));
  std::string counts = "1", powers_of_two = "1";
  for (int exponent = -126; exponent < 0; ++exponent) counts += " 0", powers_of_two += " 0";
  CHECK(state.at("counts") == headroom::StateValue(counts + " 2 1"));
  CHECK(state.at("powers_of_two") == headroom::StateValue(powers_of_two + " 2 0"));
  CHECK(ExponentHistogram::from_state_dict(state) == histogram);

  const auto message = [&state](const char* key, const headroom::StateValue& value) {
    headroom::StateDict bad = state;
    bad.set(key, value);
    return support::message_of([&] { (void)ExponentHistogram::from_state_dict(bad); });
  };
  const std::pair<const char*, headroom::StateValue> bad[] = {
      {"elements", -1},
      {"elements", 0.5},
      {"infs", 8},
      {"nans", 7},
      {"subnormals", 8},
      {"subnormals", 5},  // of 4 that are not zero
      {"max_abs", "3"},
      {"max_abs", -3.0},
      {"max_abs", 0.0},
      {"max_abs", 4.0},
      {"max_abs", 1.5},
      {"max_abs", 2.0},  // the one with this exponent is no power of two
      {"max_abs", headroom::detail::bit_cast<double>(headroom::binary64::infinity_bits)},
      {"lowest_exponent", -1075},
      {"lowest_exponent", 1023},
      {"counts", ""},
      {"counts", "x"},
      {"counts", 4},
      {"counts", counts + " 2 0"},
      {"counts", "0" + counts.substr(1) + " 2 1"},
      {"counts", counts + " 4 1"},
      {"counts", counts + " 2 8"},
      {"counts", "1 -1 1"},
      {"counts", counts + " 2"},
      {"counts", counts + " 2 1 1"},
      {"powers_of_two", ""},
      {"powers_of_two", powers_of_two + " 2"},
      {"powers_of_two", powers_of_two + " 2 0 0"},
      {"powers_of_two", powers_of_two + " 3 0"},
      {"policy", "history"},
      {"version", 2},
      {"other", 1},
  };
  for (const auto& [key, value] : bad) {
    INFO(key << " " << headroom::detail::to_text(value) << ": " << message(key, value));
    CHECK_THAT(message(key, value), Catch::Matchers::ContainsSubstring(" " + std::string(key) + " is ") ||
                                        Catch::Matchers::ContainsSubstring("'" + std::string(key) + "' is unknown"));
  }
  CHECK_FALSE(message("lowest_exponent", -126).empty());                  // by 1 more than max_abs, or that by 1 less
  CHECK_FALSE(message("powers_of_two", powers_of_two + " 2 1").empty());  // the largest may be a power of two, or this not
  CHECK(message("max_abs", 2.5).empty());
  CHECK(message("subnormals", 4).empty());
  CHECK_THAT(message("max_abs", 4.0), Catch::Matchers::ContainsSubstring("max_abs is 4, which the other values contradict"));
  CHECK_THAT(message("infs", 8), Catch::Matchers::ContainsSubstring("infs is 8; it must be in [0, 7]"));
  for (const auto& [key, value] : state) {
    headroom::StateDict without = state;
    (void)without.erase(key);
    CHECK_THAT(support::message_of([&] { (void)ExponentHistogram::from_state_dict(without); }),
               Catch::Matchers::ContainsSubstring(key));
  }
  headroom::StateDict nothing = ExponentHistogram().state_dict();
  for (const char* key : {"counts", "powers_of_two"}) {
    headroom::StateDict longer = nothing;
    longer.set(key, "0");
    CHECK_THAT(support::message_of([&] { (void)ExponentHistogram::from_state_dict(longer); }),
               Catch::Matchers::ContainsSubstring(" " + std::string(key) + " is "));
  }
  nothing.set("lowest_exponent", 1);
  CHECK_THAT(support::message_of([&] { (void)ExponentHistogram::from_state_dict(nothing); }),
             Catch::Matchers::ContainsSubstring("lowest_exponent is 1, which"));
}
