#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <cstdint>

/// How everything above sees the kernels: as functions on lists of contiguous pieces. This is data only, outside the inline
/// namespace that carries the flags, so that kernels compiled elsewhere with other flags look the same to a caller. Any change
/// here needs a namespace with another number.
namespace headroom::boundary_v2 {

/// `size` contiguous elements of any alignment. In place, source and destination are the same. A kernel that only reads ignores
/// the destination, which may be null.
struct Piece {
  const void* source;
  void* destination;
  std::size_t size;
};

/// What the kernels have found so far, over all pieces.
struct Found {
  std::uint64_t largest;  ///< the largest magnitude, as the bits of a double, which order as the values do; not finite: Inf's
  double sum_of_squares;  ///< meaningless if not finite
};

/// What a kernel does to each element, with the factor it is given. It computes in float, or in double if source or destination
/// is double, and rounds to nearest-even when it stores; magnitudes are of what has been stored.
enum class Op : int {
  scale,         ///< destination = source * factor
  unscale,       ///< destination = source / factor, divided, not multiplied by a reciprocal
  cast,          ///< destination = source; finds nothing
  add_scaled,    ///< destination += source * factor; magnitudes are of what is added
  add_unscaled,  ///< destination += source / factor; the same
  max_abs,       ///< reads
  measure        ///< reads, and adds up squares
};
inline constexpr int op_count = static_cast<int>(Op::measure) + 1;

/// Works on the pieces of [first, last) and adds to `found`. If `streaming`, scale, unscale and cast store large pieces past
/// the caches.
using Kernel = void (*)(const Piece* first, const Piece* last, double factor, bool streaming, Found& found);

}  // namespace headroom::boundary_v2
