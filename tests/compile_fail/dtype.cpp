#include <headroom/headroom.hpp>

#include <cstdint>
#include <vector>

// case: as_half_of_float
// expect: headroom: as_half and as_bfloat16 take a pointer to std::uint16_t or void
#ifdef HEADROOM_CONTROL
using Element = const std::uint16_t;
#else
using Element = const float;
#endif

bool check(Element* elements, std::size_t size) {
  return headroom::all_finite(headroom::as_half(elements, size));
}

// case: dtype_too_large
// expect: headroom: dtype_traits<T>::format has too many digits, or too large or too small numbers, for float
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
