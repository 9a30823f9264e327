#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/kernel/table.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/report.hpp>
#include <headroom/tree/visit.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

// Blocks of 32 elements with a scale each, as in the MXFP8 formats of the OCP Microscaling specification, version 1.0.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// Eight bits of exponent: no sign, no fraction, no zero.
struct exponent_format {
  using bits_type = std::uint8_t;
  static constexpr int exponent_bits = 8, mantissa_bits = 0, bias = 127;
  static constexpr bits_type largest_finite_bits = 0xFE;
};

}  // namespace detail

/// OCP E8M0: the power of two 2^(bits - 127), the scale of an MX block. 0xFF is NaN. It is an element type of trees, for
/// mx_quantize_into and mx_dequantize_into only.
class e8m0 {
 public:
  e8m0() = default;
  /// The nearest power of two; the larger of two. The smallest, 2^-127, for 0; NaN for Inf, NaN and negative numbers.
  constexpr explicit e8m0(float value) noexcept : bits_(nearest(detail::bit_cast<std::uint32_t>(value))) {}
  /// Exact.
  constexpr explicit operator float() const noexcept {
    const std::uint32_t normal = static_cast<std::uint32_t>(bits_) << binary32::mantissa_bits;
    return detail::bit_cast<float>(bits_ == 0 ? 1U << 22 : bits_ == 0xFF ? 0x7FC00000 : normal);
  }
  [[nodiscard]] static constexpr e8m0 from_bits(std::uint8_t bits) noexcept {
    e8m0 result{};
    result.bits_ = bits;
    return result;
  }
  [[nodiscard]] constexpr std::uint8_t bits() const noexcept { return bits_; }

  /// Compares values: NaN differs from itself.
  friend constexpr bool operator==(e8m0 a, e8m0 b) noexcept { return a.bits_ == b.bits_ && a.bits_ != 0xFF; }
  friend constexpr bool operator!=(e8m0 a, e8m0 b) noexcept { return !(a == b); }

 private:
  static constexpr std::uint8_t nearest(std::uint32_t bits) noexcept {
    const std::uint32_t rounded = (bits + (1U << 22)) >> binary32::mantissa_bits;
    return static_cast<std::uint8_t>(bits > binary32::infinity_bits || rounded > 0xFF ? 0xFF : rounded);
  }
  std::uint8_t bits_;
};
template <>
struct dtype_traits<e8m0> : detail::has_format<detail::exponent_format> {};

/// How the scale of a block follows from its largest magnitude a, as in torchao. emax is the exponent of the largest number of
/// the format: 8 for e4m3, 15 for e5m2. No scale is below 2^-127.
/// - floor: 2^(exponent of a - emax), the rule of the specification. The largest elements may saturate.
/// - rceil: a / (largest number), rounded up to a power of two. Nothing saturates.
/// - ceil: as floor, with one more if a is no power of two. Nothing saturates.
/// - even: as floor, after a is rounded to the digits of the format.
using MxScale = boundary_v2::MxScale;

namespace detail {

/// A leaf of values, its codes and its scales. A block consists of neighbours along the values' shortest stride.
struct MxLeaf {
  const unsigned char* source;
  unsigned char* destination;
  unsigned char* scales;
  const PieceKind* kind;
  std::size_t row, blocks_per_row, rows;
  int rank;
  Dimension dimensions[Layout::max_rank];  // the longest stride of the values first; the last one is that of rows

  /// `values` is the layout of the values, `source` and `destination` those of the elements read and written.
  void set_dimensions(const Layout& values, const Layout& from, const Layout& to) {
    rank = 0;
    std::ptrdiff_t strides[Layout::max_rank];
    for (int i = 0; i < values.rank(); ++i) {
      int at = rank++;
      for (; at > 0 && strides[at - 1] < std::abs(values.stride(i)); --at) {
        strides[at] = strides[at - 1];
        dimensions[at] = dimensions[at - 1];
      }
      strides[at] = std::abs(values.stride(i));
      dimensions[at] = {values.shape(i), from.stride(i), to.stride(i)};
    }
    if (rank == 0) dimensions[rank++] = {1, 1, 1};
    const auto size = static_cast<std::size_t>(values.size());
    row = static_cast<std::size_t>(dimensions[rank - 1].size);
    rows = row == 0 ? 0 : size / row;
    blocks_per_row = (row + mx_block - 1) / mx_block;
  }

