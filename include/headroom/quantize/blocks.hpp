#pragma once

#include <headroom/kernel/table.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/quantize/block_rules.hpp>
#include <headroom/quantize/quantize.hpp>
#include <headroom/report.hpp>
#include <headroom/tree/std.hpp>
#include <headroom/tree/visit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The elements that have one scale. 0 stands for all rows or all columns: {1, 0} is a scale for each row. Blocks at the edges
/// of a matrix are cut off.
struct BlockShape {
  std::size_t rows;     ///< of a block
  std::size_t columns;  ///< of a block; even for float4_e2m1x2
};

namespace detail {

/// A tensor as a matrix: all its dimensions but the last are rows.
struct Rows {
  const char* name;
  unsigned char* data;
  std::size_t bytes;  // of an element
  Layout layout;
  std::size_t size, columns;

  [[nodiscard]] std::size_t rows() const noexcept { return columns == 0 ? 0 : size / columns; }
  /// From the tensor to a row-major copy without gaps.
  [[nodiscard]] LoopNest nest() const noexcept {
    Layout dense;
    std::ptrdiff_t stride = layout.size();
    for (int i = 0; i < layout.rank() && stride != 0; ++i) dense.push(layout.shape(i), stride /= layout.shape(i));
    return {layout, dense};
  }
  /// Of a tensor with gaps only the first byte counts.
  [[nodiscard]] std::size_t bytes_taken() const noexcept { return nest().is_contiguous() ? size * bytes : 1; }
};
template <class Leaf>
[[nodiscard]] Rows rows_of(const char* name, Leaf& leaf, bool writes) {
  auto* const data = detail::data_of(leaf);
  const std::size_t size = detail::size_of(leaf);
  detail::check_walkable(root, name, leaf, data, size, writes);
  const Layout layout = detail::checked_layout_of(root, name, leaf);
  auto* const bytes = static_cast<unsigned char*>(const_cast<void*>(static_cast<const void*>(data)));
  return {name, bytes, sizeof *data, layout, size, static_cast<std::size_t>(layout.columns())};
}
inline void check_rows(const Rows& of, std::size_t rows, std::size_t columns) {
  if (!of.nest().is_contiguous()) throw_invalid_argument({of.name, " have gaps or are not row-major"});
  if (of.size == rows * columns && (of.rows() <= 1 || of.columns == columns)) return;
  throw_invalid_argument({of.name, " are ", std::to_string(of.rows()), "x", std::to_string(of.columns), "; they must be ",
                          std::to_string(rows), "x", std::to_string(columns), ", or as many in one row"});
}
inline void check_disjoint(const Rows& a, const Rows& b) {
  const auto from = reinterpret_cast<std::uintptr_t>(a.data), to = reinterpret_cast<std::uintptr_t>(b.data);
  if (from < to + b.bytes_taken() && to < from + a.bytes_taken()) throw_invalid_argument({a.name, " overlap ", b.name});
}

/// What depends on the dtypes of values and codes.
struct BlockKernels {
  const Kernel *max_abs, *scale;
  float largest;  // number of the values' dtype
};

/// Neighbouring blocks.
struct Tile {
  static constexpr std::size_t most = 256;
  std::size_t row, rows, column, columns, first_block, blocks;
};
/// A matrix of values, their codes and scales.
struct Blocks {
  unsigned char *values, *codes, *scales;
  std::size_t value_bytes, rows, columns;
  BlockShape shape;
  bool packed;  // two codes in a byte

