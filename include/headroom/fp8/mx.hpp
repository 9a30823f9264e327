#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/fp8/quantize.hpp>
#include <headroom/report.hpp>
#include <headroom/tree/visit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

// Blocks of 32 elements with a scale each, as in the MXFP8 formats of the OCP Microscaling specification, version 1.0.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
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
    if (bits == binary32::sign_mask) return 0;
    const std::uint32_t tie = bits <= binary32::mantissa_mask ? 1U << 21 : 1U << 22;  // 2^-127 is a subnormal float
    const std::uint32_t rounded = (bits + tie) >> binary32::mantissa_bits;
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

/// The blocks of a leaf. Every `row` elements start a new block.
struct MxLeaf {
  std::size_t row, size;
  std::uint8_t* scales;

  [[nodiscard]] std::size_t blocks_per_row() const noexcept { return (row + mx_block - 1) / mx_block; }
  [[nodiscard]] std::size_t blocks() const noexcept { return size == 0 ? 0 : size / row * blocks_per_row(); }
  /// The number of the first block that begins at this element or later.
  [[nodiscard]] std::size_t block_from(std::size_t element) const noexcept {
    return element / row * blocks_per_row() + (element % row + mx_block - 1) / mx_block;
  }
  /// Calls `f(part, scales)` for the blocks that begin in `part`: at most `most` neighbours of one row at a time.
  template <class F>
  void for_each_block(const LeafPart& part, std::size_t most, const F& f) const {
    const std::size_t end = block_from(part.end);
    for (std::size_t block = block_from(part.begin), n = 0; block < end; block += n) {
      const std::size_t of_row = block % blocks_per_row(), left = blocks_per_row() - of_row;
      n = std::min({most, left, end - block});
      const std::size_t row_begin = block / blocks_per_row() * row, stop = std::min((of_row + n) * mx_block, row);
      f(LeafPart{part.plan, part.group, part.piece, row_begin + of_row * mx_block, row_begin + stop}, scales + block);
    }
  }
};

[[nodiscard]] inline std::uint64_t mx_quantize_part(const LeafPart& part, const MxLeaf& leaf, MxScale rule) {
  constexpr std::size_t most = 8;  // blocks of a leaf with gaps, in a buffer
  const bool has_gaps = part.group.depth != 0;
  Found found{0, 0.0};
  leaf.for_each_block(part, has_gaps ? most : leaf.blocks(), [&](const LeafPart& blocks, std::uint8_t* scales) {
    alignas(64) unsigned char values[most * mx_block * sizeof(double)], codes[most * mx_block];
    const std::size_t n = blocks.end - blocks.begin;
    const Piece& piece = part.piece;
    Piece pieces[] = {{static_cast<const unsigned char*>(piece.source) + blocks.begin * part.group.kind->source_bytes,
                       static_cast<unsigned char*>(piece.destination) + blocks.begin, n},
                      {nullptr, scales, (n + mx_block - 1) / mx_block}};
    if (has_gaps) {
      StridedElements(part.plan, part.group, &Dimension::source_stride, piece.source, blocks.begin).copy(values, n, true);
      pieces[0] = {values, codes, n};
    }
    part.group.kind->kernels[0][isa_index()](pieces, pieces + 2, static_cast<double>(rule), false, found);
    if (!has_gaps) return;
    StridedElements(part.plan, part.group, &Dimension::destination_stride, piece.destination, blocks.begin)
        .copy(codes, n, false);
  });
  return found.largest;
}

/// Whether two layouts of one shape have their dimensions in the same order in memory.
[[nodiscard]] inline bool same_order(const Layout& a, const Layout& b) noexcept {
  const auto is_inside = [](const Layout& layout, int i, int j) {
    return std::abs(layout.stride(i)) < std::abs(layout.stride(j));
  };
  for (int i = 0; i < a.rank(); ++i) {
    for (int j = 0; j < a.rank(); ++j) {
      if (is_inside(a, i, j) != is_inside(b, i, j)) return false;
    }
  }
  return true;
}
/// The dimension with the shortest stride. A layout without dimensions has one element.
[[nodiscard]] inline int inner_dimension(const Layout& layout) noexcept {
  int inner = 0;
  for (int i = 1; i < layout.rank(); ++i) {
    if (std::abs(layout.stride(i)) <= std::abs(layout.stride(inner))) inner = i;
  }
  return inner;
}
/// Lists the leaves in the order of the plan.
template <bool quantizes>
struct ListMxLeaves {
  std::vector<MxLeaf>& leaves;

  template <class Source, class Destination, class Scales>
  void operator()(const Path& path, const Source& source, const Destination& destination, Scales& scales) const {
    if constexpr (quantizes) add(path, source, destination, scales);
    if constexpr (!quantizes) add(path, destination, source, scales);
  }

