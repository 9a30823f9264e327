#include <headroom/headroom.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/flush.hpp"
#include "support/isa.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using namespace headroom;
using namespace headroom::detail;
using namespace support;

namespace {

template <class T>
std::vector<T> random_values(std::size_t n) {
  std::mt19937 random(seed);
  std::vector<T> values(n);
  for (T& value : values) {
    const double uniform = static_cast<double>(random()) / 0x1p32;
    value = T(
        static_cast<float>((uniform - 0.5) * std::ldexp(1.0, static_cast<int>(random() % 16) - 8)));
  }
  return values;
}

template <class T>
long double norm_in_long_double(const std::vector<T>& values) {
  long double sum = 0.0L;
  for (const T& value : values) {
    const long double wide = to_long_double(decode<format_of<T>>(bits_of(value)));
    sum += wide * wide;
  }
  return std::sqrt(sum);
}

/// An element goes through at most ten roundings to float, of its square and of sums. The root
/// halves the error.
template <class T>
constexpr long double tolerance = std::is_same_v<T, double> ? 1e-12L : 5.01L * 0x1p-24L;

template <class T>
bool near(const double& actual, long double expected) {
  // Under -ffast-math the compiler may take the comparison alone to be true for a NaN.
  return is_finite<binary64>(bits_of(actual)) &&
         std::fabs(static_cast<long double>(actual) - expected) <= tolerance<T> * expected;
}

bool same(const GradientNorm& a, const GradientNorm& b) {
  return a.finite == b.finite && bits_of(a.max_abs) == bits_of(b.max_abs) &&
         bits_of(a.norm) == bits_of(b.norm);
}

/// The norm is finite, near that in long double, and the same on every instruction set.
template <class T, class Describe>
void check_norm(Mismatches& wrong, const std::vector<T>& values, const Describe& describe) {
  const long double expected = norm_in_long_double(values);
  GradientNorm by_portable;
  for_each_isa([&](Isa isa) {
    const GradientNorm measured = measure(values);
    if (isa == Isa::portable) by_portable = measured;
    wrong.expect(measured.finite && near<T>(measured.norm, expected) && same(measured, by_portable),
                 [&] {
                   return name_of<T>() + " on " + to_string(isa) + ", " + describe() + ": " +
                          std::to_string(measured.norm) + ", not " + std::to_string(expected);
                 });
  });
}

}  // namespace

