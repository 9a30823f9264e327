// The types of 16 and 8 bits: their layouts, the numbers that every table lists, numeric_limits;
// bits that are kept as integers.
#include <headroom/dtype/half.hpp>

#include <headroom/headroom.hpp>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"

using namespace support;
using namespace headroom;

namespace {

template <class T>
using sum_t = decltype(T() + T());

template <class T>
constexpr bool is_storage() {
  using Limits = std::numeric_limits<T>;
  using Format = typename T::format;
  static_assert(sizeof(T) == sizeof(typename T::bits_type) && alignof(T) == sizeof(T) &&
                std::is_standard_layout_v<T>);
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>);
  static_assert(std::is_trivially_destructible_v<T> && std::is_nothrow_constructible_v<T, float>);
  static_assert(!std::is_convertible_v<float, T> && !std::is_convertible_v<T, float>,
                "only explicitly");
  static_assert(!detail::is_detected_v<sum_t, T> && detail::is_detected_v<sum_t, float>,
                "no arithmetic");
  static_assert(Limits::is_specialized && Limits::is_signed && !Limits::is_integer &&
                !Limits::is_exact && Limits::radix == 2);
  static_assert(Limits::is_bounded && !Limits::is_modulo && !Limits::traps &&
                !Limits::tinyness_before);
  static_assert(Limits::has_infinity == Format::has_infinity &&
                Limits::is_iec559 == Format::has_infinity);
  static_assert(Limits::has_quiet_NaN &&
                Limits::has_signaling_NaN == !std::is_same_v<T, float8_e4m3>);
  static_assert(Limits::has_denorm == std::denorm_present && !Limits::has_denorm_loss);
  static_assert(Limits::round_style == std::round_to_nearest &&
                static_cast<float>(Limits::round_error()) == 0.5F);
  static_assert(Limits::lowest() == -Limits::max() &&
                Limits::infinity().bits() == Format::overflow_bits);
  static_assert(Limits::quiet_NaN().bits() == Format::quiet_nan_bits &&
                is_nan<Format>(Limits::signaling_NaN().bits()));
  static_assert(!Limits::has_signaling_NaN ||
                (Limits::signaling_NaN().bits() & (Format::mantissa_mask + 1U) / 2) == 0);
  static_assert(std::numeric_limits<const T>::digits == Limits::digits,
                "the standard's own forwarding of const");
  static_assert(T::from_bits(0x34).bits() == 0x34);
  return true;
}
static_assert(is_storage<half>() && is_storage<bfloat16>() && is_storage<cbfloat16>());
static_assert(is_storage<float8_e4m3>() && is_storage<float8_e5m2>());
static_assert(!std::is_same_v<bfloat16, half> && !std::is_same_v<float8_e4m3, float8_e5m2>);

/// The reference of all other tests relies on these layouts.
template <class T>
constexpr bool has_layout(std::uint32_t sign, std::uint32_t mantissa, int bias,
                          std::uint32_t largest, std::uint32_t overflow, std::uint32_t least_nan,
                          std::uint32_t nan) {
  using Format = typename T::format;
  return Format::sign_mask == sign && Format::abs_mask == sign - 1 &&
         Format::mantissa_mask == mantissa && Format::bias == bias &&
         Format::largest_finite_bits == largest && Format::overflow_bits == overflow &&
         Format::smallest_nan_bits == least_nan && Format::quiet_nan_bits == nan;
}
static_assert(has_layout<half>(0x8000, 0x03FF, 15, 0x7BFF, 0x7C00, 0x7C01, 0x7E00));
static_assert(has_layout<bfloat16>(0x8000, 0x007F, 127, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0));
static_assert(has_layout<cbfloat16>(0x8000, 0x01FF, 42, 0x7DFF, 0x7E00, 0x7E01, 0x7F00));
// Table 1 of the OCP OFP8 specification
static_assert(has_layout<float8_e4m3>(0x80, 0x07, 7, 0x7E, 0x7F, 0x7F, 0x7F));
static_assert(has_layout<float8_e5m2>(0x80, 0x03, 15, 0x7B, 0x7C, 0x7D, 0x7E));

