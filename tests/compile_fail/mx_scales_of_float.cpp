// expect: headroom: MX codes are float8_e4m3 or float8_e5m2, and the scales of their blocks are e8m0
#include <headroom/dtype/float8.hpp>
#include <headroom/quantize/mx.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
using Scale = headroom::e8m0;
#else
using Scale = float;
#endif

void quantize(const std::vector<float>& source, std::vector<headroom::float8_e4m3>& codes, std::vector<Scale>& scales) {
  (void)headroom::mx_quantize_into(source, codes, scales, headroom::MxScale::floor);
}
