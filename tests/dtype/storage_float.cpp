#include <headroom/dtype/storage_float.hpp>

#include <cstdint>
#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using headroom::binary32;
using headroom::binary64;
using support::bits_of;
using support::hex;
using support::Mismatches;

namespace {

template <class T>
T with_pattern(std::uint32_t pattern) {
  return T::from_bits(static_cast<typename T::bits_type>(pattern));
}

}  // namespace

TEST_CASE("every pattern of every narrow format widens exactly and comes back", "[dtype]") {
  support::for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    const auto magnitudes = support::all_magnitudes<Format>();
    // Whether bits of a float or double are those of the pattern. They are taken at once, because a NaN that is returned as a
    // float may change, and decoded, because under flush-to-zero a comparison of subnormal floats sees zeros.
    const auto is_same = [&](auto wide, std::uint32_t pattern) {
      using Wide = std::conditional_t<sizeof wide == 4, binary32, binary64>;
      const std::uint32_t magnitude = pattern & Format::abs_mask;
      if (magnitude >= Format::smallest_nan_bits) return support::is_nan<Wide>(wide);
      if (((wide & Wide::sign_mask) != 0) != (magnitude != pattern)) return false;
      if (magnitude > Format::largest_finite_bits) return (wide & Wide::abs_mask) == Wide::infinity_bits;
      const long double found = support::to_long_double(support::decode<Wide>(wide));
      return support::is_finite<Wide>(wide) && (found < 0 ? -found : found) == magnitudes[magnitude];
    };
    Mismatches wrong;
    for (const std::uint32_t pattern : support::sample_bits<Format>()) {
      const auto value = with_pattern<T>(pattern);
      const auto from_float = T(static_cast<float>(value)).bits(), from_double = T(static_cast<double>(value)).bits();
      wrong.expect(is_same(bits_of(static_cast<float>(value)), pattern), [&] { return hex(pattern) + " to float"; });
      wrong.expect(is_same(bits_of(static_cast<double>(value)), pattern), [&] { return hex(pattern) + " to double"; });
      wrong.expect(
          support::same_bits<Format>(from_float, value.bits()) && support::same_bits<Format>(from_double, value.bits()),
          [&] { return hex(pattern) + " and back"; });
    }
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("conversions of narrow values in constant expressions", "[dtype]") {
  support::for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    constexpr T one(1.0F);
    static_assert(static_cast<float>(one) == 1.0F && static_cast<double>(one) == 1.0);
    static_assert(static_cast<int>(one) == 1 && static_cast<bool>(one) && !std::is_constructible_v<long double, decltype(one)>);
    static_assert(T(1) == one && T(1.0) == one && T(static_cast<std::int8_t>(1)) == one);
    static_assert(T::from_bits(one.bits()) == one);
    static_assert(-one == T(-1.0F) && -(-one) == one);
    static_assert((-T(0.0F)).bits() == T::format::sign_mask);
    static_assert(T{}.bits() == 0, "value-initialised is zero");
  });
}

TEST_CASE("comparisons of all kinds of value", "[dtype]") {
  support::for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    // In ascending order, with a rank for each; both zeros have the same.
    struct Placed {
      std::uint32_t bits;
      int place;
    };
    const std::uint32_t sign = Format::sign_mask, largest = Format::largest_finite_bits;
    const std::uint32_t least_normal = Format::mantissa_mask + 1U, inf = Format::has_infinity ? largest + 1 : largest;
    const Placed ordered[] = {{sign | inf, inf > largest ? 0 : 1},
                              {sign | largest, 1},
                              {sign | least_normal, 2},
                              {sign | 2, 3},
                              {sign | 1, 4},
                              {sign, 5},
                              {0, 5},
                              {1, 6},
                              {2, 7},
                              {least_normal, 8},
                              {largest, 9},
                              {inf, inf > largest ? 10 : 9}};
    Mismatches wrong;
    for (const Placed& left : ordered) {
      for (const Placed& right : ordered) {
        const auto a = with_pattern<T>(left.bits), b = with_pattern<T>(right.bits);
        const bool right_answers = (a == b) == (left.place == right.place) && (a != b) == (left.place != right.place) &&
                                   (a < b) == (left.place < right.place) && (a > b) == (left.place > right.place) &&
                                   (a <= b) == (left.place <= right.place) && (a >= b) == (left.place >= right.place);
        wrong.expect(right_answers, [&] { return hex(left.bits) + " and " + hex(right.bits); });
      }
    }
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("NaN is unordered with everything, itself too", "[dtype]") {
  support::for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    Mismatches wrong;
    const auto unordered = [](T a, T b) { return !(a == b) && a != b && !(a < b) && !(a > b) && !(a <= b) && !(a >= b); };
    for (const std::uint32_t pattern : support::sample_bits<Format>()) {
      if (!support::is_nan<Format>(static_cast<typename Format::bits_type>(pattern))) continue;
      const auto nan = with_pattern<T>(pattern);
      for (const std::uint32_t other :
           {pattern, 0U, std::uint32_t{Format::sign_mask}, 0x38U, std::uint32_t{Format::overflow_bits}, 0xFFFFU}) {
        const auto value = with_pattern<T>(other);
        wrong.expect(unordered(nan, value) && unordered(value, nan), [&] { return hex(pattern) + " and " + hex(other); });
      }
    }
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("comparisons of neighbours agree with their bits all the way", "[dtype]") {
  support::for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    Mismatches wrong;
    for (std::uint32_t bits = 0; bits < T::format::smallest_nan_bits - 1U; ++bits) {
      const auto lower = with_pattern<T>(bits), upper = with_pattern<T>(bits + 1);
      wrong.expect(lower < upper && -upper < -lower && lower != upper && -upper <= lower, [&] { return hex(bits); });
    }
    CHECK(wrong.first() == "");
  });
}
