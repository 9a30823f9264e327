// What scale and unscale store and report, compared with exact integer arithmetic: every pattern of
// the 16-bit formats and a sample of the wider ones, for a range of scales, from each dtype to
// each.
#include <headroom/headroom.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/flush.hpp"
#include "support/isa.hpp"
#include "support/kernels.hpp"
#include "support/own_formats.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace headroom::detail;
using namespace support;

namespace {

/// Elements for each call: few enough that most calls have only finite values, and no multiple of a
/// register.
constexpr std::size_t small_chunk = 250;

template <class T>
span<T> chunk_of(std::vector<T>& values, std::size_t begin) {
  return {values.data() + begin, std::min(small_chunk, values.size() - begin)};
}

/// Whether the report describes the stored bits.
template <class T>
bool describes(const GradientReport& report, span<T> stored) {
  bool finite = true;
  bits_type<T> largest = 0;
  for (const T& value : stored) {
    const auto bits = bits_of(value);
    finite = finite && is_finite<format_of<T>>(bits);
    largest = std::max(largest, static_cast<bits_type<T>>(bits & format_of<T>::abs_mask));
  }
  const std::uint64_t expected = finite ? nearest<binary64>(decode<format_of<T>>(largest))
                                        : std::uint64_t{binary64::infinity_bits};
  return report.finite == finite && bits_of(report.max_abs) == expected;
}

struct Scale {
  static constexpr const char* name = "scale";
  static constexpr auto operation = &product;
  template <class In, class Out>
  static bool run(span<In> source, span<Out> destination, float factor) {
    scale_into(source, destination, factor);
    return true;
  }
};
struct Unscale {
  static constexpr const char* name = "unscale";
  static constexpr auto operation = &quotient;
  template <class In, class Out>
  static bool run(span<In> source, span<Out> destination, float loss_scale) {
    return describes(unscale_into(source, destination, loss_scale), destination);
  }
};

/// The results of one run over all elements.
struct Results {
  AnyBits stored, stored_in_place;  ///< the second is empty if the dtypes differ
  std::size_t wrong_reports = 0;
};

/// Runs `Verb` over all of `elements` chunk by chunk, out of place and, within one dtype, in place.
template <class Verb, class In, class Out>
Results run(const AnyBits& elements, float factor) {
  Results results;
  auto source = values_with<In>({elements.begin(), elements.end()});
  std::vector<Out> destination(elements.size());
  for (std::size_t begin = 0; begin < elements.size(); begin += small_chunk) {
    if (!Verb::run(chunk_of(source, begin), chunk_of(destination, begin), factor))
      ++results.wrong_reports;
  }
  results.stored = any_bits_of(destination);
  if constexpr (std::is_same_v<In, Out>) {
    for (std::size_t begin = 0; begin < elements.size(); begin += small_chunk) {
      (void)Verb::run(chunk_of(source, begin), chunk_of(source, begin), factor);
    }
    results.stored_in_place = any_bits_of(source);
  }
  return results;
}

void compare(const Results& results, const Results& by_portable,
             const std::vector<Outcome>& expected, const support::Layout& layout) {
  const bool flushing = flushes_subnormals();
  Mismatches wrong, unlike_portable, unlike_in_place;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::uint64_t stored = results.stored[i];
    const auto describe = [&] {
      return "element " + std::to_string(i) + " gave " + hex(stored) + ", not " +
             hex(expected[i].bits);
    };
    const bool flushed =
        flushing && expected[i].met_subnormal && stored == (expected[i].bits & layout.sign_mask);
    wrong.expect(layout.same_bits(stored, expected[i].bits) || flushed, describe);
    unlike_portable.expect(layout.same_bits(stored, by_portable.stored[i]), describe);
    const bool same_in_place =
        results.stored_in_place.empty() || layout.same_bits(results.stored_in_place[i], stored);
    unlike_in_place.expect(same_in_place, describe);
  }
  CHECK(wrong.first() == "");
  CHECK(unlike_portable.first() == "");
  CHECK(unlike_in_place.first() == "");
  CHECK(results.wrong_reports == 0);
}

/// A verb from one dtype to another, so that the checks are compiled once.
struct Tested {
  std::string name;
  support::Layout layout;
  Results (*run)(const AnyBits& elements, float factor);
  Outcome (*expected)(std::uint64_t element, float factor);
};
void check_values(const Tested& tested, const AnyBits& elements, float factor) {
  std::vector<Outcome> expected;
  for (const auto element : elements) expected.push_back(tested.expected(element, factor));
  Results by_portable;
  INFO(tested.name << ", by " << factor);
  for_each_isa([&](Isa isa) {
    const Results results = tested.run(elements, factor);
    if (isa == Isa::portable) by_portable = results;
    compare(results, by_portable, expected, tested.layout);
  });
}
template <class Verb, class In, class Out>
void check_values(const AnyBits& elements, float factor) {
  const auto expected = [](std::uint64_t element, float by) {
    return compute<format_of<In>, format_of<Out>>(Verb::operation,
                                                  static_cast<bits_type<In>>(element), by);
  };
  check_values({Verb::name + (" from " + name_of<In>()) + " to " + name_of<Out>(),
                support::layout_of<format_of<Out>>, &run<Verb, In, Out>, expected},
               elements, factor);
}

