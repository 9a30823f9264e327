// expect: headroom: quantizing writes float8_e4m3 or float8_e5m2
#include <headroom/dtype/float8.hpp>
#include <headroom/quantize/quantize.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
using Code = headroom::float8_e4m3;
#else
using Code = float;
#endif

void quantize(const std::vector<float>& source, std::vector<Code>& codes,
              headroom::span<float> scales) {
  (void)headroom::quantize_into(source, codes, scales, scales);
}
