#include <headroom/dtype/half.hpp>

#include <limits>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"

using headroom::cb16;
using headroom::cbfloat16;

static_assert(cb16::sign_mask == 0x8000 && cb16::abs_mask == 0x7FFF && cb16::mantissa_mask == 0x01FF && cb16::bias == 42);
static_assert(cb16::largest_finite_bits == 0x7DFF && cb16::infinity_bits == 0x7E00 && cb16::quiet_nan_bits == 0x7F00);
static_assert(sizeof(cbfloat16) == 2 && std::is_trivially_copyable_v<cbfloat16>);

TEST_CASE("cbfloat16: what is published of it, and what follows from the assumptions", "[dtype]") {
  static_assert(cbfloat16(6.0F).bits() == 0x5900, "Cerebras' own example");
  static_assert(cbfloat16(1.0F).bits() == 0x5400 && cbfloat16(-1.0F).bits() == 0xD400 && cbfloat16(-0.0F).bits() == 0x8000);
  static_assert(cbfloat16(2095104).bits() == 0x7DFF && static_cast<int>(std::numeric_limits<cbfloat16>::max()) == 2095104);
  static_assert(cbfloat16(2096127).bits() == 0x7DFF && cbfloat16(2096128).bits() == 0x7E00, "the tie below 2^21: to Inf");
  static_assert(cbfloat16(2096128, headroom::saturate).bits() == 0x7DFF);
  static_assert(cbfloat16(0x1p-41F).bits() == 0x0200 && cbfloat16(0x1p-50F).bits() == 0x0001);
  static_assert(cbfloat16(0x1p-51F).bits() == 0x0000 && cbfloat16(0x1.000002p-51F).bits() == 0x0001);
  SUCCEED("checked by the compiler");
}

TEST_CASE("cbfloat16: numeric_limits", "[dtype]") {
  using Limits = std::numeric_limits<cbfloat16>;
  static_assert(Limits::digits == 10 && Limits::digits10 == 2 && Limits::max_digits10 == 5 && Limits::has_infinity);
  static_assert(Limits::min_exponent == -40 && Limits::min_exponent10 == -12);
  static_assert(Limits::max_exponent == 21 && Limits::max_exponent10 == 6);
  static_assert(static_cast<float>(Limits::min()) == 0x1p-41F && static_cast<float>(Limits::denorm_min()) == 0x1p-50F);
  static_assert(static_cast<float>(Limits::epsilon()) == 0x1p-9F);
  SUCCEED("checked by the compiler");
}
