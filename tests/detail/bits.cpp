#include <headroom/detail/bits.hpp>

#include "support/catch.hpp"

using headroom::detail::rounded_to_float;

TEST_CASE("A double is rounded to float once, ties to even, and the compiler keeps the rounding") {
  static_assert(rounded_to_float(1.0 + 0x1p-24) == 1.0F);             // a tie
  static_assert(rounded_to_float(1.0 + 0x3p-24) == 1.0F + 0x1p-22F);  // the other tie
  const volatile double just_above = 1.0 + 0x1p-24 + 0x1p-52;
  CHECK(rounded_to_float(just_above) == 1.0F + 0x1p-23F);
  CHECK(static_cast<double>(rounded_to_float(just_above)) != just_above);
}
