// expect: headroom: the scales have another dtype than this rule stores: see its scale_type
#include <headroom/dtype/float8.hpp>
#include <headroom/quantize/blocks.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
using Scale = headroom::e8m0;
#else
using Scale = float;
#endif

void quantize(const std::vector<float>& source, std::vector<headroom::float8_e4m3>& codes,
              std::vector<Scale>& scales) {
  (void)headroom::quantize_blocks_into(source, codes, scales, {1, 32}, headroom::MxScaling{});
}
