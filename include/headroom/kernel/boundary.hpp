#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <cstdint>

/// The interface of the kernels: functions on lists of contiguous pieces. It is outside the inline namespace that encodes
/// compiler flags, because callers and compiled kernels may have different ones. A change needs a new number in its name.
namespace headroom::boundary_v2 {

/// `size` contiguous elements of any alignment. In place, source and destination are the same. A kernel that only reads ignores
/// the destination, which may be null.
struct Piece {
  const void* source;
  void* destination;
  std::size_t size;
};

/// What kernels have found in all pieces so far.
struct Found {
  std::uint64_t largest;  ///< the largest magnitude, as the bits of a double; those of Inf if an element is Inf or NaN
  double sum_of_squares;  ///< meaningless if an element is Inf or NaN
};

/// What a kernel does to each element. It computes in float, or in double if source or destination is double, and rounds to
/// nearest-even when it stores. Magnitudes are those of the stored values, unless stated otherwise.
enum class Op : int {
  scale,         ///< destination = source * factor
  unscale,       ///< destination = source / factor, divided, not multiplied by a reciprocal
  cast,          ///< destination = source; leaves Found as it is
  add_scaled,    ///< destination += source * factor; magnitudes are those of the addends
  add_unscaled,  ///< destination += source / factor; magnitudes are those of the addends
  max_abs,       ///< only reads; finds the largest magnitude
  measure,       ///< only reads; finds the largest magnitude and the sum of squares
  quantize,      ///< destination = source * factor in an 8-bit format, saturated; magnitudes are those of the source
  /// The same for blocks of 32 elements with a scale byte (E8M0) each. Pieces come in pairs: the second has the scales as its
  /// destination. `factor` is an MxScale. The largest magnitude is Inf if a block becomes NaN.
  mx_quantize
};
inline constexpr int op_count = static_cast<int>(Op::mx_quantize) + 1;

/// How the scale of an MX block follows from its largest magnitude: see headroom::MxScale.
enum class MxScale : int { floor, rceil, ceil, even };

/// Processes [first, last) and adds to `found`. If `streaming`, scale, unscale and cast store large pieces past the caches.
using Kernel = void (*)(const Piece* first, const Piece* last, double factor, bool streaming, Found& found);

}  // namespace headroom::boundary_v2
