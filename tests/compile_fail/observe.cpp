#include <headroom/headroom.hpp>
#include <headroom/observe/exponent_histogram.hpp>

// case: scale_for_double
// expect: headroom: no loss scale is for gradients in double
#ifdef HEADROOM_CONTROL
using Element = float;
#else
using Element = double;
#endif

float scale_for(const headroom::ExponentHistogram& histogram) {
  return histogram.recommended_scale<Element>();
}
