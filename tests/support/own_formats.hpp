#pragma once

#include <headroom/dtype/format.hpp>
#include <headroom/dtype/storage_float.hpp>

#include <cstdint>

namespace support {

// Formats of a user's own, one line each.
struct own_e3m4 : headroom::ieee_format<std::uint8_t, 3, 4> {};
/// 14 bits; no Inf, and many NaNs
struct own_e5m8 : headroom::float_format<std::uint16_t, 5, 8, 20, 0x1F7F, false> {};
/// Subnormal in the same range as float
struct own_e8m5 : headroom::ieee_format<std::uint16_t, 8, 5> {};
using own8 = headroom::storage_float<own_e3m4>;
using own14 = headroom::storage_float<own_e5m8>;
using own16 = headroom::storage_float<own_e8m5>;

}  // namespace support