  [[nodiscard]] unsigned char* values_at(std::size_t row, std::size_t column) const noexcept {
    return values + (row * columns + column) * value_bytes;
  }
  [[nodiscard]] unsigned char* codes_at(std::size_t row, std::size_t column) const noexcept {
    return packed ? codes + row * ((columns + 1) / 2) + column / 2 : codes + row * columns + column;
  }
  /// Calls f(tile) for tiles of about `most_elements`, but at least a block, in several threads if it is worth it. Returns the
  /// largest result.
  template <class F>
  std::uint64_t for_each_tile(const Executor& executor, std::size_t most_elements, const F& f) const {
    (void)isa_index();  // chooses the instruction set, which may throw
    const std::size_t across = (columns + shape.columns - 1) / shape.columns, down = (rows + shape.rows - 1) / shape.rows;
    const std::size_t that_fit = std::max(most_elements / (shape.rows * shape.columns), std::size_t{1});
    const std::size_t wide = std::min({across, Tile::most, that_fit}), tiles_across = (across + wide - 1) / wide;
    const std::size_t tiles = down * tiles_across, count = std::min(count_shares(executor, rows * columns), tiles);
    LeafMaxima largest(count);
    const auto run_share = [&](std::size_t share) {
      for (std::size_t i = tiles * share / count; i < tiles * (share + 1) / count; ++i) {
        const std::size_t row = i / tiles_across * shape.rows, block = i % tiles_across * wide, column = block * shape.columns;
        const std::size_t n = std::min(wide, across - block);
        largest[share] = std::max(
            largest[share], f(Tile{row, std::min(shape.rows, rows - row), column, std::min(n * shape.columns, columns - column),
                                   row / shape.rows * across + block, n}));
      }
    };
    executor.run(count, run_share);
    return *std::max_element(largest.begin(), largest.end());
  }
};

template <class Rule>
using check_t = decltype(std::declval<const Rule&>().check());

/// Calls f(blocks, kernels) for tensors that fit.
template <bool quantizes, class Code, class F>
void with_rows(const Rows& values, const Rows& codes, const Rows& scales, BlockShape shape, const BlockKernels& kernels,
               const F& f) {
  constexpr bool packed = is_packed<Code>;
  std::size_t rows = values.rows(), columns = values.columns;
  if (shape.rows == 0 || shape.rows > rows) shape.rows = std::max(rows, std::size_t{1});
  if (packed && shape.columns % 2 != 0 && shape.columns < columns)
    throw_invalid_argument({"a block of float4_e2m1x2 has ", std::to_string(shape.columns), " columns; it must be even"});
  if (shape.columns == 0 || shape.columns > columns) shape.columns = std::max(columns, std::size_t{1});
  check_rows(codes, rows, packed ? (columns + 1) / 2 : columns);
  check_rows(scales, (rows + shape.rows - 1) / shape.rows, (columns + shape.columns - 1) / shape.columns);
  if (!quantizes) check_distinct_elements(root, values.name, values.size, LoopNest(values.layout, values.layout));
  check_disjoint(codes, values);
  check_disjoint(scales, values);
  if (quantizes) check_disjoint(scales, codes);
  if (values.size == 0) return;
  const LoopNest nest = values.nest();
  std::vector<unsigned char> copy(nest.is_contiguous() ? 0 : values.size * values.bytes);
  StridedElements elements(nest.dimensions, nest.depth, &Dimension::source_stride, values.bytes, values.data);
  if (quantizes && !copy.empty()) elements.copy(copy.data(), values.size, true);
  if (shape.rows == 1 && columns % shape.columns == 0 && !(packed && columns % 2 != 0)) {
    columns = values.size;  // one long row has the same blocks
    rows = 1;
  }
  f(Blocks{copy.empty() ? values.data : copy.data(), codes.data, scales.data, values.bytes, rows, columns, shape, packed},
    kernels);
  if (!quantizes && !copy.empty()) elements.copy(copy.data(), values.size, false);
}
/// The element type of codes or scales.
template <class Tensor>
struct element_of {
  static_assert(node_kind_v<bare<Tensor>> == node_kind::tensor,
                "headroom: codes and scales are vectors, spans or matrices of a dtype; reinterpret_cast bytes to float8_e4m3, "
                "float8_e5m2, float4_e2m1x2 or e8m0");
  using type = std::remove_pointer_t<decltype(detail::data_of(std::declval<std::remove_reference_t<Tensor>&>()))>;
};
/// Calls f(blocks, kernels) for values of any dtype.
template <bool quantizes, class Values, class Codes, class Scales, class F>
void with_blocks(Values& values, Codes& codes, Scales& scales, const BlockShape& shape, const F& f) {
  using Code = format_of<typename element_of<Codes>::type>;
  static_assert(is_code<Code>, "headroom: the codes of blocks are float8_e4m3, float8_e5m2 or float4_e2m1x2");
  static_assert(is_dynamic_node_v<Values> || node_kind_v<Values> == node_kind::tensor,
                "headroom: the verbs for blocks take one tensor of floating-point elements, not a tree");
  const char* const name = quantizes ? "the source" : "the destination";
  bool found = false;
  const auto visit = [&](const Path&, auto& leaf) {
    using Format = format_of<std::remove_pointer_t<decltype(detail::data_of(leaf))>>;
    if constexpr (!is_code<Format> && Format::mantissa_bits != 0) {
      constexpr std::uint32_t largest = convert_bits<Format, saturating<binary32>>(Format::largest_finite_bits);
      const Kernel *const max_abs = kernels<Op::block_max_abs, Format>, *scale = nullptr;
      if constexpr (quantizes) scale = kernels<Op::scale_blocks, Format, Code>;
      if constexpr (!quantizes) scale = kernels<Op::scale_blocks, Code, Format>;
      found = true;
      with_rows<quantizes, Code>(detail::rows_of(name, leaf, !quantizes), detail::rows_of("the codes", codes, quantizes),
                                 detail::rows_of("the scales", scales, quantizes), shape,
                                 BlockKernels{max_abs, scale, bit_cast<float>(largest)}, f);
    }
  };
  detail::walk(root, visit, values);
  if (!found) throw_invalid_argument({name, " has integers or codes as elements; it must have floats of 16 bits or more"});
}

/// Quantizes a tile. Returns the largest magnitude, or Inf if a rule makes NaN of elements.
template <class Format, class Rule>
std::uint64_t quantize_tile(const Blocks& blocks, const BlockKernels& kernels, const Rule& rule, const Tile& tile) {
  std::uint32_t maxima[Tile::most] = {};
  float factors[Tile::most];
  Found found{0, 0.0};
  const auto width = static_cast<double>(blocks.shape.columns);
  for (std::size_t i = 0; i < tile.rows; ++i) {
    const Piece row{blocks.values_at(tile.row + i, tile.column), maxima, tile.columns};
    kernels.max_abs[isa_index()](&row, &row + 1, Rule::passes_over_nan ? -width : width, false, found);
  }
  for (std::size_t b = 0; b < tile.blocks; ++b) {
    const auto scale = rule.template scale<Format>(bit_cast<float>(maxima[b]), kernels.largest);
    std::memcpy(blocks.scales + (tile.first_block + b) * sizeof scale.stored, &scale.stored, sizeof scale.stored);
    factors[b] = scale.factor;
    const std::uint32_t factor = magnitude_bits(scale.factor);  // Inf: makes NaN of 0; an amax of Inf may be that of a double
    if (larger_of(factor, maxima[b]) >= binary32::infinity_bits) add_largest(found, binary64::infinity_bits);
  }
  for (std::size_t i = 0; i < tile.rows; ++i) {
    const Piece row[] = {
        {blocks.values_at(tile.row + i, tile.column), blocks.codes_at(tile.row + i, tile.column), tile.columns},
        {factors, nullptr, blocks.shape.columns}};
    kernels.scale[isa_index()](row, row + 2, Rule::divides ? -1.0 : 1.0, false, found);
  }
  return found.largest;
}
/// Writes scale * tensor_scale for the blocks of a tile.
template <class Format>
void scales_to_factors(const unsigned char* scales, std::size_t n, float tensor_scale, float* factors) {
  if constexpr (std::is_same_v<Format, exponent_format>) {
    for (std::size_t b = 0; b < n; ++b) factors[b] = static_cast<float>(e8m0::from_bits(scales[b]));
    return scales_to_factors<binary32>(reinterpret_cast<const unsigned char*>(factors), n, tensor_scale, factors);
  } else {
    const Piece piece{scales, factors, n};
    Found found{0, 0.0};
    kernels<Op::scale, Format, binary32>[isa_index()](&piece, &piece + 1, static_cast<double>(tensor_scale), false, found);
    for (std::size_t b = 0; !is_finite(found) && b < n; ++b)
      if (magnitude_bits(factors[b]) > binary32::infinity_bits) factors[b] = bit_cast<float>(binary32::quiet_nan_bits);
  }
}

}  // namespace detail

