#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/prefetch.hpp>
#include <headroom/dtype/convert.hpp>
#include <headroom/kernel/boundary.hpp>
#include <headroom/kernel/isa/isa_list.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// What the instruction sets have in common. Each of their files defines, in a namespace of its own, about thirty names, some of
// them by including kernel/isa/registers.inl and lanes.inl, and then includes kernel/kernels.inl, whose loops are made of them:
//
//   compute_for<In, Out>         the register that elements are computed in, from one format to another
//   compute_format<Compute>      the format of one lane of it
//   lanes_of<Compute>            how many elements it has
//   read_lanes<In>               how many are loaded at once if nothing is computed
//   load<Lanes>(Format, source), store(destination, bits)
//   load_part<Lanes>(Format, source, n), store_part(destination, bits, n)
//                                n < Lanes elements; no byte beyond is touched, lanes beyond are loaded as zeros
//   widen<Compute>(Format, bits), narrow(Format, value)      exact; rounded to nearest-even
//   broadcast<Compute>(factor), multiplied, divided, plus    plus(a, product) is rounded twice: never a fused multiply-add
//   may_round_otherwise(a, b)    of the floats of a RegisterPair, where there are any
//   plus_exact_square(sum, value)                            of a value whose square is a float: that makes no difference
//   magnitudes(bits), larger, largest_lane                   magnitudes as integers
//   to_doubles, added, sum_of    of sixteen sums in one or more registers; i is added to i + 8, then to i + 4, and so on
//   any_above(magnitudes, limit), extended(bits)             the latter: a register of read_lanes from one that may be shorter
//   has_streaming_stores, store_streaming(destination, bits), finish_streaming
//                                past the caches, if at all; of whole registers
//   sixteen_bits, all_sixteen, smaller, with_zero_last, any_beyond, plus_unless_zero
//                                exponents are added in registers of sixteen-bit integers

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

using boundary_v1::Found;
using boundary_v1::Kernel;
using boundary_v1::Op;
using boundary_v1::Piece;

/// Elements whose squares are summed separately, and that one thread takes at a time.
inline constexpr std::size_t chunk_size = 65536;

/// The number of sums that squares are spread over in float: enough to keep the additions of AVX2's registers from waiting for
/// each other.
inline constexpr std::size_t sum_lanes = 64;
/// Elements whose squares are summed in float, eight in each of those sums: the error of a sum is that of ten roundings.
inline constexpr std::size_t square_block = 512;

/// Bytes of the destination from which on a piece is worth streaming stores, where all pieces are of that size. They pay from
/// 1 KiB on, and by an eighth or more from 2 KiB on.
inline constexpr std::size_t least_streamed = 2048;

// A file of an instruction set may have its own of these, which hides the one here.

/// Whether `transform` goes over four registers a round, and takes rests through registers, too.
inline constexpr bool is_unrolled = true;
inline constexpr bool has_streaming_stores = false;
inline void finish_streaming() noexcept {}

#if HEADROOM_DETAIL_HAS_X86
/// Whether results that are subnormal become zero. The asm is not volatile, so a loop asks once.
inline bool flushes_subnormals() noexcept {
  float product = 0x1p-126F;
  __asm__("" : "+x"(product));
  product *= 0.5F;
  __asm__("" : "+x"(product));
  return bit_cast<std::uint32_t>(product) == 0;
}
#endif

/// `n` elements of a piece, from number `begin` on.
template <class In, class Out>
inline Piece part_of(const Piece& piece, std::size_t begin, std::size_t n) noexcept {
  return {static_cast<const unsigned char*>(piece.source) + begin * sizeof(typename In::bits_type),
          static_cast<unsigned char*>(piece.destination) + begin * sizeof(typename Out::bits_type), n};
}
/// How many of `n` elements there are before a place from which on no register lies across the edge of a cache line, so that it
/// would be loaded from two. None of fewer than `Least`.
template <class Format, std::size_t Step, std::size_t Least>
inline std::size_t elements_to_line(const void* from, std::size_t n) noexcept {
  constexpr std::size_t size = sizeof(typename Format::bits_type);
  static_assert(Least * size >= Step, "there may be more than the piece has");
  return n < Least ? 0 : (0 - reinterpret_cast<std::uintptr_t>(from)) % (Step < cache_line ? Step : cache_line) / size;
}

/// Two registers of floats that are computed as one: of elements in their order, or those of the even lanes of a register of
/// sixteen-bit elements and those of the odd ones. Arithmetic on them is in lanes.inl.
struct in_order;
struct by_parity;
template <class Register, class Order>
struct RegisterPair {
  Register first, second;
};

/// Adds one after the other: -ffast-math would choose an order of its own, and a different one for each number of threads.
inline void add_to_sum(Found& found, double sum) noexcept { found.sum_of_squares = launder(found.sum_of_squares + sum); }

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

inline constexpr int streaming_offset = static_cast<int>(Op::scale_streaming) - static_cast<int>(Op::scale);
/// scale, unscale or cast with streaming stores.
[[nodiscard]] constexpr Op streaming_form(Op op) noexcept { return static_cast<Op>(static_cast<int>(op) + streaming_offset); }
/// An op without them.
[[nodiscard]] constexpr Op ordinary(Op op) noexcept {
  const bool streams = op >= Op::scale_streaming && op <= Op::cast_streaming;
  return streams ? static_cast<Op>(static_cast<int>(op) - streaming_offset) : op;
}
/// Those of sixteen bits that instruction sets know; another one, say cbfloat16, is not.
template <class Format>
inline constexpr bool is_sixteen_bits = std::is_same_v<Format, binary16> || std::is_same_v<Format, brain16>;

/// Whether the SIMD instruction sets compute with the format: those they have instructions for, and all formats of up to 16
/// bits whose numbers, subnormal ones included, are normal floats, and not the largest (isa/lanes.inl). Other formats run on
/// the scalar kernels. So does everything if the chosen instruction set is not compiled into this translation unit (another one
/// may have chosen it).
template <class Format>
constexpr bool computes_in_lanes() {
  constexpr int bits_behind_point = Format::bias - 1 + Format::mantissa_bits;  // of the smallest number
  return sizeof(typename Format::bits_type) <= 2 && holds_normals<Format, binary32>() &&
         bits_behind_point < binary32::bias - 1 && bits_behind_point >= binary32::mantissa_bits - binary32::bias;
}
template <class Format>
inline constexpr bool has_registers = is_sixteen_bits<Format> || std::is_same_v<Format, binary32> ||
                                      computes_in_lanes<Format>();

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
