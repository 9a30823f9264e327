#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/dtype/half.hpp>

#include <algorithm>
#include <cstdint>
#include <random>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using namespace support;
using namespace headroom;
using namespace headroom::detail;

namespace {

/// The nearest value by definition: the nearer of the two neighbours, or the even one at a tie.
/// Values nearer to the number that would follow the largest finite one overflow.
template <class Format>
typename Format::bits_type nearest_by_search(const std::vector<long double>& magnitudes,
                                             const Number& x) {
  using Bits = typename Format::bits_type;
  const long double target = x.negative ? -to_long_double(x) : to_long_double(x);
  const auto sign = x.negative ? Format::sign_mask : Bits{0};
  const auto above = std::upper_bound(magnitudes.begin(), magnitudes.end(), target);
  const auto upper = static_cast<std::uint32_t>(above - magnitudes.begin()), lower = upper - 1;
  if (lower > Format::largest_finite_bits) return static_cast<Bits>(sign | overflow<Format>());
  const long double to_lower = target - magnitudes[lower], to_upper = magnitudes[upper] - target;
  const bool up = to_upper < to_lower || (to_upper == to_lower && upper % 2 == 0);
  if (up && lower == Format::largest_finite_bits)
    return static_cast<Bits>(sign | overflow<Format>());
  return static_cast<Bits>(sign | (up ? upper : lower));
}

/// Of any bits.
template <class From, class To>
typename To::bits_type cast_by_search(const std::vector<long double>& magnitudes,
                                      typename From::bits_type bits) {
  const auto sign =
      static_cast<typename To::bits_type>((bits & From::sign_mask) != 0 ? To::sign_mask : 0);
  if (is_finite<From>(bits)) return nearest_by_search<To>(magnitudes, decode<From>(bits));
  const bool is_nan = support::is_nan<From>(bits);
  return static_cast<typename To::bits_type>(sign | (is_nan ? To::quiet_nan_bits : overflow<To>()));
}

/// The same for saturating casts.
template <class From, class To>
typename To::bits_type saturated(typename From::bits_type source, typename To::bits_type result) {
  if (is_finite<To>(result) || is_nan<From>(source)) return result;
  return static_cast<typename To::bits_type>((result & To::sign_mask) | To::largest_finite_bits);
}

}  // namespace

