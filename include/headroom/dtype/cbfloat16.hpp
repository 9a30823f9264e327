#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/storage_float.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

struct cb16 : ieee_format<std::uint16_t, 6, 9, 42> {};  ///< Cerebras' 1-6-9

/// Cerebras' cbfloat16: 1 sign, 6 exponent, 9 fraction bits. The bias of 42 follows from what is published, that 6.0 is 0x5900.
/// Two things are not published and are assumed here: exponent 63 is reserved for Inf and NaN, and underflow is gradual. With
/// them the largest finite value is 2,095,104, the smallest normal one 2^-41, the smallest subnormal one 2^-50.
using cbfloat16 = storage_float<cb16>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
