#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/storage_float.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// IEEE 754 binary16, "fp16": 1 sign, 5 exponent, 10 fraction bits. Largest finite 65504, smallest normal 2^-14, smallest
/// subnormal 2^-24. Magnitudes below 2^-25 round to zero, which is why loss scaling exists.
using half = storage_float<binary16>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
