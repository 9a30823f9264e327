#include <headroom/detail/bits.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "support/catch.hpp"

using namespace headroom::detail;

TEST_CASE("bit_cast keeps every bit, at compile time too") {
  static_assert(bit_cast<std::uint32_t>(1.0F) == 0x3F800000U);
  static_assert(bit_cast<double>(std::uint64_t{0x7FF0000000000000U}) == std::numeric_limits<double>::infinity());

  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t bits = random();
    const auto number = bit_cast<double>(bits);
    CHECK(std::memcmp(&number, &bits, sizeof bits) == 0);
    CHECK(bit_cast<std::uint64_t>(number) == bits);
  }
}

TEST_CASE("hide_from_optimizer gives back what it has been given") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    CHECK(bit_cast<std::uint32_t>(hide_from_optimizer(bit_cast<float>(bits))) == bits);
  }
}

TEST_CASE("A double is rounded to float once, ties to even, and the compiler keeps the rounding") {
  static_assert(rounded_to_float(1.0 + 0x1p-24) == 1.0F);             // a tie
  static_assert(rounded_to_float(1.0 + 0x3p-24) == 1.0F + 0x1p-22F);  // the other tie
  const volatile double just_above = 1.0 + 0x1p-24 + 0x1p-52;
  CHECK(rounded_to_float(just_above) == 1.0F + 0x1p-23F);
  CHECK(static_cast<double>(rounded_to_float(just_above)) != just_above);
}
