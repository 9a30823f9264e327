#pragma once

#include <cstddef>
#include <headroom/headroom.hpp>

// Loops with Google's Highway, which also chooses the instruction set at run time. n is a multiple
// of 64.

namespace contenders {

bool highway_unscale(float* values, std::size_t n, float inverse_scale);
bool highway_unscale(headroom::half* values, std::size_t n, float inverse_scale);
bool highway_unscale(headroom::bfloat16* values, std::size_t n, float inverse_scale);
bool highway_unscale(headroom::half* source, float* destination, std::size_t n,
                     float inverse_scale);
bool highway_unscale(headroom::bfloat16* source, float* destination, std::size_t n,
                     float inverse_scale);
bool highway_all_finite(float* values, std::size_t n);
bool highway_all_finite(headroom::half* values, std::size_t n);
bool highway_all_finite(headroom::bfloat16* values, std::size_t n);
void highway_cast(const float* source, headroom::half* destination, std::size_t n);
void highway_cast(const float* source, headroom::bfloat16* destination, std::size_t n);

}  // namespace contenders
