// expect: headroom: dtype_traits<T>::format has too many digits, or too large or too small numbers, for float
#include <headroom/ops/measure.hpp>

#include <cstdint>
#include <vector>

struct my_float {
  std::uint16_t bits;
};
#ifdef HEADROOM_CONTROL
struct my_format : headroom::ieee_format<std::uint16_t, 8, 7> {};
#else
struct my_format : headroom::ieee_format<std::uint16_t, 9, 6> {};
#endif
template <>
struct headroom::dtype_traits<my_float> {
  using format = my_format;
};

bool check(const std::vector<my_float>& weight) { return headroom::all_finite(weight); }
