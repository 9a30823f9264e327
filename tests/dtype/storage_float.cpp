#include <headroom/dtype/storage_float.hpp>

#include <cstdint>
#include <sstream>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace support;

namespace {

template <class T>
T with_pattern(std::uint32_t pattern) {
  return T::from_bits(static_cast<typename T::bits_type>(pattern));
}

}  // namespace

TEST_CASE("a number prints as the float that it is", "[dtype]") {
  std::ostringstream out;
  out << half(1.5F) << ' ' << bfloat16(-2.0F) << ' ' << std::showpos << float8_e4m3(448.0F);
  CHECK(out.str() == "1.5 -2 +448");
}

TEST_CASE("every pattern of every narrow format widens exactly and comes back", "[dtype]") {
  for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    const auto magnitudes = all_magnitudes<Format>();
    // Whether bits of a float or double are those of the pattern. They are taken at once, because a
    // NaN that is returned as a float may change, and decoded, because under flush-to-zero a
    // comparison of subnormal floats sees zeros.
    const auto is_same = [&](auto wide, std::uint32_t pattern) {
      using Wide = std::conditional_t<sizeof wide == 4, binary32, binary64>;
      const std::uint32_t magnitude = pattern & Format::abs_mask;
      if (magnitude >= Format::smallest_nan_bits) return is_nan<Wide>(wide);
      if (((wide & Wide::sign_mask) != 0) != (magnitude != pattern)) return false;
      if (magnitude > Format::largest_finite_bits)
        return (wide & Wide::abs_mask) == Wide::infinity_bits;
      const long double found = to_long_double(decode<Wide>(wide));
      return is_finite<Wide>(wide) && (found < 0 ? -found : found) == magnitudes[magnitude];
    };
    Mismatches wrong;
    for (const std::uint32_t pattern : sample_bits<Format>()) {
      const auto value = with_pattern<T>(pattern);
      const auto from_float = T(static_cast<float>(value)).bits(),
                 from_double = T(static_cast<double>(value)).bits();
      wrong.expect(is_same(bits_of(static_cast<float>(value)), pattern),
                   [&] { return hex(pattern) + " to float"; });
      wrong.expect(is_same(bits_of(static_cast<double>(value)), pattern),
                   [&] { return hex(pattern) + " to double"; });
      wrong.expect(same_bits<Format>(from_float, value.bits()) &&
                       same_bits<Format>(from_double, value.bits()),
                   [&] { return hex(pattern) + " and back"; });
    }
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("conversions of narrow values in constant expressions", "[dtype]") {
  for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    constexpr T one(1.0F);
    static_assert(static_cast<float>(one) == 1.0F && static_cast<double>(one) == 1.0);
    static_assert(static_cast<int>(one) == 1 && static_cast<bool>(one) &&
                  !std::is_constructible_v<long double, decltype(one)>);
    static_assert(T(1) == one && T(1.0) == one && T(static_cast<std::int8_t>(1)) == one);
    static_assert(T::from_bits(one.bits()) == one);
    static_assert(-one == T(-1.0F) && -(-one) == one);
    static_assert((-T(0.0F)).bits() == T::format::sign_mask);
    static_assert(T{}.bits() == 0, "value-initialised is zero");
  });
}

TEST_CASE("comparisons of all kinds of value, and of neighbours all the way", "[dtype]") {
  for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    Mismatches wrong;
    // Both zeros have place 0, and a negative number the place of its magnitude, negated.
    const auto compare = [&](std::uint32_t left, int left_place, std::uint32_t right,
                             int right_place) {
      const auto a = with_pattern<T>(left), b = with_pattern<T>(right);
      const bool right_answers =
          (a == b) == (left_place == right_place) && (a != b) == (left_place != right_place) &&
          (a < b) == (left_place < right_place) && (a > b) == (left_place > right_place) &&
          (a <= b) == (left_place <= right_place) && (a >= b) == (left_place >= right_place);
      wrong.expect(right_answers, [&] { return hex(left) + " and " + hex(right); });
    };
    const std::uint32_t magnitudes[] = {
        0, 1, 2, Format::mantissa_mask + 1U, Format::largest_finite_bits, Format::overflow_bits};
    const int count = Format::has_infinity ? 6 : 5;
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < count; ++j) {
        for (const std::uint32_t sign : {0U, std::uint32_t{Format::sign_mask}}) {
          compare(magnitudes[i] | sign, sign != 0 ? -i : i, magnitudes[j], j);
          compare(magnitudes[i], i, magnitudes[j] | sign, sign != 0 ? -j : j);
          compare(magnitudes[i] | sign, sign != 0 ? -i : i, magnitudes[j] | sign,
                  sign != 0 ? -j : j);
        }
      }
    }
    for (std::uint32_t bits = 0; bits < Format::smallest_nan_bits - 1U; ++bits) {
      compare(bits, 0, bits + 1, 1);
      compare(bits | Format::sign_mask, bits == 0 ? 0 : -1, (bits + 1) | Format::sign_mask, -2);
    }
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("NaN is unordered with everything, itself too", "[dtype]") {
  for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    Mismatches wrong;
    const auto unordered = [](T a, T b) {
      return !(a == b) && a != b && !(a < b) && !(a > b) && !(a <= b) && !(a >= b);
    };
    for (const std::uint32_t pattern : sample_bits<Format>()) {
      if (!is_nan<Format>(static_cast<typename Format::bits_type>(pattern))) continue;
      for (const std::uint32_t other : {pattern, 0U, std::uint32_t{Format::sign_mask}, 0x38U,
                                        std::uint32_t{Format::overflow_bits}}) {
        const auto nan = with_pattern<T>(pattern), value = with_pattern<T>(other);
        wrong.expect(unordered(nan, value) && unordered(value, nan),
                     [&] { return hex(pattern) + " and " + hex(other); });
      }
    }
    CHECK(wrong.first() == "");
  });
}
