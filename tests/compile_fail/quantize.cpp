#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

// case: block_codes_of_bytes
// expect: headroom: codes and scales are vectors, spans or matrices of a dtype; reinterpret_cast bytes to float8_e4m3
#ifdef HEADROOM_CONTROL
using Code = headroom::float8_e4m3;
#else
using Code = unsigned char;
#endif

void dequantize(const std::vector<Code>& codes, const std::vector<float>& scales,
                std::vector<float>& values) {
  headroom::dequantize_blocks_into(codes, scales, values, {1, 32});
}

// case: block_scales_of_float
// expect: headroom: the scales have another dtype than this rule stores: see its scale_type
#ifdef HEADROOM_CONTROL
using Scale = headroom::e8m0;
#else
using Scale = float;
#endif

void quantize(const std::vector<float>& source, std::vector<headroom::float8_e4m3>& codes,
              std::vector<Scale>& scales) {
  (void)headroom::quantize_blocks_into(source, codes, scales, {1, 32}, headroom::MxScaling{});
}

// case: quantize_to_float
// expect: headroom: quantizing writes float8_e4m3 or float8_e5m2
#ifdef HEADROOM_CONTROL
using Code = headroom::float8_e4m3;
#else
using Code = float;
#endif

void quantize(const std::vector<float>& source, std::vector<Code>& codes,
              headroom::span<float> scales) {
  (void)headroom::quantize_into(source, codes, scales, scales);
}

// case: scales_of_unordered_map
// expect: use std::map, not std::unordered_map
#ifdef HEADROOM_CONTROL
template <class T>
using Map = std::map<std::string, T>;
#else
template <class T>
using Map = std::unordered_map<std::string, T>;
#endif

int main() {
  const Map<std::vector<float>> weights;
  headroom::TensorScales<headroom::float8_e4m3> scales(weights);
}
