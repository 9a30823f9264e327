#include <headroom/dtype/half.hpp>

#include <limits>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"

using headroom::bfloat16;
using headroom::brain16;

static_assert(brain16::sign_mask == 0x8000 && brain16::abs_mask == 0x7FFF && brain16::mantissa_mask == 0x007F);
static_assert(brain16::infinity_bits == 0x7F80 && brain16::quiet_nan_bits == 0x7FC0 && brain16::bias == 127);

static_assert(sizeof(bfloat16) == 2 && alignof(bfloat16) == 2);
static_assert(std::is_trivially_copyable_v<bfloat16> && std::is_trivially_default_constructible_v<bfloat16>);
static_assert(std::is_trivially_destructible_v<bfloat16> && std::is_standard_layout_v<bfloat16>);
static_assert(std::is_same_v<bfloat16::format, brain16> && std::is_same_v<bfloat16::bits_type, std::uint16_t>);
static_assert(!std::is_same_v<bfloat16, headroom::half>);

TEST_CASE("bfloat16: numbers that every table of bf16 lists", "[dtype]") {
  static_assert(bfloat16(0.0F).bits() == 0x0000);
  static_assert(bfloat16(-0.0F).bits() == 0x8000);
  static_assert(bfloat16(1.0F).bits() == 0x3F80);
  static_assert(bfloat16(-2.0F).bits() == 0xC000);
  static_assert(bfloat16(0x1.92p1F).bits() == 0x4049, "pi");
  static_assert(bfloat16(1.0F / 3.0F).bits() == 0x3EAB);
  static_assert(bfloat16(0x1p-133F).bits() == 0x0001);
  static_assert(bfloat16(0x1p-126F).bits() == 0x0080);
  static_assert(static_cast<float>(bfloat16::from_bits(0x7F7F)) == 0x1.fep127F);
  static_assert(static_cast<double>(bfloat16::from_bits(0x0001)) == 0x1p-133);
  static_assert(bfloat16::from_bits(0x1234).bits() == 0x1234);
  SUCCEED("checked by the compiler");
}

TEST_CASE("bfloat16: ties, underflow and overflow", "[dtype]") {
  static_assert(bfloat16(0x1.01p0F).bits() == 0x3F80, "a tie: to even, down");
  static_assert(bfloat16(0x1.03p0F).bits() == 0x3F82, "a tie: to even, up");
  static_assert(bfloat16(0x1.010002p0F).bits() == 0x3F81);
  static_assert(bfloat16(0x1p-134F).bits() == 0x0000, "half of the least subnormal: to zero");
  static_assert(bfloat16(-0x1p-134F).bits() == 0x8000);
  static_assert(bfloat16(0x1.8p-133F).bits() == 0x0002);
  static_assert(bfloat16(0x1.fefffep127F).bits() == 0x7F7F);
  static_assert(bfloat16(0x1.ffp127F).bits() == 0x7F80, "the tie above the largest finite value: to Inf");
  static_assert(bfloat16(std::numeric_limits<float>::max()).bits() == 0x7F80);
  static_assert(bfloat16(-1e300).bits() == 0xFF80);
  static_assert(bfloat16(257).bits() == 0x4380 && bfloat16(259).bits() == 0x4382, "integers are rounded too: 256 and 260");
  SUCCEED("checked by the compiler");
}

TEST_CASE("bfloat16: numeric_limits", "[dtype]") {
  using Limits = std::numeric_limits<bfloat16>;
  static_assert(Limits::is_specialized && Limits::is_signed && !Limits::is_integer && !Limits::is_exact);
  static_assert(Limits::has_infinity && Limits::has_quiet_NaN && Limits::has_signaling_NaN);
  static_assert(Limits::has_denorm == std::denorm_present && !Limits::has_denorm_loss);
  static_assert(Limits::round_style == std::round_to_nearest);
  static_assert(Limits::is_iec559 && Limits::is_bounded && !Limits::is_modulo);
  static_assert(Limits::radix == 2 && Limits::digits == 8 && Limits::digits10 == 2 && Limits::max_digits10 == 4);
  static_assert(Limits::min_exponent == -125 && Limits::min_exponent10 == -37);
  static_assert(Limits::max_exponent == 128 && Limits::max_exponent10 == 38);
  static_assert(!Limits::traps && !Limits::tinyness_before);
  static_assert(static_cast<float>(Limits::min()) == 0x1p-126F);
  static_assert(static_cast<float>(Limits::max()) == 0x1.fep127F);
  static_assert(static_cast<float>(Limits::lowest()) == -0x1.fep127F);
  static_assert(static_cast<float>(Limits::epsilon()) == 0x1p-7F);
  static_assert(static_cast<float>(Limits::round_error()) == 0.5F);
  static_assert(static_cast<double>(Limits::denorm_min()) == 0x1p-133);
  static_assert(Limits::infinity().bits() == 0x7F80);
  static_assert(Limits::quiet_NaN().bits() == 0x7FC0);
  static_assert(support::is_nan<brain16>(Limits::signaling_NaN().bits()));
  static_assert((Limits::signaling_NaN().bits() & 0x0040) == 0, "the quiet bit is not set");
  static_assert(std::numeric_limits<const bfloat16>::digits == 8, "the standard's own forwarding of const");
  SUCCEED("checked by the compiler");
}
