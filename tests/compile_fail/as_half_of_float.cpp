// expect: headroom: as_half and as_bfloat16 take a pointer to std::uint16_t or void
#include <headroom/headroom.hpp>

#include <cstdint>

#ifdef HEADROOM_CONTROL
using Element = const std::uint16_t;
#else
using Element = const float;
#endif

bool check(Element* elements, std::size_t size) {
  return headroom::all_finite(headroom::as_half(elements, size));
}
