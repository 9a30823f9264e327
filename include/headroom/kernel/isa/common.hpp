#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/kernel/boundary.hpp>
#include <headroom/kernel/isa.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// What the instruction sets have in common. Each of their files defines, in a namespace of its own, about 25 names, some of
// them by including kernel/isa/registers.inl, and then includes kernel/kernels.inl, whose loops are made of them:
//
//   compute_for<In, Out>         the register that elements are computed in, from one format to another
//   wide_compute_for<In, Out>    the same for whole registers; it may be a pair of them
//   compute_format<Compute>      the format of one lane of it
//   lanes_of<Compute>            how many elements it has
//   read_lanes<In>               how many are loaded at once if nothing is computed
//   load<Lanes>(Format, source), store(destination, bits)
//   load_part<Lanes>(Format, source, n), store_part(destination, bits, n)
//                                n < Lanes elements; no byte beyond is touched, lanes beyond are loaded as zeros
//   widen<Compute>(Format, bits), narrow(Format, value)      exact; rounded to nearest-even
//   broadcast<Compute>(factor), multiplied, divided, plus    plus(a, product) is rounded twice: never a fused multiply-add
//   plus_exact_square(sum, value)                            of a value whose square is a float: that makes no difference
//   max_of_abs, larger, largest_lane, any_above              magnitudes as integers
//   to_doubles, added, sum_of    of sixteen sums in one or more registers; i is added to i + 8, then to i + 4, and so on
//   has_streaming_stores, store_streaming(destination, bits), finish_streaming
//                                past the caches, if at all; of whole registers

#if HEADROOM_DETAIL_HAS_X86
// What lies between BEGIN and END is compiled for CPUs that have these instruction sets, whatever the flags of the including
// file are.
#define HEADROOM_DETAIL_PRAGMA(...) _Pragma(#__VA_ARGS__)
#if defined(__clang__)
#define HEADROOM_DETAIL_BEGIN_TARGET(isa) \
  HEADROOM_DETAIL_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define HEADROOM_DETAIL_END_TARGET _Pragma("clang attribute pop")
#else
#define HEADROOM_DETAIL_BEGIN_TARGET(isa) _Pragma("GCC push_options") HEADROOM_DETAIL_PRAGMA(GCC target(isa))
#define HEADROOM_DETAIL_END_TARGET _Pragma("GCC pop_options")
#endif
#endif

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

using boundary_v2::Found;
using boundary_v2::Kernel;
using boundary_v2::Op;
using boundary_v2::Piece;

/// Elements whose squares are summed separately, and that one thread takes at a time.
inline constexpr std::size_t chunk_size = 65536;

/// The number of sums that squares are spread over in float: enough to keep the additions of AVX2's registers from waiting for
/// each other.
inline constexpr std::size_t sum_lanes = 64;
/// Elements whose squares are summed in float, eight in each of those sums: the error of a sum is that of ten roundings.
inline constexpr std::size_t square_block = 512;

/// Pieces whose destination has fewer bytes do not stream. Streaming stores pay from 1 KiB on; from 2 KiB on they save an
/// eighth or more.
inline constexpr std::size_t least_streamed = 2048;
/// How a pass that streams runs its pieces: `past_caches` takes the large ones but for their ends, in whole blocks, whose
/// destinations are at multiples of `width` elements; `ordinary` takes the rest. In place nothing is gained.
struct Streaming {
  Kernel ordinary, past_caches;
  std::size_t in_size, out_size, width, block;

  [[nodiscard]] bool is_large(const Piece& piece) const noexcept {
    return piece.size >= least_streamed / out_size && piece.source != piece.destination &&
           reinterpret_cast<std::uintptr_t>(piece.destination) % out_size == 0;
  }
  /// Once for all kernels; in each it would cost small pieces half a nanosecond.
  [[gnu::noinline]] void run(const Piece* piece, const Piece* last, double factor, Found& found) const {
    for (const Piece* large = piece; large != last; ++large) {
      if (!is_large(*large)) continue;
      const auto part = [&](std::size_t first, std::size_t size) {
        return Piece{static_cast<const unsigned char*>(large->source) + first * in_size,
                     static_cast<unsigned char*>(large->destination) + first * out_size, size};
      };
      const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(large->destination)) / out_size % width;
      const std::size_t tail = (large->size - head) % block, middle = large->size - head - tail;
      const Piece parts[] = {part(0, head), part(head + middle, tail), part(head, middle)};
      ordinary(piece, large, factor, false, found);
      ordinary(parts, parts + 2, factor, false, found);
      past_caches(parts + 2, parts + 3, factor, true, found);
      piece = large + 1;
    }
    ordinary(piece, last, factor, false, found);
  }
};
// A file of an instruction set may have its own of these, which hides the one here.
inline constexpr bool has_streaming_stores = false;
inline void finish_streaming() noexcept {}

template <class Format>
inline constexpr std::size_t bytes_each = sizeof(typename Format::bits_type);

template <class Format>
inline const unsigned char* element_at(const void* first, std::size_t i) noexcept {
  return static_cast<const unsigned char*>(first) + i * bytes_each<Format>;
}
template <class Format>
inline unsigned char* element_at(void* first, std::size_t i) noexcept {
  return static_cast<unsigned char*>(first) + i * bytes_each<Format>;
}
/// What is left of a piece after its first `n` elements.
template <class In, class Out>
inline Piece after(const Piece& piece, std::size_t n) noexcept {
  return {element_at<In>(piece.source, n), element_at<Out>(piece.destination, n), piece.size - n};
}
/// How many elements, fewer than a register has, to begin with as part of one: all of a piece that is smaller than a register,
/// and of a large piece so many that no later register lies across two cache lines. Not worth it for short registers.
template <std::size_t Width, class In, class Out>
inline std::size_t elements_before_line(const Piece& piece) noexcept {
  constexpr bool by_destination = bytes_each < Out >> bytes_each<In>;
  constexpr std::size_t size = by_destination ? bytes_each<Out> : bytes_each<In>;
  if (piece.size < 192 || Width * size < cache_line / 2) return piece.size < Width ? piece.size : 0;
  return (0 - reinterpret_cast<std::uintptr_t>(by_destination ? piece.destination : piece.source)) / size % Width;
}

/// Adds one after the other: -ffast-math would choose an order of its own, and a different one for each number of threads.
inline void add_to_sum(Found& found, double sum) noexcept {
  found.sum_of_squares = hide_from_optimizer(found.sum_of_squares + sum);
}

inline void add_largest(Found& found, std::uint64_t magnitude) noexcept {
  found.largest = magnitude > found.largest ? magnitude : found.largest;
}
/// Takes a magnitude of a format. Compares integers: under -ffast-math a floating-point Inf may be assumed not to exist.
template <class Format>
inline void add_largest(Found& found, typename Format::bits_type magnitude) noexcept {
  std::uint64_t bits = binary64::infinity_bits;
  if (magnitude <= Format::largest_finite_bits) bits = convert_bits<Format, binary64>(magnitude);
  add_largest(found, bits);
}

/// The kernels of an instruction set; each file specialises it.
template <Isa isa>
struct IsaKernels;

/// Whether the SIMD instruction sets have instructions for the format. Others run on the scalar kernels: 8-bit formats,
/// cbfloat16, double, and formats of a user's own.
template <class Format>
inline constexpr bool has_registers =
    std::is_same_v<Format, binary16> || std::is_same_v<Format, brain16> || std::is_same_v<Format, binary32>;

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
