#pragma once

#include <headroom/kernel/table.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/quantize/block_rules.hpp>
#include <headroom/report.hpp>
#include <headroom/tree/matrix.hpp>
#include <headroom/tree/visit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
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
  std::ptrdiff_t bytes;  // of an element
  Layout layout;
  std::size_t columns, rows;

  Rows(const char* of, const void* first, std::size_t element, const Layout& its_layout, std::size_t size) noexcept
      : name(of),
        data(static_cast<unsigned char*>(const_cast<void*>(first))),
        bytes(static_cast<std::ptrdiff_t>(element)),
        layout(its_layout),
        columns(static_cast<std::size_t>(its_layout.columns())),
        rows(columns == 0 ? 0 : size / columns) {}
  [[nodiscard]] std::size_t size() const noexcept { return rows * columns; }
  [[nodiscard]] std::ptrdiff_t column_step() const noexcept {
    return columns == 1 ? bytes : layout.stride(layout.rank() - 1) * bytes;
  }
  [[nodiscard]] bool is_dense() const noexcept {
    bool is_dense = true;
    std::ptrdiff_t stride = 1;
    for (int i = layout.rank(); i-- > 0; stride *= layout.shape(i)) is_dense = is_dense && layout.stride(i) == stride;
    return is_dense || size() == 0;
  }
  [[nodiscard]] unsigned char* at(std::size_t row, std::size_t column) const noexcept {
    std::ptrdiff_t offset = 0;
    auto rest = static_cast<std::ptrdiff_t>(row);
    for (int i = layout.rank() - (columns == 1 ? 1 : 2); i >= 0; rest /= layout.shape(i--))
      offset += rest % layout.shape(i) * layout.stride(i);
    return data + offset * bytes + static_cast<std::ptrdiff_t>(column) * column_step();
  }
  /// Whether a byte from the first to the last element is one of the other.
  [[nodiscard]] bool meets(const Rows& other) const noexcept {
    if (size() == 0 || other.size() == 0) return false;
    return first_byte() < other.end_byte() && other.first_byte() < end_byte();
  }

 private:
  [[nodiscard]] std::uintptr_t first_byte() const noexcept { return extreme(-1); }
  [[nodiscard]] std::uintptr_t end_byte() const noexcept { return extreme(1) + static_cast<std::uintptr_t>(bytes); }
  [[nodiscard]] std::uintptr_t extreme(int sign) const noexcept {
    std::ptrdiff_t offset = 0;
    for (int i = 0; i < layout.rank(); ++i)
      if (layout.stride(i) * sign > 0) offset += (layout.shape(i) - 1) * layout.stride(i);
    return reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(offset * bytes);
  }
};
template <class Leaf>
[[nodiscard]] Rows rows_of(const char* name, Leaf& leaf, bool writes) {
  auto* const data = detail::data_of(leaf);
  const std::size_t size = detail::size_of(leaf);
  detail::check_walkable(root, name, leaf, data, size, writes);
  return {name, data, sizeof *data, detail::checked_layout_of(root, name, leaf), size};
}

/// The values of a tensor, their codes and scales, and the work on them: tiles, which are neighbouring blocks.
struct Blocks {
  static constexpr std::size_t most = 256;  // blocks in a tile
  Rows values, codes, scales;
  BlockShape shape;
  bool packed;  // two codes in a byte
  std::size_t across = 0, tile_blocks = 0, tiles_across = 0, tiles = 0;

  /// A part of a row of a tile.
  struct Tile {
    std::size_t row, rows, column, columns, first_block, blocks;
  };

