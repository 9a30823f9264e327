// expect: headroom: codes and scales are vectors, spans or matrices of a dtype; reinterpret_cast bytes to float8_e4m3
#include <headroom/dtype/float8.hpp>
#include <headroom/quantize/blocks.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
using Code = headroom::float8_e4m3;
#else
using Code = unsigned char;
#endif

void dequantize(const std::vector<Code>& codes, const std::vector<float>& scales,
                std::vector<float>& values) {
  headroom::dequantize_blocks_into(codes, scales, values, {1, 32});
}