TEST_CASE("narrowing finds the nearest value by definition", "[dtype]") {
  for_each_storage_float([](auto type) {
    using Format = typename decltype(type)::type::format;
    const auto magnitudes = all_magnitudes<Format>();
    std::mt19937 random(seed);
    Mismatches wrong, wrong_reference;
    for (int i = 0; i < cases(300'000); ++i) {
      const auto wide = random_finite_bits<binary32>(random);
      const auto number = decode<binary32>(wide);
      const auto expected = nearest_by_search<Format>(magnitudes, number);
      wrong.expect(convert_bits<binary32, Format>(wide) == expected,
                   [&] { return hex(wide) + " to " + hex(expected); });
      wrong_reference.expect(nearest<Format>(number) == expected, [&] { return hex(wide); });
      // Doubles in the middle of the format's range, because most random patterns of double would
      // become 0 or Inf.
      auto middle = decode<binary64>(random_finite_bits<binary64>(random));
      middle.exponent = static_cast<int>(random() % (2U * Format::bias + 20U)) - Format::bias -
                        Format::mantissa_bits - 8 - 52;
      const auto of_middle = nearest<binary64>(middle);
      wrong.expect(convert_bits<binary64, Format>(of_middle) ==
                       nearest_by_search<Format>(magnitudes, middle),
                   [&] { return hex(of_middle); });
    }
    CHECK(wrong.first() == "");
    CHECK(wrong_reference.first() == "");
  });
}

TEST_CASE(
    "every pattern of every narrow format to every format of up to 16 bits, saturating and not",
    "[dtype]") {
  for_each_storage_float([](auto from) {
    for_each_storage_float([](auto to) {
      using From = typename decltype(from)::type::format;
      using To = typename decltype(to)::type::format;
      const auto magnitudes = all_magnitudes<To>();
      Mismatches wrong;
      for (const auto bits : sample_bits<From>()) {
        const auto expected = cast_by_search<From, To>(magnitudes, bits);
        const bool right = same_bits<To>(convert_bits<From, To>(bits), expected);
        const auto narrow = convert_bits<From, saturating<To>>(bits);
        wrong.expect(right && same_bits<To>(narrow, saturated<From, To>(bits, expected)), [&] {
          return hex(bits) + " became " + hex(convert_bits<From, To>(bits)) + ", saturated " +
                 hex(narrow);
        });
      }
      INFO(name_of<typename decltype(from)::type>()
           << " to " << name_of<typename decltype(to)::type>());
      CHECK(wrong.first() == "");
    });
  });
}

// The numbers of double include those just above a midpoint that would be the midpoint as floats.
TEST_CASE("every boundary between two neighbours, from float and from double", "[dtype]") {
  for_each_storage_float([](auto type) {
    using Format = typename decltype(type)::type::format;
    for_each_type<binary32, binary64>([](auto wide) {
      using Wide = typename decltype(wide)::type;
      Mismatches wrong;
      for (const auto& boundary : boundaries<Wide, Format>()) {
        const auto narrow = convert_bits<Wide, saturating<Format>>(boundary.wide);
        wrong.expect(convert_bits<Wide, Format>(boundary.wide) == boundary.nearest &&
                         narrow == saturated<Wide, Format>(boundary.wide, boundary.nearest),
                     [&] { return hex(boundary.wide) + " to " + hex(boundary.nearest); });
      }
      CHECK(wrong.first() == "");
    });
  });
}

// A double is rounded once, not by way of float.
constexpr double above_a_tie_of_half = 1.0 + 0x1p-11 + 0x1p-40,
                 above_a_tie_of_bfloat16 = 1.0 + 0x1p-8 + 0x1p-40;
static_assert(half(above_a_tie_of_half).bits() == 0x3C01);
static_assert(half(static_cast<float>(above_a_tie_of_half)).bits() == 0x3C00);
static_assert(bfloat16(above_a_tie_of_bfloat16).bits() == 0x3F81);
static_assert(bfloat16(static_cast<float>(above_a_tie_of_bfloat16)).bits() == 0x3F80);
static_assert(half(0x1p-25 + 0x1p-70).bits() == 0x0001);
static_assert(half(65520.0 - 0x1p-30).bits() == 0x7BFF);
static_assert(float8_e4m3(1.0625 + 0x1p-40).bits() == 0x39 && float8_e4m3(1.0625F).bits() == 0x38);
static_assert(float8_e4m3(464.0 + 0x1p-40).bits() == 0x7F && float8_e4m3(464.0F).bits() == 0x7E);
static_assert(float8_e5m2(1.125 + 0x1p-40).bits() == 0x3D && float8_e5m2(1.125F).bits() == 0x3C);
static_assert(cbfloat16(1.0 + 0x1p-10 + 0x1p-40).bits() == 0x5401);

TEST_CASE("an integer of more digits than a double has is rounded once, too", "[dtype]") {
  // Just above a tie of bfloat16 at 2^62, where neighbours are 2^55 apart. As a double it would be
  // the tie.
  constexpr std::int64_t above_a_tie = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;
  const auto rounded = [](auto integer) { return static_cast<double>(bfloat16(integer)); };
  CHECK((rounded(above_a_tie) == 0x1.02p62 && rounded(-above_a_tie) == -0x1.02p62));
  CHECK(rounded(static_cast<std::uint64_t>(above_a_tie) * 2) == 0x1.02p63);
  CHECK((rounded(above_a_tie - 1) == 0x1p62 && rounded(above_a_tie - 2) == 0x1p62));
}

TEST_CASE("a NaN stays a NaN whatever its payload, and Inf stays Inf where there is one",
          "[dtype]") {
  for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    static_assert(is_nan<Format>(convert_bits<binary32, Format>(0x7FFFFFFF)),
                  "adding a rounding bit would make this -0");
    static_assert(is_nan<Format>(convert_bits<binary32, Format>(0xFFFFFFFF)));
    static_assert(is_nan<Format>(convert_bits<binary32, Format>(0x7F800001)),
                  "its payload would be cut to that of Inf");
    static_assert(is_nan<Format>(convert_bits<binary64, Format>(0x7FF0000000000001)));
    static_assert(convert_bits<binary32, Format>(0x7F800000) == Format::overflow_bits);
    static_assert(convert_bits<binary64, Format>(0xFFF0000000000000) ==
                  (Format::overflow_bits | Format::sign_mask));

    Mismatches wrong;
    for (std::uint32_t payload = 1; payload < 1U << 23; payload += payload < 70'000 ? 1 : 61) {
      for (const std::uint32_t sign : {0U, 0x80000000U}) {
        const auto narrow = convert_bits<binary32, Format>(sign | 0x7F800000U | payload);
        const bool right =
            is_nan<Format>(narrow) && ((narrow & Format::sign_mask) != 0) == (sign != 0);
        wrong.expect(right, [&] { return hex(sign | payload) + " became " + hex(narrow); });
      }
    }
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("float and double to each other as the language converts them", "[dtype]") {
  Mismatches wrong;
  for (const std::uint32_t bits : sample_bits<binary32>()) {
    const auto expected = nearest<binary64>(decode<binary32>(bits));
    wrong.expect(!is_finite<binary32>(bits) || convert_bits<binary32, binary64>(bits) == expected,
                 [&] { return hex(bits); });
  }
  for (const std::uint64_t bits : sample_bits<binary64>()) {
    const auto expected = nearest<binary32>(decode<binary64>(bits));
    wrong.expect(!is_finite<binary64>(bits) || convert_bits<binary64, binary32>(bits) == expected,
                 [&] { return hex(bits); });
  }
  CHECK(wrong.first() == "");
}
static_assert(convert_bits<binary64, binary32>(0x36A0000000000000) == 0x00000001,
              "the least float");
static_assert(convert_bits<binary64, binary32>(0x3690000000000000) == 0x00000000,
              "half of it: a tie to zero");
static_assert(convert_bits<binary64, binary32>(0x47EFFFFFF0000000) == 0x7F800000,
              "the tie above the largest float");

TEST_CASE("a conversion that saturates stops at the largest finite value", "[dtype]") {
  for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    constexpr T largest = std::numeric_limits<T>::max();
    static_assert(T(3.4e38, saturate) == largest && T(-3.4e38F, saturate) == -largest);
    static_assert(T(1e300, saturate) == largest && T(-1e300, saturate) == -largest);
    static_assert(T(1.0F, saturate) == T(1.0F) && T(-0.0, saturate).bits() == T::format::sign_mask);
    static_assert(T(7, saturate) == T(7) && T(-7, saturate) == T(-7));
    float infinity = 0.0F, nan = 0.0F;
    set_bits(infinity, binary32::infinity_bits);
    set_bits(nan, binary32::quiet_nan_bits);
    CHECK(T(infinity, saturate) == largest);
    CHECK(is_nan<typename T::format>(T(nan, saturate).bits()));
  });
  static_assert(half(65520, saturate).bits() == 0x7BFF && half(-70000, saturate).bits() == 0xFBFF);
  static_assert(!std::is_convertible_v<float, half> &&
                !std::is_constructible_v<half, long double, saturate_t>);
}

static_assert(shift_right_to_nearest_even(5, 0) == 5 && shift_right_to_nearest_even(5, -2) == 20);
static_assert(shift_right_to_nearest_even(4, 1) == 2 && shift_right_to_nearest_even(5, 1) == 2);
static_assert(shift_right_to_nearest_even(7, 1) == 4 && shift_right_to_nearest_even(7, 2) == 2);
static_assert(shift_right_to_nearest_even(5, 2) == 1 && shift_right_to_nearest_even(6, 2) == 2);
static_assert(shift_right_to_nearest_even(1, 62) == 0 &&
              shift_right_to_nearest_even(~std::uint64_t{0} >> 11, 1000) == 0);
