// expect: headroom: this type has 16 bits
// expect: template <> struct headroom::dtype_traits<T> { using format = headroom::binary16; };
#include <headroom/ops/measure.hpp>

#include <cstdint>
#include <vector>

struct my_half {
  std::uint16_t bits;
};
#ifdef HEADROOM_CONTROL
template <>
struct headroom::dtype_traits<my_half> {
  using format = headroom::binary16;
};
#endif

bool check(const std::vector<my_half>& weight) { return headroom::all_finite(weight); }