  /// Throws std::invalid_argument if they do not fit. A tile has about `tile_elements`, and at least one block.
  void prepare(bool quantizes, std::size_t tile_elements) {
    const std::size_t row_bytes = packed ? (values.columns + 1) / 2 : values.columns;
    if (shape.rows == 0) shape.rows = std::max(values.rows, std::size_t{1});
    if (shape.columns == 0 || shape.columns > values.columns) shape.columns = std::max(values.columns, std::size_t{1});
    if (packed && shape.columns % 2 != 0 && shape.columns != values.columns)
      throw_invalid_argument({"a block of float4_e2m1x2 has ", std::to_string(shape.columns), " columns; it must be even"});
    across = (values.columns + shape.columns - 1) / shape.columns;
    check_shape(codes, values.rows, row_bytes);
    check_shape(scales, (values.rows + shape.rows - 1) / shape.rows, across);
    const LoopNest nest(values.layout, values.layout);
    if (!quantizes) check_distinct_elements(root, values.name, values.size(), nest);
    if (codes.meets(values) || scales.meets(values) || (quantizes && codes.meets(scales)))
      throw_invalid_argument({"the values, the codes and the scales overlap"});
    if (shape.rows == 1 && values.columns % shape.columns == 0 && values.is_dense() && !(packed && values.columns % 2 != 0)) {
      values.columns = values.size();  // one long row has the same blocks
      values.rows = values.columns == 0 ? 0 : 1;
      values.layout = Layout();
      values.layout.push(static_cast<std::ptrdiff_t>(values.columns), 1);
      across = values.columns / shape.columns;
    }
    if (values.size() == 0) return;
    tile_blocks =
        std::min({across, most, std::max(tile_elements / (std::min(shape.rows, values.rows) * shape.columns), std::size_t{1})});
    tiles_across = (across + tile_blocks - 1) / tile_blocks;
    tiles = (values.rows + shape.rows - 1) / shape.rows * tiles_across;
  }
  /// Calls f(share, tile, buffer) for all tiles, in several threads if it is worth it. A buffer has room for a row of a tile.
  template <class F>
  void for_each_tile(const Executor& executor, const F& f) const {
    (void)isa_index();  // chooses the instruction set, which may throw
    const std::size_t count = share_count(executor);
    const bool has_gaps = values.column_step() != values.bytes;
    const std::size_t room = has_gaps ? tile_blocks * shape.columns * static_cast<std::size_t>(values.bytes) : 0;
    std::vector<unsigned char> buffers(count * room);
    const auto run_share = [&](std::size_t share) {
      for (std::size_t i = tiles * share / count; i < tiles * (share + 1) / count; ++i)
        f(share, tile(i), has_gaps ? buffers.data() + share * room : nullptr);
    };
    if (count <= 1) return run_share(0);
    executor.run(count, run_share);
  }
  [[nodiscard]] std::size_t share_count(const Executor& executor) const noexcept {
    return std::max(std::min(count_shares(executor, values.size()), tiles), std::size_t{1});
  }
  [[nodiscard]] unsigned char* codes_at(std::size_t row, std::size_t column) const noexcept {
    if (!packed) return codes.data + row * values.columns + column;
    return codes.data + row * ((values.columns + 1) / 2) + column / 2;
  }

 private:
  static void check_shape(const Rows& of, std::size_t rows, std::size_t columns) {
    if (!of.is_dense()) throw_invalid_argument({of.name, " have gaps or are not row-major"});
    if (of.size() == rows * columns && (of.rows == 1 || of.columns == columns || of.size() == 0)) return;
    throw_invalid_argument({of.name, " are ", std::to_string(of.rows), "x", std::to_string(of.columns), "; they must be ",
                            std::to_string(rows), "x", std::to_string(columns), ", or as many in one row"});
  }
  [[nodiscard]] Tile tile(std::size_t i) const noexcept {
    const std::size_t band = i / tiles_across, block = i % tiles_across * tile_blocks, row = band * shape.rows;
    const std::size_t blocks = std::min(tile_blocks, across - block), column = block * shape.columns;
    return {row,
            std::min(shape.rows, values.rows - row),
            column,
            std::min(blocks * shape.columns, values.columns - column),
            band * across + block,
            blocks};
  }
};

/// Kernels for values of one format and codes of another.
struct BlockKernels {
  const Kernel *max_abs, *scale, *to_float;
  float largest;  // number of the values' dtype

  template <class Values, class Codes, bool quantizes>
  static constexpr BlockKernels of() noexcept {
    constexpr float largest = bit_cast<float>(convert_bits<Values, saturating<binary32>>(Values::largest_finite_bits));
    if constexpr (quantizes) {
      return {kernels<Op::block_max_abs, Values>, kernels<Op::scale_blocks, Values, Codes>, kernels<Op::cast, Values, binary32>,
              largest};
    } else {
      return {nullptr, kernels<Op::scale_blocks, Codes, Values>, nullptr, largest};
    }
  }
};
inline void run_kernel(const Kernel* kernel, const Piece& piece, double factor, Found& found) {
  kernel[isa_index()](&piece, &piece + 1, factor, false, found);
}

/// A tile that is quantized.
struct QuantizedTile {
  const Blocks& blocks;
  const BlockKernels& kernels;
  const Blocks::Tile& tile;
  unsigned char* buffer;
  Found& found;

