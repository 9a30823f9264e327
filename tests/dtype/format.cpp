// A user-defined format takes one line.
#include <headroom/dtype/format.hpp>

#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/storage_float.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/own_formats.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace support;

namespace {

/// Six bits in a byte, several NaNs and no Inf. The bits above the sign are unused.
struct e3m2 : float_format<std::uint8_t, 3, 2, 3, 0x1C, false> {};
using float6 = storage_float<e3m2>;

/// Four bits of exponent and three of fraction, from 2^(-bias - 2) to a little less than 2^(16 -
/// bias).
template <int Bias>
constexpr bool fits = detail::fits_float<float_format<std::uint8_t, 4, 3, Bias, 0x7E, false>>();
static_assert(fits<147> && !fits<148>);    // 2^-149 is the smallest float
static_assert(fits<-112> && !fits<-113>);  // 2^127 is the largest power of two
static_assert(detail::fits_float<binary32>() && !detail::fits_float<binary64>());
// 25 digits are too many
static_assert(!detail::fits_float<ieee_format<std::uint32_t, 7, 24>>());

template <class T>
std::string wrong_round_trip() {
  using Format = typename T::format;
  Mismatches wrong;
  for (const auto bits : sample_bits<Format>()) {
    const T value = T::from_bits(bits);
    const auto wide = bits_of(static_cast<double>(value));
    const bool same = same_bits<Format>(T(static_cast<float>(value)).bits(), bits);
    const bool kind = is_finite<Format>(bits) == is_finite<binary64>(wide);
    const bool exact = !is_finite<Format>(bits) || to_long_double(decode<Format>(bits)) ==
                                                       to_long_double(decode<binary64>(wide));
    wrong.expect(same && kind && exact, [&] { return hex(bits); });
  }
  for (const auto& boundary : boundaries<binary64, Format>()) {
    const auto narrow = detail::convert_bits<binary64, Format>(boundary.wide);
    wrong.expect(narrow == boundary.nearest, [&] { return hex(boundary.wide); });
  }
  return wrong.first();
}

}  // namespace

static_assert(binary32::infinity_bits == 0x7F800000 && binary32::largest_finite_bits == 0x7F7FFFFF);
static_assert(binary32::smallest_nan_bits == 0x7F800001 && binary32::quiet_nan_bits == 0x7FC00000);
static_assert(binary64::infinity_bits == 0x7FF0000000000000 &&
              binary64::abs_mask == ~std::uint64_t{0} >> 1);
static_assert(binary64::quiet_nan_bits == 0x7FF8000000000000 && binary64::bias == 1023);

TEST_CASE("a user's own formats in the manner of IEEE 754 and with NaNs alone", "[dtype]") {
  CHECK(wrong_round_trip<own8>() == "");
  CHECK(wrong_round_trip<float6>() == "");
  static_assert(is_dtype_v<own8> && std::is_same_v<detail::format_of<own8>, own_e3m4>);
  static_assert(static_cast<float>(std::numeric_limits<own8>::max()) == 15.5F);
  static_assert(static_cast<float>(std::numeric_limits<own8>::epsilon()) == 0.0625F,
                "a subnormal number");
  static_assert(own8(15.75).bits() == 0x70 && own8(15.75, saturate).bits() == 0x6F);
  static_assert(static_cast<float>(std::numeric_limits<float6>::max()) == 16.0F);
  static_assert(float6(18.0F).bits() == 0x1C && float6(18.5F).bits() == 0x1F &&
                float6(1000, saturate).bits() == 0x1C);
}
