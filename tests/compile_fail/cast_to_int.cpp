// expect: headroom: cast<To> and unscale<To> make floating-point numbers
#include <headroom/ops/cast.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
using To = float;
#else
using To = int;
#endif

auto cast(const std::vector<double>& tree) { return headroom::cast<To>(tree); }
