#include <headroom/dtype/bfloat16.hpp>
#include <headroom/dtype/convert.hpp>
#include <headroom/dtype/half.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using headroom::bfloat16;
using headroom::binary16;
using headroom::binary32;
using headroom::binary64;
using headroom::brain16;
using headroom::half;
using headroom::detail::convert_bits;
using support::hex;
using support::Mismatches;

namespace {

/// The nearest value by definition: that of the two neighbours which is less far away, the even one where both are as far.
template <class Format>
std::uint16_t nearest_by_search(const std::vector<long double>& magnitudes, const support::Number& x) {
  const long double target = x.negative ? -support::to_long_double(x) : support::to_long_double(x);
  const auto sign = x.negative ? Format::sign_mask : std::uint16_t{0};
  const auto above = std::upper_bound(magnitudes.begin(), magnitudes.end(), target);
  if (above == magnitudes.end()) return static_cast<std::uint16_t>(sign | Format::infinity_bits);
  const auto upper = static_cast<std::uint16_t>(above - magnitudes.begin()), lower = static_cast<std::uint16_t>(upper - 1);
  const long double to_lower = target - magnitudes[lower], to_upper = magnitudes[upper] - target;
  const bool up = to_upper < to_lower || (to_upper == to_lower && upper % 2 == 0);
  return static_cast<std::uint16_t>(sign | (up ? upper : lower));
}

}  // namespace

TEST_CASE("narrowing finds the nearest value by definition", "[dtype]") {
  support::for_each_type<half, bfloat16>([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    const auto magnitudes = support::all_magnitudes<Format>();
    std::mt19937 random(support::seed);
    Mismatches wrong_from_float, wrong_from_double, wrong_reference;
    for (int i = 0; i < 300'000; ++i) {
      const auto wide = support::random_finite_bits<binary32>(random);
      const auto number = support::decode<binary32>(wide);
      const std::uint16_t expected = nearest_by_search<Format>(magnitudes, number);
      const auto describe = [&] { return hex(wide) + " to " + hex(expected); };
      wrong_from_float.expect(convert_bits<binary32, Format>(wide) == expected, describe);
      wrong_reference.expect(support::nearest<Format>(number) == expected, describe);
    }
    // Doubles in the middle of the format's range, where most random patterns of double would be 0 or Inf.
    for (int i = 0; i < 300'000; ++i) {
      auto number = support::decode<binary64>(support::random_finite_bits<binary64>(random));
      number.exponent = static_cast<int>(random() % (2U * Format::bias + 20U)) - Format::bias - Format::mantissa_bits - 8 - 52;
      const auto wide = support::nearest<binary64>(number);
      const std::uint16_t expected = nearest_by_search<Format>(magnitudes, number);
      wrong_from_double.expect(convert_bits<binary64, Format>(wide) == expected,
                               [&] { return hex(wide) + " to " + hex(expected); });
    }
    INFO(wrong_from_float.first() << ", " << wrong_from_double.first() << ", " << wrong_reference.first());
    CHECK(wrong_from_float.count() == 0);
    CHECK(wrong_from_double.count() == 0);
    CHECK(wrong_reference.count() == 0);
  });
}

TEST_CASE("every boundary between two neighbours, from float and from double", "[dtype]") {
  support::for_each_type<half, bfloat16>([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    Mismatches wrong_from_float, wrong_from_double;
    for (const auto& boundary : support::boundaries<binary32, Format>()) {
      const auto describe = [&] { return hex(boundary.wide) + " to " + hex(boundary.nearest); };
      wrong_from_float.expect(convert_bits<binary32, Format>(boundary.wide) == boundary.nearest, describe);
    }
    // Just above a midpoint of double is that midpoint in float: by way of float, half of these go astray.
    for (const auto& boundary : support::boundaries<binary64, Format>()) {
      const auto describe = [&] { return hex(boundary.wide) + " to " + hex(boundary.nearest); };
      wrong_from_double.expect(convert_bits<binary64, Format>(boundary.wide) == boundary.nearest, describe);
    }
    INFO(wrong_from_float.first() << ", " << wrong_from_double.first());
    CHECK(wrong_from_float.count() == 0);
    CHECK(wrong_from_double.count() == 0);
  });
}

TEST_CASE("a double is rounded once, not by way of float", "[dtype]") {
  constexpr double above_a_tie_of_half = 1.0 + 0x1p-11 + 0x1p-40, above_a_tie_of_bfloat16 = 1.0 + 0x1p-8 + 0x1p-40;
  static_assert(half(above_a_tie_of_half).bits() == 0x3C01);
  static_assert(half(static_cast<float>(above_a_tie_of_half)).bits() == 0x3C00);
  static_assert(bfloat16(above_a_tie_of_bfloat16).bits() == 0x3F81);
  static_assert(bfloat16(static_cast<float>(above_a_tie_of_bfloat16)).bits() == 0x3F80);
  static_assert(half(0x1p-25 + 0x1p-70).bits() == 0x0001);
  static_assert(half(65520.0 - 0x1p-30).bits() == 0x7BFF);
  SUCCEED("checked by the compiler");
}

