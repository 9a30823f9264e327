#pragma once

#include <headroom/config.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A binary floating-point format in the manner of IEEE 754: a sign, `ExponentBits` of exponent, `MantissaBits` of fraction.
/// The highest exponent holds Inf and NaN, the lowest zero and the subnormals.
template <class Bits, int ExponentBits, int MantissaBits, int Bias = (1 << (ExponentBits - 1)) - 1>
struct ieee_format {
  using bits_type = Bits;
  static constexpr int exponent_bits = ExponentBits;
  static constexpr int mantissa_bits = MantissaBits;
  static constexpr int bias = Bias;
  static constexpr Bits sign_mask = static_cast<Bits>(Bits{1} << (ExponentBits + MantissaBits));
  static constexpr Bits abs_mask = static_cast<Bits>(sign_mask - 1);
  static constexpr Bits mantissa_mask = static_cast<Bits>((Bits{1} << MantissaBits) - 1);
  /// The bits of +Inf. A value is finite exactly where its bits without the sign are below these.
  static constexpr Bits infinity_bits = static_cast<Bits>(abs_mask & static_cast<Bits>(~mantissa_mask));
  static constexpr Bits quiet_nan_bits = static_cast<Bits>(infinity_bits | (Bits{1} << (MantissaBits - 1)));
};

struct binary16 : ieee_format<std::uint16_t, 5, 10> {};   ///< IEEE half precision
struct brain16 : ieee_format<std::uint16_t, 8, 7> {};     ///< bfloat16: the upper half of a binary32
struct binary32 : ieee_format<std::uint32_t, 8, 23> {};   ///< float
struct binary64 : ieee_format<std::uint64_t, 11, 52> {};  ///< double

}  // namespace HEADROOM_BUILD
}  // namespace headroom
