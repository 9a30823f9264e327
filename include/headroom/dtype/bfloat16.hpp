#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/storage_float.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// bfloat16: 1 sign, 8 exponent, 7 fraction bits. The range of float with 3 significant digits; it rarely needs a loss scale.
using bfloat16 = storage_float<brain16>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
