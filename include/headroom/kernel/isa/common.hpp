#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/kernel/boundary.hpp>
#include <headroom/kernel/isa.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// What the instruction sets share. Each of their files defines the names below in a namespace of its own, some of them by
// including kernel/isa/registers.inl. Then it includes kernel/kernels.inl, whose loops use these names:
//
//   compute_for<In, Out>         the register type that elements are computed in, from one format to another
//   wide_compute_for<In, Out>    the same in loops over whole registers; may be a pair of registers
//   compute_format<Compute>      the format of a lane
//   lanes_of<Compute>            the number of lanes
//   read_lanes<In>               the number of elements that are loaded at once if only magnitudes are needed
//   load<Lanes>(Format, source), store(destination, bits)
//   load_part<Lanes>(Format, source, n), store_part(destination, bits, n)
//                                n < Lanes elements; accesses no byte beyond them; loads zeros into the other lanes
//   widen<Compute>(Format, bits), narrow(Format, value)      exact; rounded to nearest-even
//   broadcast<Compute>(factor), multiplied, divided, plus    plus(a, product) is never fused with the multiplication
//   plus_exact_square(sum, value)                            sum + value * value, with one rounding; the square is exact
//   max_of_abs, larger, largest_lane, any_above              compare magnitudes as integers
//   to_doubles, added, sum_of    sixteen sums in double, in one or more registers; sum_of adds i + 8 to i, then i + 4, …
//   has_streaming_stores, store_streaming(destination, bits), finish_streaming
//                                stores of whole registers that bypass the caches, if there are any

#if HEADROOM_DETAIL_HAS_X86
// Code between BEGIN and END is compiled for these instruction sets, whatever the compiler flags are.
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
using boundary_v2::MxScale;
using boundary_v2::Op;
using boundary_v2::Piece;

/// The most elements that have one sum of squares. Longer pieces are split into chunks of this size.
inline constexpr std::size_t chunk_size = 65536;

/// The number of sums that squares are spread over in float. With 32, the additions of AVX-512 registers wait for each other.
inline constexpr std::size_t sum_lanes = 64;
/// The number of elements whose squares are summed in float: eight in each of those sums. The error is that of ten roundings.
inline constexpr std::size_t square_block = 512;

/// Pieces with fewer bytes of destination do not stream. From 2 KiB on, streaming stores save an eighth of the time or more.
inline constexpr std::size_t least_streamed = 2048;
/// How a streaming pass runs its pieces. `past_caches` takes the middle of large pieces: whole blocks, with the destination
/// aligned to `width` elements. `ordinary` takes the rest. Pieces in place do not stream, because it gains nothing.
struct Streaming {
  Kernel ordinary, past_caches;
  std::size_t in_size, out_size, width, block;

  [[nodiscard]] bool is_large(const Piece& piece) const noexcept {
    return piece.size >= least_streamed / out_size && piece.source != piece.destination &&
           reinterpret_cast<std::uintptr_t>(piece.destination) % out_size == 0;
  }
  /// One function for all kernels. Inlined in each kernel, it would cost small pieces half a nanosecond.
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
// Defaults. A file of kernel/isa/ may define its own, which hide these.
inline constexpr bool has_streaming_stores = false;
inline void finish_streaming() noexcept {}

template <class Format>
inline constexpr std::size_t bytes_each = sizeof(typename Format::bits_type);
/// The elements of a block of the OCP Microscaling (MX) specification, which have one scale.
inline constexpr std::size_t mx_block = 32;

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
/// How many elements to process in a partial register first. All of a piece that is smaller than a register; of a large piece,
/// as many as align the later registers, so that none crosses a cache line. For short registers alignment is not worth it.
template <std::size_t Width, class In, class Out>
inline std::size_t elements_before_line(const Piece& piece) noexcept {
  constexpr bool by_destination = bytes_each < Out >> bytes_each<In>;
  constexpr std::size_t size = by_destination ? bytes_each<Out> : bytes_each<In>;
  if (piece.size < 192 || Width * size < cache_line / 2) return piece.size < Width ? piece.size : 0;
  return (0 - reinterpret_cast<std::uintptr_t>(by_destination ? piece.destination : piece.source)) / size % Width;
}

/// Adds in the given order. -ffast-math would choose an order of its own, and a different one for each number of threads.
inline void add_to_sum(Found& found, double sum) noexcept {
  found.sum_of_squares = hide_from_optimizer(found.sum_of_squares + sum);
}

inline void add_largest(Found& found, std::uint64_t magnitude) noexcept {
  found.largest = magnitude > found.largest ? magnitude : found.largest;
}
/// The same for a magnitude in a format. Compares integers, because -ffast-math assumes that no float is Inf.
template <class Format>
inline void add_largest(Found& found, typename Format::bits_type magnitude) noexcept {
  std::uint64_t bits = binary64::infinity_bits;
  if (magnitude <= Format::largest_finite_bits) bits = convert_bits<Format, binary64>(magnitude);
  add_largest(found, bits);
}

/// The kernels of an instruction set; each file specialises it.
template <Isa isa>
struct IsaKernels;

/// Whether the format has SIMD kernels. cbfloat16, double and user-defined formats use the scalar kernels.
template <class Format>
inline constexpr bool has_registers =
    std::is_same_v<Format, binary16> || std::is_same_v<Format, brain16> || std::is_same_v<Format, binary32>;
/// Whether the format has eight bits, SIMD kernels that read it, and kernels that quantize to it.
template <class Format>
inline constexpr bool is_fp8 = std::is_base_of_v<e4m3, Format> || std::is_base_of_v<e5m2, Format>;

constexpr bool only_reads(Op op) { return op == Op::max_abs || op == Op::measure; }
constexpr bool quantizes(Op op) { return op == Op::quantize || op == Op::mx_quantize; }
/// Whether an op has SIMD kernels for these formats.
template <Op op, class In, class Out>
constexpr bool has_simd() {
  return quantizes(op) ? has_registers<In> : (has_registers<In> || (is_fp8<In> && !only_reads(op))) && has_registers<Out>;
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
