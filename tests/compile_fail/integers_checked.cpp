// expect: headroom: there is no floating-point number in this type
// expect: headroom::as_half(pointer, size)
#include <headroom/dtype/half.hpp>
#include <headroom/ops/measure.hpp>

#include <cstdint>
#include <vector>

bool check(const std::vector<std::uint16_t>& bits) {
#ifdef HEADROOM_CONTROL
  return headroom::all_finite(headroom::as_half(bits.data(), bits.size()));
#else
  return headroom::all_finite(bits);
#endif
}