TEST_CASE("norms are near those in long double and the same bits on every instruction set",
          "[kernel]") {
  std::vector<std::size_t> sizes{1000, 4096, 100'003};
  for (std::size_t n = 0; n <= 100; ++n) sizes.push_back(n);
  Mismatches wrong;
  for_each_dtype([&](auto type) {
    using T = typename decltype(type)::type;
    for (const std::size_t n : sizes)
      check_norm(wrong, random_values<T>(n), [&] { return "n = " + std::to_string(n); });
    check_norm(wrong, std::vector<T>(17, T(-0.0F)), [] { return "zeros"; });
  });
  CHECK(wrong.first() == "");
}

TEST_CASE("max_abs is the largest magnitude at whatever position", "[kernel]") {
  for_each_isa([&](Isa) {
    for_each_dtype([&](auto type) {
      using T = typename decltype(type)::type;
      Mismatches wrong;
      for (std::size_t n = 1; n <= 150; ++n) {
        std::vector<T> values(n, T(0.25F));
        for (std::size_t i = 0; i < n; ++i) {
          values[i] = T(i % 2 == 0 ? -100.5F : 100.5F);
          const bool right = measure(values).max_abs == 100.5 &&
                             unscale_in_place<allow_fp16_gradients>(values, 1.0F).max_abs == 100.5;
          wrong.expect(right, [&] { return std::to_string(i) + " of " + std::to_string(n); });
          values[i] = T(0.25F);
        }
      }
      INFO(name_of<T>() << ": " << wrong.first());
      CHECK(wrong.count() == 0);
    });
  });
}

TEST_CASE("norms at every power of two of a float, alone and beside smaller ones", "[kernel]") {
  const int lowest = flushes_subnormals() ? -126 : -149;
  Mismatches wrong;
  for_each_type<float, bfloat16>([&](auto type) {
    using T = typename decltype(type)::type;
    std::vector<T> values(1600);
    // 24 and 28: subnormal squares that a norm shows
    for (const int below : {0, 1, 12, 20, 24, 28, 60, 100}) {
      for (int exponent = lowest; exponent <= 127; ++exponent) {
        const int small = std::max(exponent - below, lowest);
        std::fill(values.begin(), values.end(), T(std::ldexp(-1.0F, small)));
        for (const std::size_t i : {std::size_t{3}, std::size_t{700}})
          values[i] = T(std::ldexp(1.0F, exponent));
        check_norm(wrong, values, [&] {
          return "2^" + std::to_string(exponent) + " and 2^" + std::to_string(small);
        });
      }
    }
  });
  CHECK(wrong.first() == "");
}

// Squares of 2^-126 times 9/16 are added to one of 2^-126, which is normal. Flush-to-zero keeps
// them in a fused multiply-add.
TEST_CASE("squares that are subnormal, beside one that is not", "[kernel]") {
  std::vector<bfloat16> values(512, bfloat16(0x1.8p-64F));
  std::fill_n(values.begin(), 64, bfloat16(0x1p-63F));
  values[63] = bfloat16(0x1p-39F);
  Mismatches wrong;
  check_norm(wrong, values, [] { return "subnormal squares"; });
  CHECK(wrong.first() == "");
}

TEST_CASE("squares are summed in the documented order, to the bit", "[kernel]") {
  // Volatile, so that no flag changes the order of additions or fuses them.
  const auto reference = [](const std::vector<float>& values) {
    volatile double all = 0.0;
    for (std::size_t chunk = 0; chunk < values.size(); chunk += 65'536) {
      volatile double sums[16] = {};
      const std::size_t end = std::min(values.size(), chunk + 65'536);
      for (std::size_t block = chunk; block < end; block += 512) {
        volatile float squares[64] = {};
        for (std::size_t i = 0; i < 512 && block + i < end; ++i) {
          const volatile float square = values[block + i] * values[block + i];
          squares[i % 64] = squares[i % 64] + square;
        }
        for (std::size_t i = 0; i < 32; ++i) squares[i] = squares[i] + squares[i + 32];
        for (std::size_t i = 0; i < 16; ++i) squares[i] = squares[i] + squares[i + 16];
        for (std::size_t i = 0; i < 16; ++i) sums[i] = sums[i] + static_cast<double>(squares[i]);
      }
      for (std::size_t distance = 8; distance > 0; distance /= 2) {
        for (std::size_t i = 0; i < distance; ++i) sums[i] = sums[i] + sums[i + distance];
      }
      all = all + sums[0];
    }
    return std::sqrt(all);
  };
  for (const std::size_t n :
       {1U, 7U, 63U, 64U, 65U, 300U, 511U, 512U, 513U, 1024U, 5000U, 65'536U, 65'537U, 200'001U}) {
    const auto floats = random_values<float>(n);
    const auto halves = random_values<half>(n);
    const std::vector<float> widened(halves.begin(), halves.end());
    const double expected = reference(floats), expected_of_halves = reference(widened);
    for_each_isa([&](Isa) {
      INFO(n << " elements");
      CHECK(bits_of(measure(floats).norm) == bits_of(expected));
      CHECK(bits_of(measure(halves).norm) == bits_of(expected_of_halves));
    });
  }
}

TEST_CASE("norms of random bits, block by block of another magnitude", "[kernel]") {
  std::mt19937 random(seed);
  Mismatches wrong;
  for_each_type<float, bfloat16, half>([&](auto type) {
    using T = typename decltype(type)::type;
    using Format = format_of<T>;
    const int lowest = 1 - Format::bias, highest = Format::bias - 1;
    for (int run = 0; run < cases(300); ++run) {
      std::vector<T> values(1 + random() % 4000);
      for (std::size_t i = 0; i < values.size();) {
        const int low =
            lowest + static_cast<int>(random() % static_cast<unsigned>(highest - lowest + 1));
        const int width = 1 + static_cast<int>(random() % 40);
        for (std::size_t end = i + 1 + random() % 1000; i < end && i < values.size(); ++i) {
          auto bits = random_magnitude<Format>(random, low, std::min(low + width, highest));
          if (random() % 8 == 0) bits = 0;
          set_bits(values[i], static_cast<decltype(bits)>(
                                  random() % 2 == 0 ? bits : bits | Format::sign_mask));
        }
      }
      check_norm(wrong, values, [&] { return "run " + std::to_string(run); });
    }
  });
  CHECK(wrong.first() == "");
}

TEST_CASE("norms of doubles that are far from 1", "[kernel]") {
  const std::vector<std::vector<double>> samples = {{1e153, -1e153, 1e153},
                                                    {3e-150, 4e-150},
                                                    {2e152, 1e153, 3e100, 1e-300},
                                                    std::vector<double>(50, -1e150),
                                                    {0x1p480, 1.0},
                                                    {0x1.8p481, 0x1p479},
                                                    {0x1p-480},
                                                    {0x1p-481, 0x1p-482}};
  Mismatches wrong;
  for (const auto& values : samples)
    check_norm(wrong, values, [&] { return std::to_string(values[0]) + " and others"; });
  CHECK(wrong.first() == "");
}

TEST_CASE(
    "a sum of squares beyond double is infinite, though its elements are finite, and one below it "
    "is 0",
    "[kernel]") {
  for (const double value : {-1.7e308, 1e180, 0x1p512}) {
    const GradientNorm measured = measure(std::vector<double>(16, value));
    CHECK(measured.finite);
    CHECK(measured.max_abs == std::abs(value));
    CHECK(bits_of(measured.norm) == binary64::infinity_bits);
  }
  CHECK(measure(std::vector<double>(16, 1e-300)).norm == 0.0);
  CHECK(measure(std::vector<double>(16, 1e-300)).max_abs == 1e-300);
}

TEST_CASE("norms of subnormal numbers", "[kernel]") {
  if (flushes_subnormals()) return;  // they count as zero then
  Mismatches wrong;
  check_norm(wrong, values_with<float>({5, 5, 5}), [] { return "floats"; });
  check_norm(wrong, std::vector<bfloat16>(100, bfloat16::from_bits(3)), [] { return ""; });
  CHECK(wrong.first() == "");
}

TEST_CASE("norms of formats without instructions are those of the same floats", "[kernel]") {
  for_each_type<float8_e4m3, cbfloat16>([](auto type) {
    using T = typename decltype(type)::type;
    std::vector<T> values;
    std::vector<float> wide;
    for (const auto bits : sample_bits<format_of<T>>()) {
      if (!is_finite<format_of<T>>(bits)) continue;
      values.push_back(T::from_bits(bits));
      wide.push_back(static_cast<float>(values.back()));
    }
    for_each_isa([&](Isa) {
      const GradientNorm measured = measure(values);
      CHECK(measured.max_abs == static_cast<double>(std::numeric_limits<T>::max()));
      CHECK(bits_of(measured.norm) == bits_of(measure(wide).norm));
    });
  });
}

TEST_CASE("the error of a norm does not grow with the tree", "[kernel]") {
  // A hundred million elements, as leaves that share one piece of memory. The squares of 0.1 and of
  // 1 + 2^-12 + 2^-23 are always rounded in the same direction, and so are their sums.
  for (const auto& [a, b] :
       {std::pair(0.1F, 0.1F), std::pair(0x1.001002p0F, 0x1.001002p0F), std::pair(1e-20F, 1e-20F),
        std::pair(1e19F, 1e19F), std::pair(7e-21F, 1e-10F)}) {
    std::vector<float> block(40'000, a);
    for (std::size_t i = 0; i < block.size(); i += 1001) block[i] = b;
    long double squares = 0.0L;
    for (const float value : block)
      squares += static_cast<long double>(value) * static_cast<long double>(value);
    for_each_isa([&, a = a, b = b](Isa isa) {
      const auto leaves = static_cast<std::size_t>(cases(isa == Isa::portable ? 50 : 2500));
      const std::vector<span<const float>> tree(leaves, span<const float>(block));
      const double expected =
          static_cast<double>(std::sqrt(squares * static_cast<long double>(leaves)));
      const GradientNorm found = measure(tree);
      INFO(a << " and " << b);
      CHECK(found.norm == Approx(expected).epsilon(3e-7));
      CHECK(bits_of(measure(tree, parallel(2)).norm) == bits_of(found.norm));
    });
  }
}