/// Quantizes a tensor with a scale for each block, by a rule of quantize/block_rules.hpp. Elements are multiplied or divided in
/// float (in double if the source is), rounded once to nearest-even, and saturate.
/// - `source`: one tensor of any floating-point dtype and strides. All its dimensions but the last are rows.
/// - `codes`: float8_e4m3, float8_e5m2 or float4_e2m1x2, row-major without gaps: a matrix, or a vector or span with as many
///   elements. A row of an odd number of 4-bit codes ends with half a byte of 0.
/// - `scales`: ceil(rows / block rows) x ceil(columns / block columns), likewise, of the rule's `scale_type`.
///
/// The report is that of the source; it is not finite either if a rule makes codes NaN. Throws std::invalid_argument and writes
/// nothing if sizes do not fit, if the tensors overlap, or if a setting of the rule is out of range.
template <class Source, class Codes, class Scales, class Rule>
GradientReport quantize_blocks_into(const Source& source, Codes&& codes, Scales&& scales, BlockShape shape, const Rule& rule,
                                    const Executor& executor = sequential) {
  using Code = typename detail::element_of<Codes>::type;
  using Scale = typename detail::element_of<Scales>::type;
  static_assert(std::is_same_v<detail::format_of<Scale>, detail::format_of<typename Rule::scale_type>>,
                "headroom: the scales have another dtype than this rule stores: see its scale_type");
  if constexpr (detail::is_detected_v<detail::check_t, Rule>) rule.check();
  detail::Found all{0, 0.0};
  if constexpr (detail::check_is_writable<Code>() && detail::check_is_writable<Scale>()) {
    const auto run = [&](const detail::Blocks& blocks, const detail::BlockKernels& kernels) {
      // A tile is read twice: half of a small second-level cache.
      all.largest =
          blocks.for_each_tile(executor, (std::size_t{128} << 10) / blocks.value_bytes, [&](const detail::Tile& tile) {
            return detail::quantize_tile<detail::format_of<Code>>(blocks, kernels, rule, tile);
          });
    };
    detail::with_blocks<true>(source, codes, scales, shape, run);
  }
  return detail::report_of(all);
}

