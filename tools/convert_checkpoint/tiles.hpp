#pragma once

// Converts a tensor tile by tile, so that little of it is in memory.

#include <cmath>
#include <mutex>
#include <numeric>

#include "configuration.hpp"

/// Part of one of the matrices of a tensor.
struct Tile {
  std::size_t matrix, row, rows, column, columns;

  [[nodiscard]] std::size_t size() const { return rows * columns; }
  [[nodiscard]] Tile transposed() const { return {matrix, column, columns, row, rows}; }
  /// The blocks that it touches.
  [[nodiscard]] Tile blocks(BlockShape block) const {
    const auto index = [](std::size_t i, std::size_t size) { return size == 0 ? 0 : i / size; };
    const std::size_t first_row = index(row, block.rows),
                      first_column = index(column, block.columns);
    return {matrix, first_row, 1 + index(row + rows - 1, block.rows) - first_row, first_column,
            1 + index(column + columns - 1, block.columns) - first_column};
  }
  /// Reads or writes the tile of a tensor. `all` is one of its matrices.
  template <class Call, class Data>
  void move(const File& file, Call call, Data* data, std::size_t offset, std::size_t bits,
            const Tile& all) const {
    const std::size_t stride = all.columns * bits / 8, width = columns * bits / 8,
                      runs = width == stride ? 1 : rows;
    offset += (matrix * all.rows + row) * stride + column * bits / 8;
    for (std::size_t i = 0; i < runs; ++i)
      file.move(call, data + i * width, rows * width / runs, offset + i * stride);
  }
};
/// Of about `most` elements. They cut no block of the target.
inline std::vector<Tile> tiles_of(const Job& job, std::size_t most) {
  const bool is_copy = job.to == nullptr;
  const std::size_t rows = is_copy ? 1 : job.rows(),
                    columns = is_copy ? job.codes.bytes : job.columns();
  BlockShape step = is_copy || job.to->block.rows == 0 ? BlockShape{1, 1} : job.to->block;
  if (job.is_transposed()) std::swap(step.rows, step.columns);
  step.columns = std::lcm(step.columns, std::size_t{32});  // whole bytes and blocks of MX
  std::size_t high = most / (job.is_transposed() ? 512 : std::max<std::size_t>(1, columns));
  high = std::max<std::size_t>(1, high / step.rows) * step.rows;
  const std::size_t wide = std::max<std::size_t>(1, most / high / step.columns) * step.columns;
  std::vector<Tile> tiles;
  for (std::size_t matrix = 0, n = is_copy ? 1 : product(job.shape) / (rows * columns); matrix < n;
       ++matrix)
    for (std::size_t row = 0; row < rows; row += high)
      for (std::size_t column = 0; column < columns; column += wide)
        tiles.push_back(
            {matrix, row, std::min(high, rows - row), column, std::min(wide, columns - column)});
  return tiles;
}

/// The memory of a thread.
struct Buffers {
  std::string stored, codes, scales;
  std::vector<float> factors, values, turned, after;
};
/// `dtype` is that of the numbers.
inline void read(const Tensor& from, const std::string& dtype, const Tile& tile, const Tile& all,
                 std::string& stored, std::vector<float>& to) {
  stored.resize(tile.size() * bits_of(dtype) / 8);
  tile.move(*from.file, ::pread, stored.data(), from.offset, bits_of(dtype), all);
  decode(dtype, stored, to);
}
/// Reads buffers.values. A code times its scale is rounded once.
inline void read_values(const Job& job, const Tile& tile, Buffers& buffers) {
  const Tile all{0, 0, job.rows(), 0, job.columns()};
  const std::string kind = job.from->is_packed()      ? e2m1
                           : job.codes.dtype == "U32" ? "F8_E4M3"
                                                      : job.codes.dtype;
  read(job.codes, kind, tile, all, buffers.stored, buffers.values);
  if (job.scales.file == nullptr) return;
  Tile blocks = tile.blocks(job.block);
  if (job.has_one_scale) blocks.matrix = 0;
  read(job.scales, job.scales.dtype, blocks, all.blocks(job.block), buffers.stored,
       buffers.factors);
  for (float& factor : buffers.factors)
    factor = job.from->is_reciprocal ? factor / job.tensor_scale : factor * job.tensor_scale;
  const std::size_t high = job.block.rows == 0 ? job.rows() : job.block.rows,
                    wide = job.block.columns == 0 ? job.columns() : job.block.columns;
  for (std::size_t row = 0; row < tile.rows; ++row) {
    const float* factor = &buffers.factors[((tile.row + row) / high - blocks.row) * blocks.columns];
    for (std::size_t column = 0, end = 0; column < tile.columns; column = end, ++factor) {
      end = std::min(tile.columns, ((tile.column + column) / wide + 1) * wide - tile.column);
      float* values = &buffers.values[row * tile.columns];
      for (std::size_t i = column; i < end; ++i) values[i] *= *factor;
    }
  }
}