  /// Elements of a row in memory, gathered if they are not there one after the other.
  [[nodiscard]] const unsigned char* row(std::size_t i) const noexcept {
    const unsigned char* const first = blocks.values.at(tile.row + i, tile.column);
    if (buffer == nullptr) return first;
    copy_elements(buffer, blocks.values.bytes, first, blocks.values.column_step(), static_cast<std::ptrdiff_t>(tile.columns),
                  blocks.values.bytes);
    return buffer;
  }
  void find_maxima(std::uint32_t* maxima) const {
    std::fill_n(maxima, tile.blocks, 0U);
    for (std::size_t i = 0; i < tile.rows; ++i)
      run_kernel(kernels.max_abs, {row(i), maxima, tile.columns}, static_cast<double>(blocks.shape.columns), found);
  }
  /// The amax of block `b` without its NaNs.
  [[nodiscard, gnu::cold]] std::uint32_t maximum_of_numbers(std::size_t b) const {
    float values[256];
    std::uint32_t largest = 0;
    const std::size_t begin = b * blocks.shape.columns, end = std::min(begin + blocks.shape.columns, tile.columns);
    for (std::size_t i = 0; i < tile.rows; ++i) {
      const unsigned char* const elements = row(i);
      for (std::size_t at = begin, n = 0; at < end; at += n) {
        n = std::min(end - at, std::size(values));
        run_kernel(kernels.to_float, {elements + at * static_cast<std::size_t>(blocks.values.bytes), values, n}, 1.0, found);
        for (std::size_t k = 0; k < n; ++k) {
          const std::uint32_t bits = magnitude_bits(values[k]);
          if (bits <= binary32::infinity_bits) largest = std::max(largest, bits);
        }
      }
    }
    return largest;
  }
  void write_codes(const float* factors, bool divides) const {
    for (std::size_t i = 0; i < tile.rows; ++i) {
      const Piece pieces[] = {{row(i), blocks.codes_at(tile.row + i, tile.column), tile.columns},
                              {factors, nullptr, blocks.shape.columns}};
      kernels.scale[isa_index()](pieces, pieces + 2, divides ? -1.0 : 1.0, false, found);
    }
  }
  template <class Format, class Rule>
  void run(const Rule& rule) const {
    std::uint32_t maxima[Blocks::most];
    float factors[Blocks::most];
    find_maxima(maxima);
    for (std::size_t b = 0; b < tile.blocks; ++b) {
      if (Rule::passes_over_nan && maxima[b] > binary32::infinity_bits) maxima[b] = maximum_of_numbers(b);
      const auto scale = rule.template scale<Format>(bit_cast<float>(maxima[b]), kernels.largest);
      std::memcpy(blocks.scales.data + (tile.first_block + b) * sizeof scale.stored, &scale.stored, sizeof scale.stored);
      factors[b] = scale.factor;
      if (magnitude_bits(scale.factor) > binary32::infinity_bits) add_largest(found, binary64::infinity_bits);
    }
    write_codes(factors, Rule::divides);
  }
};

/// Writes the factors of a tile: scale * tensor_scale.
template <class Format>
void scales_to_factors(const unsigned char* scales, std::size_t n, float tensor_scale, float* factors, Found& found) {
  if constexpr (std::is_same_v<Format, exponent_format>) {
    for (std::size_t b = 0; b < n; ++b) factors[b] = static_cast<float>(e8m0::from_bits(scales[b]));
    return scales_to_factors<binary32>(reinterpret_cast<const unsigned char*>(factors), n, tensor_scale, factors, found);
  } else {
    run_kernel(kernels<Op::scale, Format, binary32>, {scales, factors, n}, static_cast<double>(tensor_scale), found);
    if (is_finite(found)) return;
    for (std::size_t b = 0; b < n; ++b)
      if (magnitude_bits(factors[b]) > binary32::infinity_bits) factors[b] = bit_cast<float>(binary32::quiet_nan_bits);
  }
}

