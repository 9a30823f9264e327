#pragma once

// Converts a tensor tile by tile, so that little of it is in memory.

#include <cmath>
#include <headroom/headroom.hpp>

#include "layouts.hpp"

/// Part of one of the matrices of a tensor.
struct Tile {
  std::size_t matrix, row, rows, column, columns;

  [[nodiscard]] std::size_t size() const { return rows * columns; }
  [[nodiscard]] Tile transposed() const { return {matrix, column, columns, row, rows}; }
  [[nodiscard]] Tile blocks(BlockShape block) const {
    return {matrix, row / block.rows, 1 + (rows - 1) / block.rows, column / block.columns, 1 + (columns - 1) / block.columns};
  }
  /// Reads or writes the tile in a file. `all` is a matrix of the tensor at `offset`.
  template <class Move, class Data>
  void move(const File& file, Move read_or_write, Data* data, std::size_t offset, std::size_t bits, const Tile& all) const {
    const std::size_t stride = all.columns * bits / 8, width = columns * bits / 8, runs = width == stride ? 1 : rows;
    offset += (matrix * all.rows + row) * stride + column * bits / 8;
    for (std::size_t i = 0; i < runs; ++i) (file.*read_or_write)(data + i * width, rows * width / runs, offset + i * stride);
  }
};
/// The matrices of a tensor, cut into tiles.
struct Tiles {
  std::size_t matrices, rows, columns, high, wide;

  [[nodiscard]] std::size_t across() const { return (columns + wide - 1) / wide; }
  [[nodiscard]] std::size_t down() const { return (rows + high - 1) / high; }
  [[nodiscard]] std::size_t size() const { return matrices * across() * down(); }
  [[nodiscard]] Tile operator[](std::size_t i) const {
    const std::size_t row = i / across() % down() * high, column = i % across() * wide;
    return {i / across() / down(), row, std::min(high, rows - row), column, std::min(wide, columns - column)};
  }
};
/// Of about `most` elements. They cut no block of the target.
inline Tiles tiles_of(const Job& job, std::size_t most) {
  if (job.to == nullptr) return {1, 1, job.codes.bytes, 1, most};
  const std::size_t rows = job.rows(), columns = job.columns();
  BlockShape to = job.to->block.rows == 0 ? BlockShape{1, 1} : job.to->block;
  if (job.is_transposed()) std::swap(to.rows, to.columns);
  const BlockShape step{std::lcm(job.block.rows < rows ? job.block.rows : 1, to.rows),
                        std::lcm(job.block.columns < columns ? job.block.columns : 1, to.columns)};
  std::size_t high = std::max<std::size_t>(1, most / (job.is_transposed() ? 512 : columns));
  if (high >= step.rows || to.rows > 1) high = std::max<std::size_t>(1, high / step.rows) * step.rows;
  while (high < step.rows && step.rows % high != 0) --high;  // within a block of the source
  const std::size_t wide = std::max<std::size_t>(1, most / high / step.columns) * step.columns;
  return {product(job.shape) / (rows * columns), rows, columns, high, wide};
}