/// From each of the dtypes `Ins` to each dtype, by each factor.
template <class Verb, class... Ins>
void check_all_values(const std::vector<float>& factors) {
  for_each_type<Ins...>([&](auto in) {
    using In = typename decltype(in)::type;
    const auto elements = any_sample_bits<format_of<In>>();
    for_each_dtype([&](auto out) {
      for (const float factor : factors) {
        // Under flush-to-zero such a factor would be 0.
        const bool is_subnormal =
            (bits_of(factor) & binary32::abs_mask) < (1U << binary32::mantissa_bits) &&
            bits_of(factor) != 0;
        if (is_subnormal && flushes_subnormals()) continue;
        check_values<Verb, In, typename decltype(out)::type>(elements, factor);
      }
    });
  });
}

const std::vector<float> loss_scales = {0x1p-126F, 0x1p-24F, 0x1p-10F, 1.0F,        2.0F,
                                        0x1p10F,   0x1p15F,  0x1p16F,  0x1p24F,     0x1p100F,
                                        0x1p126F,  3.0F,     1000.0F,  1.0F / 3.0F, 65504.0F};
const std::vector<float> factors = {1.0F,     -1.0F,    0.0F,      2.0F,     0x1p15F,
                                    65504.0F, 0x1p-15F, 0.1F,      -1e-20F,  0x1p-126F,
                                    0x1p127F, 3e38F,    0x1p-127F, 0x1p-149F};

}  // namespace

TEST_CASE("unscale stores the quotient, rounded to float and then to the destination", "[kernel]") {
  check_all_values<Unscale, half, bfloat16, float, double>(loss_scales);
}
TEST_CASE("scale stores the product, rounded to float and then to the destination", "[kernel]") {
  check_all_values<Scale, half, bfloat16, float, double>(factors);
}
TEST_CASE("unscale by every power of two in place and into float: all 16-bit patterns",
          "[kernel]") {
  for (int exponent = -126; exponent <= 126; exponent += is_exhaustive ? 1 : 7) {
    const float loss_scale = std::ldexp(1.0F, exponent);
    for_each_type<half, bfloat16>([&](auto in) {
      using In = typename decltype(in)::type;
      const auto elements = any_sample_bits<format_of<In>>();
      check_values<Unscale, In, In>(elements, loss_scale);
      check_values<Unscale, In, float>(elements, loss_scale);
    });
  }
}

TEST_CASE("bfloat16 by powers of two: normal numbers and zeros, and rarely another number",
          "[kernel]") {
  std::mt19937 random(seed);
  const auto all = any_sample_bits<brain16>();
  for (int i = 0; i < 200; ++i) {
    const int exponent = static_cast<int>(random() % 253) - 126;
    AnyBits elements(random() % 3000);
    for (auto& element : elements) {
      element = random_magnitude<brain16>(random, std::max(-125, exponent - 125),
                                          std::min(126, exponent + 126));
      if (random() % 4 == 0) element = 0;
      if (random() % (i % 2 == 0 ? 500 : 5000) == 0) element = all[random() % all.size()];
      if (random() % 2 == 0) element ^= brain16::sign_mask;
    }
    check_values<Unscale, bfloat16, bfloat16>(elements, std::ldexp(1.0F, exponent));
  }
}

TEST_CASE("unscale by random scales is a division, not a product with a rounded reciprocal",
          "[kernel]") {
  std::mt19937 random(seed);
  for_each_type<half, bfloat16, float>([&](auto in) {
    using In = typename decltype(in)::type;
    const auto all = any_sample_bits<format_of<In>>();
    for (int i = 0; i < 40; ++i) {
      float loss_scale = 0.0F;
      set_bits(loss_scale, random_magnitude<binary32>(random, -60, 60));
      AnyBits elements(1999);
      for (auto& element : elements) element = all[random() % all.size()];
      check_values<Unscale, In, In>(elements, loss_scale);
      check_values<Unscale, In, float>(elements, loss_scale);
    }
  });
}

TEST_CASE("scale and unscale from formats without instructions, to them and within them",
          "[kernel]") {
  const auto check = [](auto in, auto out) {
    using In = decltype(in);
    using Out = decltype(out);
    const auto elements = any_sample_bits<format_of<In>>();
    for (const float factor : {1.0F, 0x1p-10F, 0x1p15F, -0.1F})
      check_values<Scale, In, Out>(elements, factor);
    for (const float scale : {1.0F, 0x1p10F, 0x1p-15F, 3.0F, 1000.0F})
      check_values<Unscale, In, Out>(elements, scale);
  };
  for_each_type<float8_e4m3, cbfloat16>([&](auto type) {
    using T = typename decltype(type)::type;
    check(T(), T());
    check(T(), 0.0F);
    check(0.0F, T());
  });
  check(float8_e5m2(), 0.0F);
  check(own8(), half());
  check(own14(), 0.0F);
  check(own16(), 0.0F);
}
