#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/half.hpp>

#include <cstdint>
#include <type_traits>

#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif

#include "support/bits.hpp"
#include "support/catch.hpp"

namespace {

/// A 16-bit float of a library that knows nothing of headroom.
struct ForeignHalf {
  std::uint16_t stored;
};
struct ForeignDouble {
  std::uint32_t words[2];
};
struct NotANumber {
  float x, y;
};

}  // namespace

template <>
struct headroom::dtype_traits<ForeignHalf> {
  using format = headroom::binary16;
};
template <>
struct headroom::dtype_traits<ForeignDouble> {
  using format = headroom::binary64;
};

using headroom::is_dtype_v;
using headroom::detail::format_of;
using headroom::detail::to_float;

// The formats of headroom's own types and the language's.
static_assert(std::is_same_v<format_of<headroom::half>, headroom::binary16>);
static_assert(std::is_same_v<format_of<headroom::bfloat16>, headroom::brain16>);
static_assert(std::is_same_v<format_of<float>, headroom::binary32>);
static_assert(std::is_same_v<format_of<double>, headroom::binary64>);
static_assert(is_dtype_v<headroom::half> && is_dtype_v<headroom::bfloat16> && is_dtype_v<float> && is_dtype_v<double>);
static_assert(is_dtype_v<const float> && is_dtype_v<const headroom::half> && is_dtype_v<volatile double>);
static_assert(std::is_same_v<format_of<const headroom::bfloat16>, headroom::brain16>);

// What is no element type.
static_assert(!is_dtype_v<long double>, "there are no kernels for it");
static_assert(!is_dtype_v<int> && !is_dtype_v<std::uint16_t> && !is_dtype_v<bool> && !is_dtype_v<char>);
static_assert(!is_dtype_v<float*> && !is_dtype_v<float&> && !is_dtype_v<float[2]> && !is_dtype_v<NotANumber> &&
              !is_dtype_v<void>);

TEST_CASE("a user's own type becomes an element type by one specialisation", "[dtype]") {
  static_assert(is_dtype_v<ForeignHalf> && is_dtype_v<const ForeignHalf> && is_dtype_v<ForeignDouble>);
  static_assert(std::is_same_v<format_of<const ForeignHalf>, headroom::binary16>);
  static_assert(to_float(ForeignHalf{0x3C00}) == 1.0F);
  CHECK(to_float(ForeignHalf{0xC500}) == -5.0F);
}

TEST_CASE("any element type up to 32 bits as float", "[dtype]") {
  static_assert(to_float(headroom::half(0.5F)) == 0.5F && to_float(headroom::bfloat16(-0.5F)) == -0.5F &&
                to_float(3.0F) == 3.0F);
  CHECK(support::bits_of(to_float(headroom::half::from_bits(0x0001))) == support::bits_of(0x1p-24F));
  CHECK(support::bits_of(to_float(headroom::bfloat16::from_bits(0x0001))) == 0x00010000);
}

#if HEADROOM_DETAIL_HAS_FLOAT16
TEST_CASE("T12: _Float16 is the same format as half", "[dtype]") {
  static_assert(std::is_same_v<format_of<_Float16>, headroom::binary16> && is_dtype_v<const _Float16>);
  const _Float16 theirs = static_cast<_Float16>(1.5F);
  CHECK(support::bits_of(theirs) == headroom::half(1.5F).bits());
  CHECK(to_float(theirs) == 1.5F);
}
#endif

#if HEADROOM_DETAIL_HAS_BF16
TEST_CASE("T12: __bf16 is the same format as bfloat16", "[dtype]") {
  static_assert(std::is_same_v<format_of<__bf16>, headroom::brain16> && is_dtype_v<const __bf16>);
  __bf16 theirs;
  support::set_bits(theirs, headroom::bfloat16(1.5F).bits());
  CHECK(to_float(theirs) == 1.5F);
}
#endif

#if defined(__STDCPP_FLOAT16_T__)
TEST_CASE("std::float16_t is recognised", "[dtype]") {
  static_assert(std::is_same_v<format_of<std::float16_t>, headroom::binary16>);
  CHECK(to_float(static_cast<std::float16_t>(1.5F)) == 1.5F);
}
#endif
#if defined(__STDCPP_BFLOAT16_T__)
TEST_CASE("std::bfloat16_t is recognised", "[dtype]") {
  static_assert(std::is_same_v<format_of<std::bfloat16_t>, headroom::brain16>);
  CHECK(to_float(static_cast<std::bfloat16_t>(1.5F)) == 1.5F);
}
#endif
