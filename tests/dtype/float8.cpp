#include <headroom/dtype/float8.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"

using headroom::e4m3;
using headroom::e5m2;
using headroom::float8_e4m3;
using headroom::float8_e5m2;
using headroom::saturate;

// The reference of all other tests relies on this layout: table 1 of the OCP OFP8 specification.
static_assert(e4m3::sign_mask == 0x80 && e4m3::abs_mask == 0x7F && e4m3::mantissa_mask == 0x07 && e4m3::bias == 7);
static_assert(e4m3::largest_finite_bits == 0x7E && !e4m3::has_infinity && e4m3::smallest_nan_bits == 0x7F);
static_assert(e4m3::quiet_nan_bits == 0x7F && e4m3::overflow_bits == 0x7F);
static_assert(e5m2::sign_mask == 0x80 && e5m2::abs_mask == 0x7F && e5m2::mantissa_mask == 0x03 && e5m2::bias == 15);
static_assert(e5m2::largest_finite_bits == 0x7B && e5m2::has_infinity && e5m2::infinity_bits == 0x7C);
static_assert(e5m2::smallest_nan_bits == 0x7D && e5m2::quiet_nan_bits == 0x7E && e5m2::overflow_bits == 0x7C);

static_assert(sizeof(float8_e4m3) == 1 && alignof(float8_e4m3) == 1 && sizeof(float8_e5m2) == 1);
static_assert(std::is_trivially_copyable_v<float8_e4m3> && std::is_trivially_default_constructible_v<float8_e4m3>);
static_assert(std::is_standard_layout_v<float8_e5m2> && std::is_same_v<float8_e5m2::bits_type, std::uint8_t>);
static_assert(!std::is_same_v<float8_e4m3, float8_e5m2>);

TEST_CASE("float8_e4m3: the numbers of the OCP specification", "[dtype]") {
  static_assert(float8_e4m3(0.0F).bits() == 0x00 && float8_e4m3(-0.0F).bits() == 0x80);
  static_assert(float8_e4m3(1.0F).bits() == 0x38 && float8_e4m3(-2.0F).bits() == 0xC0);
  static_assert(float8_e4m3(448.0F).bits() == 0x7E && float8_e4m3(-448.0F).bits() == 0xFE);
  static_assert(float8_e4m3(0x1p-6F).bits() == 0x08, "the smallest normal number");
  static_assert(float8_e4m3(0.875F * 0x1p-6F).bits() == 0x07, "the largest subnormal number");
  static_assert(float8_e4m3(0x1p-9F).bits() == 0x01, "the smallest subnormal number");
  static_assert(static_cast<float>(float8_e4m3::from_bits(0x78)) == 256.0F, "the highest exponent holds numbers");
  CHECK(support::bits_of(static_cast<float>(float8_e4m3::from_bits(0x7F))) == 0x7FC00000U);
  CHECK(support::bits_of(static_cast<float>(float8_e4m3::from_bits(0xFF))) == 0xFFC00000U);
}

TEST_CASE("float8_e4m3: ties, underflow and overflow", "[dtype]") {
  static_assert(float8_e4m3(0x1p-10F).bits() == 0x00 && float8_e4m3(-0x1p-10F).bits() == 0x80, "a tie: to zero");
  static_assert(float8_e4m3(0x1.000002p-10F).bits() == 0x01 && float8_e4m3(0x1.8p-9F).bits() == 0x02);
  static_assert(float8_e4m3(464.0F).bits() == 0x7E, "the tie between 448 and the value after it, which is odd");
  static_assert(float8_e4m3(0x1.d00002p8F).bits() == 0x7F && float8_e4m3(-0x1.d00002p8F).bits() == 0xFF,
                "NaN: there is no Inf");
  static_assert(float8_e4m3(480).bits() == 0x7F && float8_e4m3(512).bits() == 0x7F && float8_e4m3(-1e300).bits() == 0xFF);
  static_assert(float8_e4m3(0x1.d00002p8F, saturate).bits() == 0x7E && float8_e4m3(-1e300, saturate).bits() == 0xFE);
  SUCCEED("checked by the compiler");
}

TEST_CASE("float8_e5m2: the numbers of the OCP specification", "[dtype]") {
  static_assert(float8_e5m2(1.0F).bits() == 0x3C && float8_e5m2(-2.0F).bits() == 0xC0 && float8_e5m2(-0.0F).bits() == 0x80);
  static_assert(float8_e5m2(57344.0F).bits() == 0x7B && float8_e5m2(0x1p-14F).bits() == 0x04);
  static_assert(float8_e5m2(0.75F * 0x1p-14F).bits() == 0x03 && float8_e5m2(0x1p-16F).bits() == 0x01);
  static_assert(float8_e5m2(0x1p-17F).bits() == 0x00 && float8_e5m2(0x1.000002p-17F).bits() == 0x01);
  static_assert(float8_e5m2(0x1.dffffep15F).bits() == 0x7B && float8_e5m2(61440.0F).bits() == 0x7C, "a tie, to even: Inf");
  static_assert(float8_e5m2(61440.0F, saturate).bits() == 0x7B && float8_e5m2(-1e300).bits() == 0xFC);
  SUCCEED("checked by the compiler");
}

TEST_CASE("float8: numeric_limits", "[dtype]") {
  using E4m3 = std::numeric_limits<float8_e4m3>;
  using E5m2 = std::numeric_limits<float8_e5m2>;
  static_assert(E4m3::is_specialized && E4m3::is_signed && !E4m3::is_integer && !E4m3::is_exact && E4m3::is_bounded);
  static_assert(!E4m3::has_infinity && E4m3::has_quiet_NaN && !E4m3::has_signaling_NaN && !E4m3::is_iec559);
  static_assert(E5m2::has_infinity && E5m2::has_quiet_NaN && E5m2::has_signaling_NaN && E5m2::is_iec559);
  static_assert(E4m3::radix == 2 && E4m3::digits == 4 && E4m3::digits10 == 0 && E4m3::max_digits10 == 3);
  static_assert(E5m2::radix == 2 && E5m2::digits == 3 && E5m2::digits10 == 0 && E5m2::max_digits10 == 2);
  static_assert(E4m3::min_exponent == -5 && E4m3::min_exponent10 == -1 && E4m3::max_exponent == 9 && E4m3::max_exponent10 == 2);
  static_assert(E5m2::min_exponent == -13 && E5m2::min_exponent10 == -4);
  static_assert(E5m2::max_exponent == 16 && E5m2::max_exponent10 == 4);
  static_assert(E4m3::min().bits() == 0x08 && E4m3::max().bits() == 0x7E && E4m3::lowest().bits() == 0xFE);
  static_assert(E5m2::min().bits() == 0x04 && E5m2::max().bits() == 0x7B && E5m2::lowest().bits() == 0xFB);
  static_assert(static_cast<float>(E4m3::epsilon()) == 0.125F && static_cast<float>(E5m2::epsilon()) == 0.25F);
  static_assert(static_cast<float>(E4m3::denorm_min()) == 0x1p-9F && static_cast<float>(E5m2::denorm_min()) == 0x1p-16F);
  static_assert(E4m3::infinity().bits() == 0x7F && E5m2::infinity().bits() == 0x7C);
  static_assert(E4m3::quiet_NaN().bits() == 0x7F && E5m2::quiet_NaN().bits() == 0x7E && E5m2::signaling_NaN().bits() == 0x7D);
  static_assert(static_cast<float>(E4m3::round_error()) == 0.5F);
  SUCCEED("checked by the compiler");
}
