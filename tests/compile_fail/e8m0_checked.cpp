// expect: headroom: only quantize_blocks_into and dequantize_blocks_into take e8m0 and float4_e2m1x2
#include <headroom/ops/measure.hpp>
#include <headroom/quantize/block_rules.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
using Element = headroom::float8_e4m3;
#else
using Element = headroom::e8m0;
#endif

bool check(const std::vector<Element>& scales) { return headroom::all_finite(scales); }