/// Makes buffers.codes and buffers.scales of buffers.values, and buffers.after, what they stand
/// for.
inline void encode(const Job& job, const Tile& tile, float tensor_scale, Buffers& buffers) {
  using namespace headroom;
  const ::Layout& to = *job.to;
  buffers.after.resize(tile.size());
  buffers.codes.resize(tile.size() * (to.is_packed() ? 4 : bits_of(first(to.dtypes))) / 8);
  const auto cast = [&](auto numbers) {
    cast_into(buffers.values, numbers);
    cast_into(numbers, buffers.after);
  };
  const auto in_rows = [&](std::vector<float>& values) {
    return matrix<float>{values.data(), tile.rows, tile.columns};
  };
  const auto quantize = [&](auto codes, const auto& rule, float level) {
    using Scale = typename std::decay_t<decltype(rule)>::scale_type;
    buffers.scales.resize(tile.blocks(to.block).size() * sizeof(Scale));
    (void)quantize_blocks_into(in_rows(buffers.values), codes, as<Scale>(buffers.scales), to.block,
                               rule);
    dequantize_blocks_into(codes, as<Scale>(buffers.scales), in_rows(buffers.after), to.block,
                           level);
  };
  const auto divide = [&](auto codes) {  // by one scale for the tensor
    buffers.scales.assign(reinterpret_cast<const char*>(&tensor_scale), sizeof tensor_scale);
    for (std::size_t i = 0; i < tile.size(); ++i)
      buffers.after[i] = buffers.values[i] / tensor_scale;
    cast_into(buffers.after, codes, saturate);
    cast_into(codes, buffers.after);
    for (float& value : buffers.after) value *= tensor_scale;
  };
  const std::string name = to.to;
  if (to.scales == nullptr) with_floats(first(to.dtypes), buffers.codes, cast);
  if (name == "fp8-128x128")
    quantize(as<float8_e4m3>(buffers.codes), TeBlockScaling{0.0F, false}, 1.0F);
  if (name == "fp8-tensor") divide(as<float8_e4m3>(buffers.codes));
  if (name == "mxfp8") quantize(as<float8_e4m3>(buffers.codes), MxScaling{MxScale::rceil}, 1.0F);
  if (name == "mxfp4") quantize(as<float4_e2m1x2>(buffers.codes), MxScaling{MxScale::rceil}, 1.0F);
  if (name != "nvfp4") return;
  if (job.from->is("mxfp4"))
    return quantize(as<float4_e2m1x2>(buffers.codes), Mxfp4ToNvfp4{tensor_scale}, tensor_scale);
  quantize(as<float4_e2m1x2>(buffers.codes), ModelOptNvfp4{tensor_scale}, tensor_scale);
}

/// What was lost. Errors are those of numbers that were finite and remained so.
struct Loss {
  enum Sum {
    elements,
    not_finite,
    became_not_finite,
    became_zero,
    squared_errors,
    squares,
    n_sums
  };
  std::mutex mutex;
  double sums[n_sums] = {}, largest = 0.0;

  /// `after` becomes the error.
  void add(std::vector<float>& before, std::vector<float>& after) {
    double of_tile[n_sums] = {static_cast<double>(before.size())};
    std::uint32_t zeros = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      zeros += before[i] != 0.0F && after[i] == 0.0F ? 1U : 0U;
      after[i] = before[i] - after[i];
    }
    auto errors = headroom::measure(after);
    for (std::size_t i = 0; !errors.finite && i < before.size(); ++i) {
      if (std::isfinite(after[i])) continue;
      ++of_tile[std::isfinite(before[i]) ? became_not_finite : not_finite];
      before[i] = after[i] = 0.0F;
    }
    if (!errors.finite) errors = headroom::measure(after);
    of_tile[became_zero] = zeros;
    of_tile[squared_errors] = errors.norm * errors.norm;
    of_tile[squares] = std::pow(headroom::measure(before).norm, 2);
    const std::lock_guard<std::mutex> lock(mutex);
    for (int sum = 0; sum < n_sums; ++sum) sums[sum] += of_tile[sum];
    largest = std::max(largest, errors.max_abs);
  }
};
/// Reads a tile, converts it, and writes what is made of it.
inline void convert_tile(const Job& job, Tile tile, float tensor_scale, const File& file,
                         Buffers& buffers, Loss& loss) {
  if (job.to == nullptr) {
    const std::string copied = job.codes.file->read(tile.size(), job.codes.offset + tile.column);
    return file.move(::pwrite, copied.data(), copied.size(), job.made[0].offset + tile.column);
  }
  read_values(job, tile, buffers);
  Tile all{0, 0, job.rows(), 0, job.columns()};
  if (job.is_transposed()) {
    buffers.turned = buffers.values;
    for (std::size_t i = 0; i < tile.size(); ++i)
      buffers.values[i % tile.columns * tile.rows + i / tile.columns] = buffers.turned[i];
    tile = tile.transposed();
    all = all.transposed();
  }
  encode(job, tile, tensor_scale, buffers);
  const auto write = [&](const Tensor& to, const Tile& part, const Tile& of,
                         const std::string& from) {
    part.move(file, ::pwrite, from.data(), to.offset, from.size() * 8 / part.size(), of);
  };
  write(job.made[0], tile, all, buffers.codes);
  if (job.to->scales != nullptr)
    write(job.made[1], tile.blocks(job.to->block), all.blocks(job.to->block), buffers.scales);
  loss.add(buffers.values, buffers.after);
}