TEST_CASE("an integer of more digits than a double has is rounded once, too", "[dtype]") {
  // Just above a tie of bfloat16 at 2^62, where neighbours are 2^55 apart; as a double it would be the tie itself.
  constexpr std::int64_t above_a_tie = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;
  CHECK(static_cast<double>(bfloat16(above_a_tie)) == 0x1.02p62);
  CHECK(static_cast<double>(bfloat16(-above_a_tie)) == -0x1.02p62);
  CHECK(static_cast<double>(bfloat16(static_cast<std::uint64_t>(above_a_tie) * 2)) == 0x1.02p63);
  CHECK(static_cast<double>(bfloat16(above_a_tie - 1)) == 0x1p62);
  CHECK(static_cast<double>(bfloat16(above_a_tie - 2)) == 0x1p62);
}

TEST_CASE("a NaN stays a NaN whatever its payload, and Inf stays Inf", "[dtype]") {
  support::for_each_type<half, bfloat16>([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    static_assert(support::is_nan<Format>(convert_bits<binary32, Format>(0x7FFFFFFF)),
                  "adding a rounding bit would make this -0");
    static_assert(support::is_nan<Format>(convert_bits<binary32, Format>(0xFFFFFFFF)));
    static_assert(support::is_nan<Format>(convert_bits<binary32, Format>(0x7F800001)),
                  "its payload would be cut to that of Inf");
    static_assert(support::is_nan<Format>(convert_bits<binary64, Format>(0x7FF0000000000001)));
    static_assert(convert_bits<binary32, Format>(0x7F800000) == Format::infinity_bits);
    static_assert(convert_bits<binary64, Format>(0xFFF0000000000000) == (Format::infinity_bits | 0x8000));

    Mismatches wrong;
    for (std::uint32_t payload = 1; payload < 1U << 23; payload += payload < 70'000 ? 1 : 61) {
      for (const std::uint32_t sign : {0U, 0x80000000U}) {
        const std::uint32_t bits = sign | 0x7F800000U | payload;
        const std::uint16_t narrow = convert_bits<binary32, Format>(bits);
        const bool right = support::is_nan<Format>(narrow) && ((narrow & 0x8000) != 0) == (sign != 0);
        wrong.expect(right, [&] { return hex(bits) + " became " + hex(narrow); });
      }
    }
    INFO(wrong.first());
    CHECK(wrong.count() == 0);
  });
}

TEST_CASE("the constructor sees a NaN and an Inf that memory holds", "[dtype]") {
  support::for_each_type<half, bfloat16>([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    for (const std::uint32_t bits : support::nonfinite_bits<binary32>()) {
      float value = 0.0F;
      support::set_bits(value, bits);
      CHECK(support::same_bits<Format>(T(value).bits(), convert_bits<binary32, Format>(bits)));
      CHECK_FALSE(support::is_finite<Format>(T(value).bits()));
    }
    for (const std::uint64_t bits : support::nonfinite_bits<binary64>()) {
      double value = 0.0;
      support::set_bits(value, bits);
      CHECK(support::same_bits<Format>(T(value).bits(), convert_bits<binary64, Format>(bits)));
      CHECK_FALSE(support::is_finite<Format>(T(value).bits()));
    }
  });
}

TEST_CASE("float and double to each other as the language converts them", "[dtype]") {
  Mismatches wrong_widened, wrong_narrowed;
  for (const std::uint32_t bits : support::sample_bits<binary32>()) {
    if (!support::is_finite<binary32>(bits)) continue;
    const auto expected = support::nearest<binary64>(support::decode<binary32>(bits));
    wrong_widened.expect(convert_bits<binary32, binary64>(bits) == expected, [&] { return hex(bits); });
  }
  for (const std::uint64_t bits : support::sample_bits<binary64>()) {
    if (!support::is_finite<binary64>(bits)) continue;
    const auto expected = support::nearest<binary32>(support::decode<binary64>(bits));
    wrong_narrowed.expect(convert_bits<binary64, binary32>(bits) == expected, [&] { return hex(bits); });
  }
  INFO(wrong_widened.first() << ", " << wrong_narrowed.first());
  CHECK(wrong_widened.count() == 0);
  CHECK(wrong_narrowed.count() == 0);
  static_assert(convert_bits<binary64, binary32>(0x36A0000000000000) == 0x00000001, "the least float");
  static_assert(convert_bits<binary64, binary32>(0x3690000000000000) == 0x00000000, "half of it: a tie to zero");
  static_assert(convert_bits<binary64, binary32>(0x47EFFFFFF0000000) == 0x7F800000, "the tie above the largest float");
}

TEST_CASE("shift_right_to_nearest_even", "[dtype]") {
  using headroom::detail::shift_right_to_nearest_even;
  static_assert(shift_right_to_nearest_even(5, 0) == 5 && shift_right_to_nearest_even(5, -2) == 20);
  static_assert(shift_right_to_nearest_even(4, 1) == 2 && shift_right_to_nearest_even(5, 1) == 2);
  static_assert(shift_right_to_nearest_even(7, 1) == 4 && shift_right_to_nearest_even(7, 2) == 2);
  static_assert(shift_right_to_nearest_even(5, 2) == 1 && shift_right_to_nearest_even(6, 2) == 2);
  static_assert(shift_right_to_nearest_even(1, 62) == 0 && shift_right_to_nearest_even(~std::uint64_t{0} >> 11, 1000) == 0);
  SUCCEED("checked by the compiler");
}
