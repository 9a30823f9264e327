#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <cstdint>

/// What the kernels are to everything above them: functions on lists of contiguous pieces. Data alone, outside the inline
/// namespace of the flags, so that kernels compiled elsewhere with other flags (headroom::compiled) are the same to a caller. A
/// change of anything in here needs a namespace of another number.
namespace headroom::boundary_v1 {

/// `size` elements that lie side by side, of any alignment. In place source and destination are the same; a kernel that only
/// reads leaves the destination alone, and it may be null.
struct Piece {
  const void* source;
  void* destination;
  std::size_t size;
};

/// What the kernels have found so far, over all pieces.
struct Found {
  std::uint64_t largest;  ///< the largest magnitude, as the bits of a double, which order as the values do; not finite: Inf's
  double sum_of_squares;  ///< of no meaning where not finite
};

/// What is done to each element, with the factor that a kernel is given. All are computed in float, or in double where source
/// or destination is double, and rounded once to nearest-even where they are stored; magnitudes are of what has been stored.
enum class Op : int {
  scale,            ///< destination = source * factor
  unscale,          ///< destination = source / factor, correctly rounded
  cast,             ///< destination = source; finds nothing
  add_scaled,       ///< destination += source * factor; magnitudes are of what is added
  add_unscaled,     ///< destination += source / factor; the same
  scale_streaming,  ///< scale, unscale and cast by stores that go past the caches
  unscale_streaming,
  cast_streaming,
  max_abs,  ///< reads
  measure   ///< reads, and adds up squares in double
};

/// Works on the pieces of [first, last) and adds to `found`.
using Kernel = void (*)(const Piece* first, const Piece* last, double factor, Found& found);

}  // namespace headroom::boundary_v1
