// The 16-bit types.
#include <headroom/dtype/half.hpp>

#include <headroom/headroom.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"

using headroom::as_bfloat16;
using headroom::as_half;
using headroom::bfloat16;
using headroom::binary16;
using headroom::brain16;
using headroom::cb16;
using headroom::cbfloat16;
using headroom::half;
using headroom::span;

namespace {

template <class T>
using sum_t = decltype(T() + T());
template <class Bits>
using Half = decltype(as_half(static_cast<Bits*>(nullptr), 0));
template <class Bits>
using Bfloat16 = decltype(as_bfloat16(static_cast<Bits*>(nullptr), 0));

/// Tests for all of them.
template <class T>
constexpr bool is_storage_of_16_bits() {
  using Limits = std::numeric_limits<T>;
  using Format = typename T::format;
  static_assert(sizeof(T) == 2 && alignof(T) == 2 && std::is_same_v<typename T::bits_type, std::uint16_t>);
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>);
  static_assert(std::is_trivially_destructible_v<T> && std::is_standard_layout_v<T>);
  static_assert(std::is_nothrow_constructible_v<T, float>);
  static_assert(!std::is_convertible_v<float, T> && !std::is_convertible_v<T, float>, "only explicitly");
  static_assert(!headroom::detail::is_detected_v<sum_t, T> && headroom::detail::is_detected_v<sum_t, float>, "no arithmetic");
  static_assert(Limits::is_specialized && Limits::is_signed && !Limits::is_integer && !Limits::is_exact);
  static_assert(Limits::has_infinity && Limits::has_quiet_NaN && Limits::has_signaling_NaN);
  static_assert(Limits::has_denorm == std::denorm_present && !Limits::has_denorm_loss);
  static_assert(Limits::round_style == std::round_to_nearest && Limits::is_iec559 && Limits::is_bounded);
  static_assert(!Limits::is_modulo && Limits::radix == 2 && !Limits::traps && !Limits::tinyness_before);
  static_assert(Limits::lowest() == -Limits::max() && static_cast<float>(Limits::round_error()) == 0.5F);
  static_assert(Limits::infinity().bits() == Format::infinity_bits && Limits::quiet_NaN().bits() == Format::quiet_nan_bits);
  static_assert(support::is_nan<Format>(Limits::signaling_NaN().bits()));
  static_assert((Limits::signaling_NaN().bits() & (Format::mantissa_mask + 1U) / 2) == 0, "the quiet bit is not set");
  static_assert(std::numeric_limits<const T>::digits == Limits::digits, "the standard's own forwarding of const");
  static_assert(T::from_bits(0x1234).bits() == 0x1234);
  return true;
}
static_assert(is_storage_of_16_bits<half>() && is_storage_of_16_bits<bfloat16>() && is_storage_of_16_bits<cbfloat16>());
static_assert(!std::is_same_v<bfloat16, half>);

}  // namespace

// The reference of all other tests relies on these layouts.
static_assert(binary16::sign_mask == 0x8000 && binary16::abs_mask == 0x7FFF && binary16::mantissa_mask == 0x03FF);
static_assert(binary16::infinity_bits == 0x7C00 && binary16::quiet_nan_bits == 0x7E00 && binary16::bias == 15);
static_assert(brain16::sign_mask == 0x8000 && brain16::abs_mask == 0x7FFF && brain16::mantissa_mask == 0x007F);
static_assert(brain16::infinity_bits == 0x7F80 && brain16::quiet_nan_bits == 0x7FC0 && brain16::bias == 127);
static_assert(cb16::sign_mask == 0x8000 && cb16::abs_mask == 0x7FFF && cb16::mantissa_mask == 0x01FF && cb16::bias == 42);
static_assert(cb16::largest_finite_bits == 0x7DFF && cb16::infinity_bits == 0x7E00 && cb16::quiet_nan_bits == 0x7F00);

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

TEST_CASE("cbfloat16: what follows from the assumptions", "[dtype]") {
  static_assert(cbfloat16(6.0F).bits() == 0x5900);
  static_assert(cbfloat16(1.0F).bits() == 0x5400 && cbfloat16(-1.0F).bits() == 0xD400 && cbfloat16(-0.0F).bits() == 0x8000);
  static_assert(cbfloat16(2095104).bits() == 0x7DFF && static_cast<int>(std::numeric_limits<cbfloat16>::max()) == 2095104);
  static_assert(cbfloat16(2096127).bits() == 0x7DFF && cbfloat16(2096128).bits() == 0x7E00, "the tie below 2^21: to Inf");
  static_assert(cbfloat16(2096128, headroom::saturate).bits() == 0x7DFF);
  static_assert(cbfloat16(0x1p-41F).bits() == 0x0200 && cbfloat16(0x1p-50F).bits() == 0x0001);
  static_assert(cbfloat16(0x1p-51F).bits() == 0x0000 && cbfloat16(0x1.000002p-51F).bits() == 0x0001);
  SUCCEED("checked by the compiler");
}