/// Writes code * (scale * tensor_scale), computed in float and rounded once, into a tensor of any floating-point dtype and
/// strides. Codes and scales are those of quantize_blocks_into; scales are float, e8m0 or float8_e4m3. Systems that store
/// something else, such as a reciprocal, differ in the last bit: see docs/quantize.md. Throws as quantize_blocks_into does.
template <class Codes, class Scales, class Destination>
void dequantize_blocks_into(const Codes& codes, const Scales& scales, Destination&& destination, BlockShape shape,
                            float tensor_scale = 1.0F, const Executor& executor = sequential) {
  using Scale = detail::format_of<typename detail::element_of<Scales>::type>;
  static_assert(
      std::is_same_v<Scale, binary32> || std::is_same_v<Scale, detail::exponent_format> || std::is_same_v<Scale, e4m3>,
      "headroom: the scales of blocks are float, e8m0 or float8_e4m3");
  const auto run = [&](const detail::Blocks& blocks, const detail::BlockKernels& kernels) {
    (void)blocks.for_each_tile(executor, SIZE_MAX, [&](const detail::Tile& tile) {
      float factors[detail::Tile::most];
      detail::scales_to_factors<Scale>(blocks.scales + tile.first_block * sizeof(typename Scale::bits_type), tile.blocks,
                                       tensor_scale, factors);
      detail::Found unused{0, 0.0};
      for (std::size_t i = tile.row; i < tile.row + tile.rows; ++i) {
        const detail::Piece row[] = {{blocks.codes_at(i, tile.column), blocks.values_at(i, tile.column), tile.columns},
                                     {factors, nullptr, blocks.shape.columns}};
        kernels.scale[detail::isa_index()](row, row + 2, 1.0, false, unused);
      }
      return std::uint64_t{0};
    });
  };
  detail::with_blocks<false>(destination, codes, scales, shape, run);
}

HEADROOM_DETAIL_END_NAMESPACE