 private:
  template <class Values, class Codes, class Scales>
  void add(const Path& path, const Values& values, const Codes& codes, Scales& scales) const {
    auto* const bytes = detail::data_of(scales);
    using Scale = std::remove_pointer_t<decltype(bytes)>;
    if constexpr (quantizes) check_is_writable<Scale>();
    using Code = std::remove_const_t<std::remove_pointer_t<decltype(detail::data_of(codes))>>;
    static_assert(std::is_same_v<std::remove_const_t<Scale>, e8m0> && is_fp8<format_of<Code>>,
                  "headroom: MX codes are float8_e4m3 or float8_e5m2, and the scales of their blocks are e8m0");
    const Layout layout = detail::layout_of(values), of_codes = detail::layout_of(codes);
    if (layout.same_shape(of_codes) && !same_order(layout, of_codes)) {
      throw_structure_differs(path, {"the values and the codes have different orders in memory"});
    }
    const std::size_t size = detail::size_of(values), scale_count = detail::size_of(scales);
    detail::check_walkable(path, "the scale tree", scales, bytes, scale_count, quantizes);
    const Layout of_scales = detail::checked_layout_of(path, "the scale tree", scales);
    if (!LoopNest(of_scales, of_scales).is_contiguous()) throw_bad_leaf(path, "the scale tree", {"has gaps"});
    std::size_t row = layout.rank() == 0 ? 1 : static_cast<std::size_t>(layout.shape(inner_dimension(layout)));
    if (row % mx_block == 0) row = size;  // the blocks are the same, and there are fewer rows
    leaves.push_back({row, size, reinterpret_cast<std::uint8_t*>(const_cast<e8m0*>(bytes))});
    const std::size_t blocks = leaves.back().blocks();
    if (blocks == scale_count) return;
    throw_structure_differs(
        path, {"there are ", std::to_string(blocks), " blocks of 32 and ", std::to_string(scale_count), " scales"});
  }
};
template <bool quantizes, class Source, class Destination, class Scales>
[[nodiscard]] std::vector<MxLeaf> mx_leaves(const Source& source, const Destination& destination, Scales& scales) {
  static_assert(!has_dynamic_node_v<Source> && !has_dynamic_node_v<Destination> && !has_dynamic_node_v<Scales>,
                "headroom: MX verbs take trees whose dtypes are known at compile time");
  std::vector<MxLeaf> leaves;
  const ListMxLeaves<quantizes> visit{leaves};
  detail::walk(root, visit, source, destination, scales);
  return leaves;
}

}  // namespace detail

/// Writes a tree in an MX format, in one pass: 8-bit codes, and one scale for each block of 32 elements.
/// - A block lies along the dimension of stride 1: the rows of a row-major matrix, the columns of a column-major one. Blocks
///   begin anew with each row or column. The last may be shorter; it counts as padded with zeros. Dimensions of one element do
///   not count: a 70 x 1 matrix is a flat tensor of 70.
/// - `destination`: structure, shapes and order in memory of `source`, with leaves of float8_e4m3 or float8_e5m2.
/// - `scales`: the same structure, with leaves of e8m0: ceil(length / 32) for each row or column, one after the other.
///
/// Each may be a tree or a span. An element becomes element / scale, rounded once to nearest-even and saturated. All codes of a
/// block are NaN, and its scale too, if an element is Inf, NaN or a double beyond float, or if `rule` would round its largest
/// magnitude to Inf. Then the report is not finite. Throws std::invalid_argument and writes nothing if the trees do not fit.
template <class Executor, class Source, class Destination, class Scales>
GradientReport mx_quantize_into(const Executor& executor, const Source& source, Destination&& destination, Scales&& scales,
                                MxScale rule) {
  detail::Plan plan;
  detail::make_plan<detail::Ops<detail::Op::mx_quantize>, detail::Access::into>(plan, source, destination);
  const std::vector<detail::MxLeaf> leaves = detail::mx_leaves<true>(source, destination, scales);
  return detail::report_of_leaves(detail::run_leaves(executor, plan, [&](std::size_t leaf, const detail::LeafPart& part) {
    return detail::mx_quantize_part(part, leaves[leaf], rule);
  }));
}
template <class Source, class Destination, class Scales>
GradientReport mx_quantize_into(const Source& source, Destination&& destination, Scales&& scales, MxScale rule) {
  return headroom::mx_quantize_into(sequential, source, destination, scales, rule);
}

/// Writes code * scale into a tree of any floating-point dtypes, rounded once. Shapes and scales are those of mx_quantize_into,
/// with blocks along the dimension of stride 1 of `destination`. If the CPU flushes subnormal floats, the scale 2^-127 counts
/// as 0. Throws as mx_quantize_into does.
template <class Executor, class Source, class Scales, class Destination>
void mx_dequantize_into(const Executor& executor, const Source& source, const Scales& scales, Destination&& destination) {
  detail::Plan plan;
  detail::make_plan<detail::DequantizeOps, detail::Access::into>(plan, source, destination);
  const std::vector<detail::MxLeaf> leaves = detail::mx_leaves<false>(source, destination, scales);
  (void)detail::run_leaves(executor, plan, [&](std::size_t leaf, const detail::LeafPart& part) {
    leaves[leaf].for_each_block(part, 1, [](const detail::LeafPart& block, const std::uint8_t* scale) {
      (void)block.run(static_cast<float>(e8m0::from_bits(*scale)), false);
    });
    return std::uint64_t{0};
  });
}
template <class Source, class Scales, class Destination>
void mx_dequantize_into(const Source& source, const Scales& scales, Destination&& destination) {
  headroom::mx_dequantize_into(sequential, source, scales, destination);
}

HEADROOM_DETAIL_END_NAMESPACE