TEST_CASE("numeric_limits of the types of 16 bits", "[dtype]") {
  using Half = std::numeric_limits<half>;
  static_assert(Half::digits == 11 && Half::digits10 == 3 && Half::max_digits10 == 5);
  static_assert(Half::min_exponent == -13 && Half::min_exponent10 == -4);
  static_assert(Half::max_exponent == 16 && Half::max_exponent10 == 4);
  static_assert(static_cast<float>(Half::min()) == 0x1p-14F && static_cast<float>(Half::max()) == 65504.0F);
  static_assert(static_cast<float>(Half::epsilon()) == 0x1p-10F && static_cast<float>(Half::denorm_min()) == 0x1p-24F);

  using Bfloat16 = std::numeric_limits<bfloat16>;
  static_assert(Bfloat16::digits == 8 && Bfloat16::digits10 == 2 && Bfloat16::max_digits10 == 4);
  static_assert(Bfloat16::min_exponent == -125 && Bfloat16::min_exponent10 == -37);
  static_assert(Bfloat16::max_exponent == 128 && Bfloat16::max_exponent10 == 38);
  static_assert(static_cast<float>(Bfloat16::min()) == 0x1p-126F && static_cast<float>(Bfloat16::max()) == 0x1.fep127F);
  static_assert(static_cast<float>(Bfloat16::epsilon()) == 0x1p-7F && static_cast<double>(Bfloat16::denorm_min()) == 0x1p-133);

  using Cbfloat16 = std::numeric_limits<cbfloat16>;
  static_assert(Cbfloat16::digits == 10 && Cbfloat16::digits10 == 2 && Cbfloat16::max_digits10 == 5);
  static_assert(Cbfloat16::min_exponent == -40 && Cbfloat16::min_exponent10 == -12);
  static_assert(Cbfloat16::max_exponent == 21 && Cbfloat16::max_exponent10 == 6);
  static_assert(static_cast<float>(Cbfloat16::min()) == 0x1p-41F && static_cast<float>(Cbfloat16::denorm_min()) == 0x1p-50F);
  static_assert(static_cast<float>(Cbfloat16::epsilon()) == 0x1p-9F);
  SUCCEED("checked by the compiler");
}

static_assert(std::is_same_v<Half<std::uint16_t>, span<half>> && std::is_same_v<Half<const std::uint16_t>, span<const half>>);
static_assert(std::is_same_v<Half<void>, span<half>> && std::is_same_v<Half<const void>, span<const half>>);
static_assert(std::is_same_v<Bfloat16<std::uint16_t>, span<bfloat16>> &&
              std::is_same_v<Bfloat16<const std::uint16_t>, span<const bfloat16>>);
static_assert(std::is_same_v<Bfloat16<void>, span<bfloat16>> && std::is_same_v<Bfloat16<const void>, span<const bfloat16>>);

TEST_CASE("bits kept as integers are unscaled where they lie") {
  std::vector<std::uint16_t> bits = {half(8.0F).bits(), half(-2.0F).bits(), half(1.0F).bits()};
  const headroom::ConstantLossScale two(2.0F);
  CHECK(two.unscale_in_place<headroom::allow_fp16_gradients>(as_half(bits.data(), 2)).max_abs == 4.0);
  CHECK(bits == std::vector<std::uint16_t>{half(4.0F).bits(), half(-1.0F).bits(), half(1.0F).bits()});
  CHECK(headroom::measure(as_half(std::as_const(bits).data(), 3)).max_abs == 4.0);
  bits[1] = 0x7c00;
  CHECK_FALSE(headroom::all_finite(as_half(bits.data(), 3)));
  CHECK(headroom::all_finite(as_bfloat16(bits.data(), 3)));
  CHECK(headroom::cast<float>(as_bfloat16(bits.data(), 1))[0] == static_cast<float>(bfloat16::from_bits(bits[0])));
  CHECK(as_half(bits.data(), 3)[2] == half(1.0F));
}

TEST_CASE("bits behind a pointer to void, at any address") {
  alignas(2) unsigned char bytes[5] = {};
  const std::uint16_t bits[] = {half(8.0F).bits(), half(-2.0F).bits()};
  std::memcpy(bytes + 1, bits, sizeof bits);
  void* const data = bytes + 1;
  CHECK(headroom::ConstantLossScale(2.0F).unscale<float>(as_half(data, 2)).grads == std::vector<float>{4.0F, -1.0F});
  headroom::ConstantLossScale(2.0F).scale_in_place(as_half(data, 2));
  const void* const read_only = data;
  CHECK(headroom::measure(as_half(read_only, 2)).max_abs == 16.0);
  CHECK(as_half(data, 0).empty());
}
