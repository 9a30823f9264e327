// expect: headroom: cast<To> and unscale<To> make floating-point numbers
// expect: long double and complex numbers are not supported
#include <headroom/policy/noop.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
using To = double;
#else
using To = long double;
#endif

auto unscale(const headroom::NoOpLossScale& scaler, const std::vector<float>& tree) { return scaler.unscale<To>(tree).grads; }
