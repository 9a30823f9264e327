// expect: headroom: cast<To> and unscale<To> make floating-point numbers
#include <headroom/ops/cast.hpp>

#include <complex>
#include <vector>

#ifdef HEADROOM_CONTROL
using To = double;
#else
using To = std::complex<float>;
#endif

auto cast(const std::vector<float>& tree) { return headroom::cast<To>(tree); }