template <class Codes>
constexpr bool check_is_code() {
  static_assert(is_code<Codes>, "headroom: the codes of blocks are float8_e4m3, float8_e5m2 or float4_e2m1x2");
  return is_code<Codes>;
}
/// Calls f(leaf) for the one tensor that `tensor` is.
template <class Tensor, class F>
void with_tensor(const char* name, Tensor& tensor, const F& f) {
  static_assert(is_dynamic_node_v<Tensor> || node_kind_v<Tensor> == node_kind::tensor,
                "headroom: the verbs for blocks take one tensor, not a tree: call them for each leaf");
  bool found = false;
  const auto visit = [&](const Path&, auto& leaf) {
    found = true;
    f(leaf);
  };
  detail::walk(root, visit, tensor);
  if (!found) throw_invalid_argument({name, " has no floating-point elements"});
}
/// Calls f(blocks, kernels) for values of any dtype.
template <bool quantizes, class Values, class Codes, class Scales, class F>
void with_blocks(Values& values, Codes& codes, Scales& scales, const BlockShape& shape, const F& f) {
  using Code = format_of<std::remove_pointer_t<decltype(detail::data_of(codes))>>;
  const char* const name = quantizes ? "the source" : "the destination";
  if constexpr (check_is_code<Code>()) {
    detail::with_tensor(name, values, [&](auto& leaf) {
      using Format = format_of<std::remove_pointer_t<decltype(detail::data_of(leaf))>>;
      if constexpr (is_code<Format> || Format::mantissa_bits == 0) {
        throw_invalid_argument({name, " has a dtype that is that of codes or scales"});
      } else {
        static constexpr BlockKernels kernels = BlockKernels::of<Format, Code, quantizes>();
        Blocks blocks{detail::rows_of(name, leaf, !quantizes), detail::rows_of("the codes", codes, quantizes),
                      detail::rows_of("the scales", scales, quantizes), shape, is_packed<Code>};
        // A tile is read twice when it is quantized: half of a small second-level cache.
        blocks.prepare(quantizes, quantizes ? (std::size_t{128} << 10) / sizeof(typename Format::bits_type) : SIZE_MAX);
        f(blocks, kernels);
      }
    });
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
  using Code = std::remove_pointer_t<decltype(detail::data_of(codes))>;
  using Scale = std::remove_pointer_t<decltype(detail::data_of(scales))>;
  static_assert(std::is_same_v<detail::format_of<Scale>, detail::format_of<typename Rule::scale_type>>,
                "headroom: the scales have another dtype than this rule stores: see its scale_type");
  rule.check();
  detail::Found all{0, 0.0};
  if constexpr (detail::check_is_writable<Code>() && detail::check_is_writable<Scale>()) {
    detail::with_blocks<true>(source, codes, scales, shape, [&](const detail::Blocks& blocks, const auto& kernels) {
      std::vector<detail::Found> found(blocks.share_count(executor), detail::Found{0, 0.0});
      blocks.for_each_tile(executor, [&](std::size_t share, const detail::Blocks::Tile& tile, unsigned char* buffer) {
        detail::QuantizedTile{blocks, kernels, tile, buffer, found[share]}.template run<detail::format_of<Code>>(rule);
      });
      for (const detail::Found& of_share : found) detail::add_largest(all, of_share.largest);
    });
  }
  return detail::report_of(all);
}

/// Writes code * (scale * tensor_scale), computed in float and rounded once, into a tensor of any floating-point dtype and
/// strides. Codes and scales are those of quantize_blocks_into; scales are float, e8m0 or float8_e4m3. Systems that store
/// something else, such as a reciprocal, differ in the last bit: see docs/quantize.md. Throws as quantize_blocks_into does.
template <class Codes, class Scales, class Destination>
void dequantize_blocks_into(const Codes& codes, const Scales& scales, Destination&& destination, BlockShape shape,
                            float tensor_scale = 1.0F, const Executor& executor = sequential) {
  using Scale = detail::format_of<std::remove_pointer_t<decltype(detail::data_of(scales))>>;
  detail::with_blocks<false>(destination, codes, scales, shape, [&](const detail::Blocks& blocks, const auto& kernels) {
    const detail::Rows& values = blocks.values;
    blocks.for_each_tile(executor, [&](std::size_t, const detail::Blocks::Tile& tile, unsigned char* buffer) {
      detail::Found unused{0, 0.0};
      float factors[detail::Blocks::most];
      detail::scales_to_factors<Scale>(blocks.scales.data + tile.first_block * sizeof(typename Scale::bits_type), tile.blocks,
                                       tensor_scale, factors, unused);
      for (std::size_t i = 0; i < tile.rows; ++i) {
        unsigned char* const there = values.at(tile.row + i, tile.column);
        unsigned char* const row = buffer == nullptr ? there : buffer;
        const detail::Piece pieces[] = {{blocks.codes_at(tile.row + i, tile.column), row, tile.columns},
                                        {factors, nullptr, blocks.shape.columns}};
        kernels.scale[detail::isa_index()](pieces, pieces + 2, 1.0, false, unused);
        if (buffer == nullptr) continue;
        detail::copy_elements(there, values.column_step(), row, values.bytes, static_cast<std::ptrdiff_t>(tile.columns),
                              values.bytes);
      }
    });
  });
}

HEADROOM_DETAIL_END_NAMESPACE
