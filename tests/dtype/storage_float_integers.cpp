#include <headroom/dtype/half.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/reference.hpp"

using namespace headroom;
using namespace support;

namespace {

/// Converts the magnitude and its negative, if Integer has them.
template <class T, class Integer>
bool becomes(std::uint64_t magnitude, std::uint32_t expected) {
  if (magnitude > static_cast<std::uint64_t>(std::numeric_limits<Integer>::max())) return true;
  const auto negative = static_cast<Integer>(0 - magnitude);
  const std::uint32_t negated = magnitude == 0 ? 0 : expected | T::format::sign_mask;
  return T(static_cast<Integer>(magnitude)).bits() == expected &&
         (!std::is_signed_v<Integer> || T(negative).bits() == negated);
}
template <class T>
bool all_become(std::uint64_t magnitude, std::uint32_t expected) {
  return becomes<T, std::int8_t>(magnitude, expected) &&
         becomes<T, std::uint16_t>(magnitude, expected) && becomes<T, int>(magnitude, expected) &&
         becomes<T, std::uint64_t>(magnitude, expected) &&
         becomes<T, std::int64_t>(magnitude, expected);
}

}  // namespace

TEST_CASE("integers of every width become the nearest value, ties to even", "[dtype]") {
  for_each_storage_float([](auto type) {
    using T = typename decltype(type)::type;
    using Format = typename T::format;
    Mismatches wrong;
    for (std::uint32_t lower = 0; lower <= Format::largest_finite_bits; ++lower) {
      const Number number = decode<Format>(static_cast<typename Format::bits_type>(lower));
      const int half_unit = number.exponent - 1;  // as a power of two
      if (half_unit < 0 || half_unit + Format::mantissa_bits + 2 > 64) continue;
      const std::uint64_t middle = (2 * std::uint64_t{number.significand} + 1) << half_unit;
      const bool right = all_become<T>(middle, lower + lower % 2) &&
                         all_become<T>(middle - 1, lower) && all_become<T>(middle + 1, lower + 1) &&
                         all_become<T>(middle & (middle - 1), lower);
      wrong.expect(right, [&] { return hex(lower); });
    }
    for (std::uint32_t small = 0; small < 256; ++small) {
      const std::uint32_t expected = T(static_cast<float>(small)).bits();
      wrong.expect(all_become<T>(small, expected), [&] { return std::to_string(small); });
    }
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("the largest and the least integers", "[dtype]") {
  CHECK((half(65519).bits() == 0x7BFF && half(65520).bits() == 0x7C00));
  CHECK(half(std::numeric_limits<std::int64_t>::min()).bits() == 0xFC00);
  CHECK(bfloat16(std::numeric_limits<std::int64_t>::min()).bits() == 0xDF00);
  CHECK(bfloat16(std::numeric_limits<std::uint64_t>::max()).bits() == 0x5F80);
  CHECK(bfloat16(true).bits() == 0x3F80);
}

static_assert(!std::is_constructible_v<half, long double>);
#if defined(__SIZEOF_INT128__)
__extension__ typedef __int128 widest;
static_assert(!std::is_constructible_v<half, widest>);
#endif