template <class T>
constexpr bool has_limits(std::initializer_list<int> integers,
                          std::initializer_list<double> numbers) {
  using Limits = std::numeric_limits<T>;
  const int found[] = {Limits::digits,        Limits::digits10,       Limits::max_digits10,
                       Limits::min_exponent,  Limits::min_exponent10, Limits::max_exponent,
                       Limits::max_exponent10};
  const double found_numbers[] = {
      static_cast<double>(Limits::min()), static_cast<double>(Limits::max()),
      static_cast<double>(Limits::epsilon()), static_cast<double>(Limits::denorm_min())};
  bool same = true;
  for (std::size_t i = 0; i < 7; ++i) same = same && found[i] == integers.begin()[i];
  for (std::size_t i = 0; i < 4; ++i) same = same && found_numbers[i] == numbers.begin()[i];
  return same;
}
static_assert(has_limits<half>({11, 3, 5, -13, -4, 16, 4}, {0x1p-14, 65504, 0x1p-10, 0x1p-24}));
static_assert(has_limits<bfloat16>({8, 2, 4, -125, -37, 128, 38},
                                   {0x1p-126, 0x1.fep127, 0x1p-7, 0x1p-133}));
static_assert(has_limits<cbfloat16>({10, 2, 5, -40, -12, 21, 6},
                                    {0x1p-41, 2095104, 0x1p-9, 0x1p-50}));
static_assert(has_limits<float8_e4m3>({4, 0, 3, -5, -1, 9, 2}, {0x1p-6, 448, 0.125, 0x1p-9}));
static_assert(has_limits<float8_e5m2>({3, 0, 2, -13, -4, 16, 4}, {0x1p-14, 57344, 0.25, 0x1p-16}));

struct Listed {
  double value;
  std::uint32_t bits;
};
/// Whether the values have these bits, as doubles and as floats.
template <class T>
constexpr bool round(std::initializer_list<Listed> list) {
  bool right = true;
  for (const auto& [value, bits] : list) {
    const bool in_float = value > -3e38 && value < 3e38;
    right = right && T(value).bits() == bits &&
            (!in_float || T(static_cast<float>(value)).bits() == bits);
  }
  return right;
}
/// The same, and the bits have these values.
template <class T>
constexpr bool are(std::initializer_list<Listed> list) {
  bool right = round<T>(list);
  for (const auto& [value, bits] : list) {
    const T number = T::from_bits(static_cast<typename T::bits_type>(bits));
    right = right && static_cast<double>(number) == value &&
            static_cast<float>(number) == static_cast<float>(value);
  }
  return right;
}
static_assert(are<half>(
    {{0, 0}, {-0.0, 0x8000}, {1, 0x3C00}, {-2, 0xC000}, {0x1.554p-2, 0x3555}, {-65504, 0xFBFF}}));
static_assert(
    are<half>({{0x1p-24, 0x0001}, {0x1.ff8p-15, 0x03FF}, {0x1p-14, 0x0400}, {65504, 0x7BFF}}));
static_assert(round<half>(
    {{1.0 / 3, 0x3555}, {0x1p-25, 0}, {-0x1p-25, 0x8000}, {0x1.000002p-25, 1}, {0x1.8p-24, 2}}));
static_assert(round<half>(
    {{0x1.ffcp-15, 0x0400}, {65519, 0x7BFF}, {0x1.ffdffep15, 0x7BFF}, {65520, 0x7C00}}));
static_assert(round<half>({{-65520, 0xFC00}, {1e300, 0x7C00}, {1e-300, 0}}));

static_assert(are<bfloat16>(
    {{0, 0}, {-0.0, 0x8000}, {1, 0x3F80}, {-2, 0xC000}, {0x1.92p1, 0x4049}, {0x1p-133, 0x0001}}));
static_assert(are<bfloat16>({{0x1p-126, 0x0080}, {0x1.fep127, 0x7F7F}}));
static_assert(round<bfloat16>(
    {{1.0 / 3, 0x3EAB}, {0x1.01p0, 0x3F80}, {0x1.03p0, 0x3F82}, {0x1.010002p0, 0x3F81}}));
static_assert(round<bfloat16>(
    {{0x1p-134, 0}, {-0x1p-134, 0x8000}, {0x1.8p-133, 0x0002}, {0x1.fefffep127, 0x7F7F}}));
static_assert(round<bfloat16>({{0x1.ffp127, 0x7F80}, {0x1.fffffep127, 0x7F80}, {-1e300, 0xFF80}}));
static_assert(bfloat16(0x1.ffp127F).bits() == 0x7F80 && bfloat16(0x1.fefffep127F).bits() == 0x7F7F);

static_assert(
    are<cbfloat16>({{6, 0x5900}, {1, 0x5400}, {-1, 0xD400}, {-0.0, 0x8000}, {2095104, 0x7DFF}}));
static_assert(are<cbfloat16>({{0x1p-41, 0x0200}, {0x1p-50, 0x0001}}));
static_assert(round<cbfloat16>(
    {{2096127, 0x7DFF}, {2096128, 0x7E00}, {0x1p-51, 0x0000}, {0x1.000002p-51, 0x0001}}));
static_assert(cbfloat16(2096128, saturate).bits() == 0x7DFF);

