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
  using format = binary16;
};
template <>
struct headroom::dtype_traits<ForeignDouble> {
  using format = binary64;
};

using namespace headroom;
using namespace headroom::detail;
using namespace support;

// The formats of headroom's own types and the language's.
static_assert(std::is_same_v<format_of<half>, binary16>);
static_assert(std::is_same_v<format_of<bfloat16>, brain16>);
static_assert(std::is_same_v<format_of<float>, binary32>);
static_assert(std::is_same_v<format_of<double>, binary64>);
static_assert(is_dtype_v<half> && is_dtype_v<bfloat16> && is_dtype_v<float> && is_dtype_v<double>);
static_assert(is_dtype_v<const float> && is_dtype_v<const half> && is_dtype_v<volatile double>);
static_assert(std::is_same_v<format_of<const bfloat16>, brain16>);

// What is no element type.
static_assert(!is_dtype_v<long double>, "there are no kernels for it");
static_assert(!is_dtype_v<int> && !is_dtype_v<std::uint16_t> && !is_dtype_v<bool> &&
              !is_dtype_v<char>);
static_assert(!is_dtype_v<float*> && !is_dtype_v<float&> && !is_dtype_v<float[2]> &&
              !is_dtype_v<NotANumber> && !is_dtype_v<void>);

TEST_CASE("a user's own type becomes an element type by one specialisation", "[dtype]") {
  static_assert(is_dtype_v<ForeignHalf> && is_dtype_v<const ForeignHalf> &&
                is_dtype_v<ForeignDouble>);
  static_assert(std::is_same_v<format_of<const ForeignHalf>, binary16>);
  static_assert(to_float(ForeignHalf{0x3C00}) == 1.0F);
  CHECK(to_float(ForeignHalf{0xC500}) == -5.0F);
}

TEST_CASE("any element type up to 32 bits as float", "[dtype]") {
  static_assert(to_float(half(0.5F)) == 0.5F && to_float(bfloat16(-0.5F)) == -0.5F &&
                to_float(3.0F) == 3.0F);
  CHECK(bits_of(to_float(half::from_bits(0x0001))) == bits_of(0x1p-24F));
  CHECK(bits_of(to_float(bfloat16::from_bits(0x0001))) == 0x00010000);
}

// T12: types of the language that some compilers have.
template <class T, class Format>
void check_language_type(std::uint16_t one_and_a_half) {
  static_assert(std::is_same_v<format_of<T>, Format> && is_dtype_v<const T>);
  T theirs;
  set_bits(theirs, one_and_a_half);
  CHECK(to_float(theirs) == 1.5F);
}
TEST_CASE("T12: types of the language have the formats of half and bfloat16", "[dtype]") {
  [[maybe_unused]] const auto half = headroom::half(1.5F).bits(),
                              bfloat16 = headroom::bfloat16(1.5F).bits();
#if HEADROOM_DETAIL_HAS_FLOAT16
  check_language_type<_Float16, binary16>(half);
#endif
#if HEADROOM_DETAIL_HAS_BF16
  check_language_type<__bf16, brain16>(bfloat16);
#endif
#if defined(__STDCPP_FLOAT16_T__)
  check_language_type<std::float16_t, binary16>(half);
#endif
#if defined(__STDCPP_BFLOAT16_T__)
  check_language_type<std::bfloat16_t, brain16>(bfloat16);
#endif
}