/// The memory of a thread.
struct Buffers {
  std::vector<char> stored, codes, scales;
  std::vector<float> factors, values, turned, after, error;
};
template <class T>
headroom::span<T> as(std::vector<char>& bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

inline void read_floats(const Tensor& from, const Tile& tile, const Tile& all, std::vector<char>& stored,
                        std::vector<float>& to) {
  stored.resize(tile.size() * bits_of(from.dtype) / 8);
  tile.move(*from.file, &File::read, stored.data(), from.offset, bits_of(from.dtype), all);
  to.resize(tile.size());
  if (from.dtype == "F32") headroom::cast_into(as<float>(stored), to);
  if (from.dtype == "F16") headroom::cast_into(as<headroom::half>(stored), to);
  if (from.dtype == "BF16") headroom::cast_into(as<headroom::bfloat16>(stored), to);
  if (from.dtype == "F8_E4M3") headroom::cast_into(as<headroom::float8_e4m3>(stored), to);
  for (std::size_t i = 0; is_stored_as(from.dtype, "U8") && i < to.size(); ++i)
    to[i] = static_cast<float>(as<headroom::e8m0>(stored)[i]);
}
/// Reads buffers.values.
inline void read_values(const Job& job, const Tile& tile, Buffers& buffers) {
  const Tile all{0, 0, job.rows(), 0, job.columns()};
  if (!job.is_quantized()) return read_floats(job.codes, tile, all, buffers.stored, buffers.values);
  const Tile all_blocks = all.blocks(job.block);
  const bool is_one = job.block.rows == SIZE_MAX;
  read_floats(job.scales, is_one ? all_blocks : tile.blocks(job.block), all_blocks, buffers.stored, buffers.factors);
  for (float& factor : buffers.factors) factor /= job.from->is_reciprocal ? job.tensor_scale : 1.0F;
  const std::size_t bits = job.from->is_packed() ? 4 : 8;
  buffers.stored.resize(tile.size() * bits / 8);
  tile.move(*job.codes.file, &File::read, buffers.stored.data(), job.codes.offset, bits, all);
  buffers.values.resize(tile.size());
  const auto dequantize = [&](auto codes) {
    headroom::dequantize_blocks_into(codes, buffers.factors, headroom::matrix(buffers.values.data(), tile.rows, tile.columns),
                                     {std::min(job.block.rows, tile.rows), job.block.columns},
                                     job.from->is_reciprocal ? 1.0F : job.tensor_scale);
  };
  if (bits == 4) return dequantize(as<headroom::float4_e2m1x2>(buffers.stored));
  if (job.codes.dtype == "F8_E5M2") return dequantize(as<headroom::float8_e5m2>(buffers.stored));
  dequantize(as<headroom::float8_e4m3>(buffers.stored));
}

/// The rule of one scale for a tensor, from its largest |element|.
struct WholeTensor {
  float largest;
  using scale_type = float;
  static constexpr bool divides = true, passes_over_nan = true;
  template <class Format>
  [[nodiscard]] headroom::BlockScale<float> scale(const float&, const float&) const {
    const float scale = largest > 0.0F ? std::max(largest / 448.0F, std::numeric_limits<float>::min()) : 1.0F;
    return {scale, scale};
  }
};
/// By which the scales of NVFP4 are divided.
inline float tensor_scale_of(float largest) {
  return largest > 0.0F ? std::min(2688.0F / largest, std::numeric_limits<float>::max()) : 1.0F;
}
/// Makes buffers.codes and buffers.scales of buffers.values, and buffers.after, what they stand for.
inline void encode(const Job& job, const Tile& tile, BlockShape block, Buffers& buffers) {
  using namespace headroom;
  const std::string to = job.to->to;
  const auto cast = [&](auto codes) {
    cast_into(buffers.values, codes);
    cast_into(codes, buffers.after);
  };
  const auto quantize = [&](auto codes, const auto& rule, float tensor_scale) {
    using Scale = typename std::decay_t<decltype(rule)>::scale_type;
    buffers.scales.resize(tile.blocks(block).size() * sizeof(Scale));
    const auto scales = as<Scale>(buffers.scales);
    (void)quantize_blocks_into(matrix(buffers.values.data(), tile.rows, tile.columns), codes, scales, block, rule);
    dequantize_blocks_into(codes, scales, matrix(buffers.after.data(), tile.rows, tile.columns), block, tensor_scale);
  };
  buffers.after.resize(tile.size());
  buffers.codes.resize(tile.size() * (job.to->is_packed() ? 4 : bits_of(job.to->dtype)) / 8);
  const auto bytes = as<float8_e4m3>(buffers.codes);
  const auto halves = as<float4_e2m1x2>(buffers.codes);
  const float level = 1.0F / tensor_scale_of(job.largest);
  if (to == "bf16") cast(as<bfloat16>(buffers.codes));
  if (to == "fp16") cast(as<half>(buffers.codes));
  if (to == "fp32") cast(as<float>(buffers.codes));
  if (to == "fp8-128x128") quantize(bytes, TeBlockScaling{0.0F, false}, 1.0F);
  if (to == "fp8-tensor") quantize(bytes, WholeTensor{job.largest}, 1.0F);
  if (to == "mxfp8") quantize(bytes, MxScaling{MxScale::rceil}, 1.0F);
  if (to == "mxfp4") quantize(halves, MxScaling{MxScale::rceil}, 1.0F);
  if (to == "nvfp4") quantize(halves, ModelOptNvfp4{level}, level);
}

/// What was lost.
struct Loss {
  double largest = 0.0, squared_errors = 0.0, squares = 0.0;
  std::size_t elements = 0, zeros = 0, saturated = 0;

  void add(const Loss& other) {
    largest = std::max(largest, other.largest);
    squared_errors += other.squared_errors;
    squares += other.squares;
    elements += other.elements;
    zeros += other.zeros;
    saturated += other.saturated;
  }
};
inline Loss loss_of(Buffers& buffers) {
  const std::vector<float>&before = buffers.values, &after = buffers.after;
  std::vector<float>& error = buffers.error;
  std::uint32_t zeros = 0, saturated = 0;
  error.resize(before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    error[i] = before[i] - after[i];
    zeros += before[i] != 0.0F && after[i] == 0.0F ? 1U : 0U;
  }
  const bool is_finite = headroom::measure(error).finite;
  for (std::size_t i = 0; !is_finite && i < before.size(); ++i) {
    if (std::isfinite(error[i])) continue;
    saturated += before[i] != after[i] && !std::isnan(before[i]) ? 1U : 0U;
    error[i] = 0.0F;
  }
  const auto lost = headroom::measure(error), all = headroom::measure(before);
  return {lost.max_abs, lost.norm * lost.norm, all.finite ? all.norm * all.norm : 0.0, before.size(), zeros, saturated};
}
/// Reads a tile, converts it, and writes what is made of it.
inline Loss convert_tile(const Job& job, Tile tile, const File& file, Buffers& buffers) {
  if (job.to == nullptr) {
    buffers.stored.resize(tile.size());
    job.codes.file->read(buffers.stored.data(), tile.size(), job.codes.offset + tile.column);
    file.write(buffers.stored.data(), tile.size(), job.made[0].second.offset + tile.column);
    return {};
  }
  Tile all{0, 0, job.rows(), 0, job.columns()};
  read_values(job, tile, buffers);
  if (job.is_transposed()) {
    buffers.turned = buffers.values;
    for (std::size_t i = 0; i < tile.size(); ++i)
      buffers.values[i % tile.columns * tile.rows + i / tile.columns] = buffers.turned[i];
    std::tie(tile, all) = std::pair(tile.transposed(), all.transposed());
  }
  const BlockShape block = job.to->block.rows == 0 ? BlockShape{SIZE_MAX, SIZE_MAX} : job.to->block;
  encode(job, tile, block, buffers);
  const auto write = [&](std::size_t i, const Tile& part, const Tile& of, const std::vector<char>& from) {
    part.move(file, &File::write, from.data(), job.made[i].second.offset, from.size() * 8 / part.size(), of);
  };
  write(0, tile, all, buffers.codes);
  if (job.to->is_quantized()) write(1, tile.blocks(block), all.blocks(block), buffers.scales);
  return loss_of(buffers);
}