static_assert(are<float8_e4m3>(
    {{0, 0}, {-0.0, 0x80}, {1, 0x38}, {-2, 0xC0}, {256, 0x78}, {448, 0x7E}, {-448, 0xFE}}));
static_assert(are<float8_e4m3>({{0x1p-6, 0x08}, {0.875 * 0x1p-6, 0x07}, {0x1p-9, 0x01}}));
static_assert(round<float8_e4m3>(
    {{0x1p-10, 0}, {-0x1p-10, 0x80}, {0x1.000002p-10, 0x01}, {0x1.8p-9, 0x02}, {464, 0x7E}}));
static_assert(round<float8_e4m3>(
    {{0x1.d00002p8, 0x7F}, {-0x1.d00002p8, 0xFF}, {480, 0x7F}, {512, 0x7F}, {-1e300, 0xFF}}));
static_assert(float8_e4m3(0x1.d00002p8F, saturate).bits() == 0x7E &&
              float8_e4m3(-1e300, saturate).bits() == 0xFE);

static_assert(
    are<float8_e5m2>({{1, 0x3C}, {-2, 0xC0}, {-0.0, 0x80}, {57344, 0x7B}, {0x1p-14, 0x04}}));
static_assert(are<float8_e5m2>({{0.75 * 0x1p-14, 0x03}, {0x1p-16, 0x01}}));
static_assert(round<float8_e5m2>({{0x1p-17, 0x00},
                                  {0x1.000002p-17, 0x01},
                                  {0x1.dffffep15, 0x7B},
                                  {61440, 0x7C},
                                  {-1e300, 0xFC}}));
static_assert(float8_e5m2(61440.0F, saturate).bits() == 0x7B);

template <class Bits>
using Half = decltype(as_half(static_cast<Bits*>(nullptr), 0));
template <class Bits>
using Bfloat16 = decltype(as_bfloat16(static_cast<Bits*>(nullptr), 0));
static_assert(std::is_same_v<Half<std::uint16_t>, span<half>> &&
              std::is_same_v<Half<const std::uint16_t>, span<const half>>);
static_assert(std::is_same_v<Half<void>, span<half>> &&
              std::is_same_v<Half<const void>, span<const half>>);
static_assert(std::is_same_v<Bfloat16<std::uint16_t>, span<bfloat16>> &&
              std::is_same_v<Bfloat16<const std::uint16_t>, span<const bfloat16>>);
static_assert(std::is_same_v<Bfloat16<void>, span<bfloat16>> &&
              std::is_same_v<Bfloat16<const void>, span<const bfloat16>>);

}  // namespace

TEST_CASE("the NaN of e4m3 has two patterns", "[dtype]") {
  CHECK(bits_of(static_cast<float>(float8_e4m3::from_bits(0x7F))) == 0x7FC00000U);
  CHECK(bits_of(static_cast<float>(float8_e4m3::from_bits(0xFF))) == 0xFFC00000U);
}

TEST_CASE("bits kept as integers are unscaled where they lie") {
  std::vector<std::uint16_t> bits = {half(8.0F).bits(), half(-2.0F).bits(), half(1.0F).bits()};
  const ConstantLossScale two(2.0F);
  CHECK(two.unscale_in_place<allow_fp16_gradients>(as_half(bits.data(), 2)).max_abs == 4.0);
  CHECK(bits ==
        std::vector<std::uint16_t>{half(4.0F).bits(), half(-1.0F).bits(), half(1.0F).bits()});
  CHECK(measure(as_half(std::as_const(bits).data(), 3)).max_abs == 4.0);
  bits[1] = 0x7c00;
  CHECK_FALSE(all_finite(as_half(bits.data(), 3)));
  CHECK(all_finite(as_bfloat16(bits.data(), 3)));
  CHECK(cast<float>(as_bfloat16(bits.data(), 1))[0] ==
        static_cast<float>(bfloat16::from_bits(bits[0])));
  CHECK(as_half(bits.data(), 3)[2] == half(1.0F));
}

TEST_CASE("bits behind a pointer to void, at any address") {
  alignas(2) unsigned char bytes[5] = {};
  const std::uint16_t bits[] = {half(8.0F).bits(), half(-2.0F).bits()};
  std::memcpy(bytes + 1, bits, sizeof bits);
  void* const data = bytes + 1;
  CHECK(ConstantLossScale(2.0F).unscale<float>(as_half(data, 2)).grads ==
        std::vector<float>{4.0F, -1.0F});
  ConstantLossScale(2.0F).scale_in_place(as_half(data, 2));
  const void* const read_only = data;
  CHECK(measure(as_half(read_only, 2)).max_abs == 16.0);
  CHECK(as_half(data, 0).empty());
}