  /// Processes blocks [begin, end) of a row.
  void run(std::size_t number, std::size_t begin, std::size_t end, std::size_t op, MxScale rule, Found& found) const {
    std::ptrdiff_t from = 0, to = 0;
    auto rest = static_cast<std::ptrdiff_t>(number);
    for (int i = rank - 2; i >= 0; rest /= dimensions[i--].size) {
      from += rest % dimensions[i].size * dimensions[i].source_stride;
      to += rest % dimensions[i].size * dimensions[i].destination_stride;
    }
    const Dimension& inner = dimensions[rank - 1];
    const auto in = static_cast<std::ptrdiff_t>(kind->source_bytes), out = static_cast<std::ptrdiff_t>(kind->destination_bytes);
    unsigned char* const of_row = scales + number * blocks_per_row;
    constexpr std::size_t few = 8;  // blocks in a buffer
    const bool contiguous = inner.source_stride == 1 && inner.destination_stride == 1;
    for (std::size_t n = end - begin; begin < end; begin += n) {
      n = contiguous || end - begin < few ? end - begin : few;
      const std::size_t first = begin * mx_block, left = row - first;
      const std::size_t elements = left < n * mx_block ? left : n * mx_block;
      const auto at = static_cast<std::ptrdiff_t>(first), count = static_cast<std::ptrdiff_t>(elements);
      const unsigned char* const read = source + (from + at * inner.source_stride) * in;
      unsigned char* const written = destination + (to + at * inner.destination_stride) * out;
      alignas(64) unsigned char gathered[few * mx_block * 8], results[few * mx_block * 8];
      if (!contiguous) copy_strided(gathered, in, read, inner.source_stride * in, in, count);
      const Piece pieces[] = {{contiguous ? read : gathered, contiguous ? written : results, elements},
                              {of_row + begin, of_row + begin, n}};
      kind->kernels[op][isa_index()](pieces, pieces + 2, static_cast<double>(rule), false, found);
      if (!contiguous) copy_strided(written, inner.destination_stride * out, results, out, out, count);
    }
  }
};

/// Checks the leaves of three trees and lists them. With `quantizes`, the values are the source.
template <class VerbOps, bool quantizes>
struct ListMxLeaves {
  std::vector<MxLeaf>& leaves;

  template <class From, class To, class Scales>
  void operator()(const Path& path, From& source, To& destination, Scales& scales) const {
    auto* const from = detail::data_of(source);
    auto* const to = detail::data_of(destination);
    auto* const bytes = detail::data_of(scales);
    using Scale = std::remove_pointer_t<decltype(bytes)>;
    static_assert(std::is_same_v<std::remove_const_t<Scale>, e8m0>, "headroom: the scales of MX blocks are of type e8m0");
    check_is_writable<std::remove_pointer_t<decltype(to)>>();
    if constexpr (quantizes) check_is_writable<Scale>();
    using In = format_of<std::remove_pointer_t<decltype(from)>>;
    using Out = format_of<std::remove_pointer_t<decltype(to)>>;
    static_assert(is_fp8<std::conditional_t<quantizes, Out, In>>, "headroom: MX codes are of type float8_e4m3 or float8_e5m2");
    constexpr auto& kind = VerbOps::template kind<In, Out>;
    detail::check_walkable(path, "the source", source, from, detail::size_of(source));
    detail::check_walkable(path, "the destination", destination, to, detail::size_of(destination));
    detail::check_walkable(path, "the scales", scales, bytes, detail::size_of(scales));
    Layout read = detail::checked_layout_of(path, "the source", source);
    Layout written = detail::checked_layout_of(path, "the destination", destination);
    const LoopNest nest = common_nest(path, read, written);
    check_apart(path, from, to, detail::size_of(source), kind, true, &nest);
    if (!read.same_shape(written)) (quantizes ? written : read) = quantizes ? read : written;  // one is flat, neither has gaps
    const Layout of_scales = detail::checked_layout_of(path, "the scales", scales);
    if (!LoopNest(of_scales, of_scales).is_contiguous()) throw_bad_leaf(path, "the scales", {"have gaps"});
    MxLeaf leaf{reinterpret_cast<const unsigned char*>(from),
                reinterpret_cast<unsigned char*>(to),
                reinterpret_cast<unsigned char*>(const_cast<e8m0*>(bytes)),
                &kind,
                0,
                0,
                0,
                0,
                {}};
    leaf.set_dimensions(quantizes ? read : written, read, written);
    if (detail::size_of(scales) != leaf.rows * leaf.blocks_per_row) {
      throw_structure_differs(path, {std::to_string(leaf.rows), " rows of ", std::to_string(leaf.row), " elements need ",
                                     std::to_string(leaf.rows * leaf.blocks_per_row), " scales, there are ",
                                     std::to_string(detail::size_of(scales))});
    }
    leaves.push_back(leaf);
  }
};

template <class VerbOps, bool quantizes, class Executor, class Source, class Destination, class Scales>
GradientReport run_mx(const Executor& executor, const Source& source, Destination& destination, Scales& scales, MxScale rule) {
  static_assert(!has_dynamic_node_v<Source> && !has_dynamic_node_v<Destination> && !has_dynamic_node_v<Scales>,
                "headroom: MX verbs take trees whose dtypes are known at compile time");
  std::vector<MxLeaf> leaves;
  const ListMxLeaves<VerbOps, quantizes> visit{leaves};
  detail::walk(root, visit, source, destination, scales);
  std::size_t blocks = 0;
  for (const MxLeaf& leaf : leaves) blocks += leaf.rows * leaf.blocks_per_row;
  const std::size_t shares = detail::count_shares(executor, blocks * mx_block);
  std::vector<Found> found(shares, Found{0, 0.0});
  const auto run_share = [&](std::size_t share) {
    std::size_t begin = blocks / shares * share, end = share + 1 == shares ? blocks : begin + blocks / shares;
    for (const MxLeaf& leaf : leaves) {
      const std::size_t here = leaf.rows * leaf.blocks_per_row;
      for (std::size_t at = begin, n = 0; at < end && at < here; at += n) {
        const std::size_t first = at % leaf.blocks_per_row, left = leaf.blocks_per_row - first;
        n = left < end - at ? left : end - at;
        leaf.run(at / leaf.blocks_per_row, first, first + n, 0, rule, found[share]);
      }
      begin = begin > here ? begin - here : 0;
      end = end > here ? end - here : 0;
    }
  };
  (void)isa_index();  // chooses the instruction set, which may throw
  if (shares == 1) run_share(0);
  if (shares > 1) executor.run(shares, run_share);
  for (const Found& of_share : found) add_largest(found[0], of_share.largest);
  return report_of(found[0]);
}

}  // namespace detail

