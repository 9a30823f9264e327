// expect: headroom: the elements of this span are of no floating-point type headroom knows
// expect: specialise headroom::dtype_traits
#include <headroom/dtype/span.hpp>
#include <headroom/ops/measure.hpp>

#include <cstdint>

struct my_half {
  std::uint16_t bits;
};
#ifdef HEADROOM_CONTROL
template <>
struct headroom::dtype_traits<my_half> {
  using format = headroom::binary16;
};
#endif

bool check(const headroom::span<my_half>& weight) { return headroom::all_finite(weight); }
