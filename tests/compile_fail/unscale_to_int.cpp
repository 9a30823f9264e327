// expect: headroom: cast<To> and unscale<To> make floating-point numbers
#include <headroom/policy/dynamic.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
using To = float;
#else
using To = int;
#endif

auto unscale(const headroom::DynamicLossScale& scaler, const std::vector<float>& tree) {
  return scaler.unscale<To>(tree).grads;
}