/// Writes a tree in an MX format, in one pass: 8-bit codes, and one scale for each block of 32 elements.
/// - A block lies along the dimension of stride 1: the rows of a row-major matrix, the columns of a column-major one. Blocks
///   begin anew with each row or column. The last may be shorter; it counts as padded with zeros.
/// - `destination`: the same structure and shapes as `source`, with leaves of float8_e4m3 or float8_e5m2.
/// - `scales`: the same structure, with leaves of e8m0: ceil(length / 32) for each row or column, one after the other.
///
/// Each may be a tree or a span. An element becomes element / scale, rounded once to nearest-even and saturated. All codes of a
/// block are NaN, and its scale too, if an element is Inf or NaN, or if `rule` would round its largest magnitude to Inf. Then
/// the report is not finite. Throws std::invalid_argument, before anything is written, if the trees do not fit.
template <class Executor, class Source, class Destination, class Scales>
GradientReport mx_quantize_into(const Executor& executor, const Source& source, Destination&& destination, Scales&& scales,
                                MxScale rule) {
  return detail::run_mx<detail::Ops<detail::Op::mx_quantize>, true>(executor, source, destination, scales, rule);
}
template <class Source, class Destination, class Scales>
GradientReport mx_quantize_into(const Source& source, Destination&& destination, Scales&& scales, MxScale rule) {
  return headroom::mx_quantize_into(sequential, source, destination, scales, rule);
}

/// Writes code * scale into a tree of any floating-point dtypes, rounded once. Shapes and scales are those of mx_quantize_into,
/// with blocks along the dimension of stride 1 of `destination`. Throws as mx_quantize_into does.
template <class Executor, class Source, class Scales, class Destination>
void mx_dequantize_into(const Executor& executor, const Source& source, const Scales& scales, Destination&& destination) {
  (void)detail::run_mx<detail::Ops<detail::Op::mx_dequantize>, false>(executor, source, destination, scales, MxScale::floor);
}
template <class Source, class Scales, class Destination>
void mx_dequantize_into(const Source& source, const Scales& scales, Destination&& destination) {
  headroom::mx_dequantize_into(sequential, source, scales, destination);
}

HEADROOM_DETAIL_END_NAMESPACE
