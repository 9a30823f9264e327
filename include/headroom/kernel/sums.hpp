#pragma once

#include <headroom/config.hpp>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
// The numbers that decide the bits of a sum of squares, on the CPU and on a GPU.

/// The most elements that have one sum of squares. Longer pieces are split into such groups.
inline constexpr unsigned group_size = 65536;
/// In the tree's order, so many sums are added first, then the results: a GPU adds in parallel.
inline constexpr unsigned groups_per_sum = 256;

/// Squares are spread over so many sums in float. With 32, additions of AVX-512 registers wait.
inline constexpr unsigned sum_lanes = 64;
/// The number of elements whose squares are summed in float: eight in each of those sums. The error
/// is that of ten roundings.
inline constexpr unsigned squares_per_sum = 512;
/// If the largest magnitude of a block is above 2^most_exponent, its elements are multiplied by
/// 2^down_exponent before they are squared. If it is at most 2^least_exponent, they are multiplied
/// by 2^up_exponent.
inline constexpr int least_exponent = -40, most_exponent = 60, up_exponent = 101,
                     down_exponent = -70;
}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
