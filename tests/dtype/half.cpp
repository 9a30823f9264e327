#include <headroom/dtype/half.hpp>

#include <headroom/detail/detect.hpp>

#include <limits>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"

using headroom::binary16;
using headroom::half;

template <class T>
using sum_t = decltype(T() + T());

// The layout that the reference of all other tests is built on.
static_assert(binary16::sign_mask == 0x8000 && binary16::abs_mask == 0x7FFF && binary16::mantissa_mask == 0x03FF);
static_assert(binary16::infinity_bits == 0x7C00 && binary16::quiet_nan_bits == 0x7E00 && binary16::bias == 15);

static_assert(sizeof(half) == 2 && alignof(half) == 2);
static_assert(std::is_trivially_copyable_v<half> && std::is_trivially_default_constructible_v<half>);
static_assert(std::is_trivially_destructible_v<half> && std::is_standard_layout_v<half>);
static_assert(std::is_same_v<half::format, binary16> && std::is_same_v<half::bits_type, std::uint16_t>);
static_assert(std::is_nothrow_constructible_v<half, float>);
static_assert(!std::is_convertible_v<float, half> && !std::is_convertible_v<half, float>, "only explicitly");
static_assert(!headroom::detail::is_detected_v<sum_t, half> && headroom::detail::is_detected_v<sum_t, float>, "no arithmetic");

TEST_CASE("half: numbers that every table of fp16 lists", "[dtype]") {
  static_assert(half(0.0F).bits() == 0x0000);
  static_assert(half(-0.0F).bits() == 0x8000);
  static_assert(half(1.0F).bits() == 0x3C00);
  static_assert(half(-2.0F).bits() == 0xC000);
  static_assert(half(0x1p-24F).bits() == 0x0001);
  static_assert(half(0x1p-14F).bits() == 0x0400);
  static_assert(half(0x1.ff8p-15F).bits() == 0x03FF);
  static_assert(half(65504.0F).bits() == 0x7BFF);
  static_assert(half(1.0F / 3.0F).bits() == 0x3555);
  static_assert(static_cast<float>(half::from_bits(0x3555)) == 0x1.554p-2F);
  static_assert(static_cast<double>(half::from_bits(0x0001)) == 0x1p-24);
  static_assert(static_cast<float>(half::from_bits(0xFBFF)) == -65504.0F);
  static_assert(half::from_bits(0x1234).bits() == 0x1234);
  SUCCEED("checked by the compiler");
}

TEST_CASE("half: the edges of underflow and overflow", "[dtype]") {
  static_assert(half(0x1p-25F).bits() == 0x0000, "half of the least subnormal is a tie: to zero, which is even");
  static_assert(half(-0x1p-25F).bits() == 0x8000, "and keeps its sign");
  static_assert(half(0x1.000002p-25F).bits() == 0x0001);
  static_assert(half(0x1.8p-24F).bits() == 0x0002, "a tie between 1 and 2 units: to 2");
  static_assert(half(0x1.ffcp-15F).bits() == 0x0400, "a tie between the last subnormal and the first normal number");
  static_assert(half(65519.0F).bits() == 0x7BFF);
  static_assert(half(0x1.ffdffep15F).bits() == 0x7BFF, "the last float below 65520");
  static_assert(half(65520.0F).bits() == 0x7C00, "the tie above the largest finite value: to Inf");
  static_assert(half(-65520.0F).bits() == 0xFC00);
  static_assert(half(1e300).bits() == 0x7C00);
  static_assert(half(1e-300).bits() == 0x0000);
  static_assert(half(2049).bits() == 0x6800 && half(2051).bits() == 0x6802, "integers are rounded too: 2048 and 2052");
  SUCCEED("checked by the compiler");
}

TEST_CASE("half: numeric_limits", "[dtype]") {
  using Limits = std::numeric_limits<half>;
  static_assert(Limits::is_specialized && Limits::is_signed && !Limits::is_integer && !Limits::is_exact);
  static_assert(Limits::has_infinity && Limits::has_quiet_NaN && Limits::has_signaling_NaN);
  static_assert(Limits::has_denorm == std::denorm_present && !Limits::has_denorm_loss);
  static_assert(Limits::round_style == std::round_to_nearest);
  static_assert(Limits::is_iec559 && Limits::is_bounded && !Limits::is_modulo);
  static_assert(Limits::radix == 2 && Limits::digits == 11 && Limits::digits10 == 3 && Limits::max_digits10 == 5);
  static_assert(Limits::min_exponent == -13 && Limits::min_exponent10 == -4);
  static_assert(Limits::max_exponent == 16 && Limits::max_exponent10 == 4);
  static_assert(!Limits::traps && !Limits::tinyness_before);
  static_assert(static_cast<float>(Limits::min()) == 0x1p-14F);
  static_assert(static_cast<float>(Limits::max()) == 65504.0F);
  static_assert(static_cast<float>(Limits::lowest()) == -65504.0F);
  static_assert(static_cast<float>(Limits::epsilon()) == 0x1p-10F);
  static_assert(static_cast<float>(Limits::round_error()) == 0.5F);
  static_assert(static_cast<float>(Limits::denorm_min()) == 0x1p-24F);
  static_assert(Limits::infinity().bits() == 0x7C00);
  static_assert(Limits::quiet_NaN().bits() == 0x7E00);
  static_assert(support::is_nan<binary16>(Limits::signaling_NaN().bits()));
  static_assert((Limits::signaling_NaN().bits() & 0x0200) == 0, "the quiet bit is not set");
  static_assert(std::numeric_limits<const half>::digits == 11, "the standard's own forwarding of const");
  SUCCEED("checked by the compiler");
}
