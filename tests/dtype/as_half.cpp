// 16-bit floats whose bits are kept as integers.
#include <headroom/dtype/half.hpp>

#include <headroom/headroom.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

using headroom::as_bfloat16;
using headroom::as_half;
using headroom::bfloat16;
using headroom::half;
using headroom::span;

namespace {

template <class Bits>
using Half = decltype(as_half(static_cast<Bits*>(nullptr), 0));
template <class Bits>
using Bfloat16 = decltype(as_bfloat16(static_cast<Bits*>(nullptr), 0));

}  // namespace

static_assert(std::is_same_v<Half<std::uint16_t>, span<half>> && std::is_same_v<Half<const std::uint16_t>, span<const half>>);
static_assert(std::is_same_v<Half<void>, span<half>> && std::is_same_v<Half<const void>, span<const half>>);
static_assert(std::is_same_v<Bfloat16<std::uint16_t>, span<bfloat16>> &&
              std::is_same_v<Bfloat16<const std::uint16_t>, span<const bfloat16>>);
static_assert(std::is_same_v<Bfloat16<void>, span<bfloat16>> && std::is_same_v<Bfloat16<const void>, span<const bfloat16>>);

TEST_CASE("bits kept as integers are unscaled where they lie") {
  std::vector<std::uint16_t> bits = {half(8.0F).bits(), half(-2.0F).bits(), half(1.0F).bits()};
  const headroom::ConstantLossScale two(2.0F);
  CHECK(two.unscale_in_place(as_half(bits.data(), 2)).max_abs == 4.0);
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
