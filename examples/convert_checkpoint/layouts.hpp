#pragma once

// How checkpoints store quantized tensors, and which tensors are quantized.

#include <fnmatch.h>

#include <algorithm>
#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>
#include <numeric>

#include "safetensors.hpp"

using headroom::BlockShape;

/// A quantized tensor NAME has codes in NAME + codes, which are multiplied by the scales in NAME + scales. Scales of NVFP4 are
/// multiplied by the number in NAME + tensor_scale, or divided by it.
struct Layout {
  const char* to;      ///< for --to; null: it is only read
  const char* method;  ///< the quant_method or the dtype of config.json, or the format of compressed-tensors
  const char *codes, *scales, *tensor_scale;
  const char *dtype, *scale_dtype;  ///< U8 as dtype: two codes of e2m1 in a byte; as scale_dtype: e8m0
  BlockShape block;                 ///< 0: all rows or columns
  bool is_reciprocal = false;       ///< the tensor_scale
  bool is_transposed = false;       ///< the last two dimensions are in the other order than in the model

  [[nodiscard]] bool is_quantized() const { return scales != nullptr; }
  [[nodiscard]] bool is_packed() const { return is_quantized() && *dtype == 'U'; }
  /// Of the last dimension, or of the last two, which are groups of 16 bytes.
  [[nodiscard]] bool has_groups() const { return std::strstr(codes, "blocks") != nullptr; }
};
// clang-format off
constexpr Layout layouts[] = {
    // --to         method                  codes      scales        tensor_scale     dtype      scale_dtype  block
    {"bf16",        "bfloat16",             "",        nullptr,      nullptr,         "BF16",    nullptr,     {1, 1}},
    {"fp16",        "float16",              "",        nullptr,      nullptr,         "F16",     nullptr,     {1, 1}},
    {"fp32",        "float32",              "",        nullptr,      nullptr,         "F32",     nullptr,     {1, 1}},
    {"fp8-128x128", "fp8",                  "",        "_scale_inv", nullptr,         "F8_E4M3", "F32",       {128, 128}},
    {nullptr,       "fp8",                  "",        "_scale_inv", nullptr,         "F8_E4M3", "U8",        {128, 128}},
    {nullptr,       "fp8",                  "",        "_scale_inv", nullptr,         "F8_E4M3", "F32",       {0, 0}},
    {"fp8-tensor",  "float-quantized",      "",        "_scale",     nullptr,         "F8_E4M3", "F32",       {0, 0}},
    {nullptr,       "float-quantized",      "",        "_scale",     nullptr,         "F8_E4M3", "F32",       {1, 0}},
    {nullptr,       "float-quantized",      "",        "_scale",     nullptr,         "F8_E4M3", "F32",       {128, 128}},
    {"mxfp8",       "mxfp8-quantized",      "",        "_scale",     nullptr,         "F8_E4M3", "U8",        {1, 32}},
    {"nvfp4",       "nvfp4-pack-quantized", "_packed", "_scale",     "_global_scale", "U8",      "F8_E4M3",   {1, 16}, true},
    {"mxfp4",       "mxfp4-pack-quantized", "_packed", "_scale",     nullptr,         "U8",      "U8",        {1, 32}},
    {nullptr,       "modelopt",             "",        "_scale",     "_scale_2",      "U8",      "F8_E4M3",   {1, 16}},
    {nullptr,       "modelopt",             "",        "_scale",     nullptr,         "U8",      "U8",        {1, 32}},
    {"mxfp4",       "mxfp4",                "_blocks", "_scales",    nullptr,         "U8",      "U8",        {1, 32}, false, true},
    {nullptr,       "mxfp4",                ".blocks", ".scales",    nullptr,         "U8",      "U8",        {1, 32}},
};
// clang-format on

inline bool matches(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](auto& p) { return ::fnmatch(p.c_str(), name.c_str(), 0) == 0; });
}
inline std::size_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, [](auto a, auto b) { return a * b; });
}

/// A tensor of the model: how it is stored, and what becomes of it.
struct Job {
  Tensor codes, scales{};
  std::string name = codes.name;
  Shape shape = codes.shape;     ///< of the numbers, in the order in which they are stored
  const Layout* from = nullptr;  ///< null: no floating-point numbers
  BlockShape block{1, 1};
  float tensor_scale = 1.0F;
  std::vector<std::string> others{};   ///< tensors that are gone after a conversion
  const Layout* to = nullptr;          ///< null: it is copied
  std::vector<Tensor> made = {codes};  ///< codes, scales, tensor_scale

  [[nodiscard]] bool is_quantized() const { return from != nullptr && from->is_quantized(); }
  [[nodiscard]] bool is_transposed() const { return to != nullptr && from->is_transposed != to->is_transposed; }
  [[nodiscard]] bool needs_largest() const { return to != nullptr && (to->block.rows == 0 || to->tensor_scale != nullptr); }
  [[nodiscard]] std::size_t columns() const { return shape.empty() ? 1 : shape.back(); }
  [[nodiscard]] std::size_t rows() const { return shape.size() < 2 ? 1 : shape[shape.size() - 2]; }
};

inline Shape shape_of_scales(Shape shape, BlockShape block) {
  if (block.rows == 0) return {1};
  shape.back() = block.columns == 0 ? 1 : (shape.back() + block.columns - 1) / block.columns;
  if (shape.size() > 1) shape[shape.size() - 2] = (shape[shape.size() - 2] + block.rows - 1) / block.rows;
  return shape;
}
inline bool is_stored_as(const std::string& dtype, const std::string& as) {
  return dtype == as || (as == "U8" && dtype == "F8_E8M0") || (as == "F32" && matches(dtype, {"BF16", "F16"})) ||
         (as == "F8_E4M3" && dtype == "F8_E5M2");
}
/// Reads the scales of layout `job.from`. Returns what does not fit, or nothing.
inline std::string read_scales(Job& job, const Checkpoint& checkpoint) {
  const Layout& from = *job.from;
  const auto is = [](const Tensor& of) {
    return of.file->name + ": " + of.name + ": " + of.dtype + " of shape " + text(of.shape);
  };
  const std::string level_name = from.tensor_scale == nullptr ? "" : job.name + from.tensor_scale;
  const Tensor *const scales = checkpoint.find(job.name + from.scales), *const level = checkpoint.find(level_name);
  if (scales == nullptr) return is(job.codes) + ": there is no " + job.name + from.scales;
  job.scales = *scales;
  job.others = {scales->name, level_name};
  for (const char* of_input : {".input_scale", ".input_global_scale", ".activation_scale"})
    job.others.push_back(job.name.substr(0, job.name.rfind('.')) + of_input);
  if (!is_stored_as(scales->dtype, from.scale_dtype)) return is(*scales) + " must be " + from.scale_dtype;
  if (from.has_groups()) job.shape.pop_back();
  if (from.is_packed()) job.shape.back() *= from.has_groups() ? 32 : 2;
  Shape shape = scales->shape;
  const Shape want = shape_of_scales(job.shape, job.block);
  if (job.block.columns == 0 && shape.size() + 1 == want.size()) shape.push_back(1);  // may be left out
  if (shape != want) return is(*scales) + " must be of shape " + text(want) + " for " + is(job.codes);
  if (level_name.empty()) return "";
  if (level == nullptr || level->dtype != "F32" || level->bytes != 4)
    return is(job.codes) + ": there must be one F32 " + level_name;
  level->file->read(reinterpret_cast<char*>(&job.tensor_scale), 4, level->offset);
  const bool is_usable = job.tensor_scale > 0.0F || (job.tensor_scale == 0.0F && !from.is_reciprocal);
  return is_usable ? "" : is(*level) + " is " + text(job.tensor_scale);
}
/// `blocks`: of fp8.
inline Job find_layout(const Tensor& tensor, const Checkpoint& checkpoint, BlockShape blocks) {
  if (matches(tensor.name, {"*scale", "*scales", "*_scale_inv", "*_scale_2"})) return {tensor};
  bool must_fit = matches(tensor.dtype, {"F8_E4M3", "F8_E5M2"}) || matches(tensor.name, {"*_packed", "*blocks"}),
       has_scales = false;
  std::string problem;
  for (const Layout& layout : layouts) {
    if (!is_stored_as(tensor.dtype, layout.dtype) || !matches(tensor.name, {std::string("*") + layout.codes})) continue;
    Job job{tensor, {}, tensor.name.substr(0, tensor.name.size() - std::strlen(layout.codes)), tensor.shape, &layout};
    job.block = layout.block.rows > 1 ? blocks : layout.block;
    const std::string misfit = layout.is_quantized() ? read_scales(job, checkpoint) : "";
    if (misfit.empty()) return job;
    const bool is_closer = job.scales.file != nullptr || *layout.codes != '\0';
    if (problem.empty() || (is_closer && !has_scales)) problem = misfit;
    has_scales = has_scales || job.scales.file != nullptr;
  }
  if (!problem.empty() && (has_scales || must_fit)) throw Failure(Failure::bad_scale, problem);
  return {tensor};
}

/// Whether loaders expect a tensor to be quantized: weights of linear layers, in gpt-oss those of experts.
inline bool is_quantizable(const Job& job, const Layout& to) {
  const std::size_t columns = to.is_transposed && !job.from->is_transposed ? job.rows() : job.columns();
  if (to.method != std::string("fp8") && to.block.columns != 0 && columns % to.block.columns != 0) return false;
  if (to.is_transposed) return job.shape.size() == 3 && matches(job.name, {"*.experts.*_proj"});
  return job.shape.size() == 2 && matches(job.name, {"*.weight"}) &&
         !matches(job.name, {"*embed*", "*lm_head*", "*norm*", "*router*", "*gate.weight", "*.wte.*", "*.wpe.*"});
}
/// Null if a tensor is copied, with its scales.
inline const Layout* target_of(const Job& job, const Layout& to, const std::vector<std::string>& keep) {
  if (job.from == nullptr || job.codes.bytes == 0) return nullptr;
  if (matches(job.name, keep) || (to.is_quantized() && !is_quantizable(job, to)))
    return job.is_quantized() ? &layouts[0] : nullptr;
  const bool has_dtypes = job.codes.dtype == to.dtype && (!to.is_quantized() || job.scales.dtype == to.scale_dtype);
  if (job.from == &to && has_dtypes && job.block.rows == to.block.rows && job.block.columns == to.block.columns) return nullptr;
  return job.is_quantized() || job.shape.size() > 1 ? &to : nullptr;
}
inline void set_target(Job& job, const Layout* to) {
  job.to = to;
  if (to == nullptr) return;
  Shape shape = job.shape;
  if (job.is_transposed()) std::swap(shape[shape.size() - 2], shape.back());
  const auto make = [&](const char* end, const char* dtype, const Shape& of) {
    job.made.push_back({job.name + end, dtype, of, product(of) * bits_of(dtype) / 8});
  };
  const Shape of_scales = shape_of_scales(shape, to->block);
  if (to->is_packed()) shape.back() /= to->has_groups() ? 32 : 2;
  if (to->has_groups()) shape.push_back(16);
  job.made.clear();
  make(to->codes, to->dtype, shape);
  if (to->is_quantized()) make(to->scales, to->scale_dtype, of_scales);
  if (to->tensor_scale != nullptr) make(to->tensor_scale, "F32", {1});
}

/// What loaders read in config.json. `kept` are modules whose weights are not quantized.
inline json quantization_config(const Layout& to, const std::set<std::string>& kept) {
  const std::string method = to.method;
  json config = {{"quant_method", method}, {"modules_to_not_convert", kept}};
  if (method == "fp8") config.update({{"fmt", "e4m3"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}});
  if (method == "fp8" || method == "mxfp4") return config;
  json weights = {{"num_bits", to.is_packed() ? 4 : 8}, {"type", "float"}, {"strategy", "tensor"}}, inputs;
  if (to.block.rows == 0) {
    inputs = {{"num_bits", 8}, {"type", "float"}, {"strategy", "token"}, {"dynamic", true}};
  } else {
    weights["strategy"] = to.tensor_scale == nullptr ? "group" : "tensor_group";
    weights["group_size"] = to.block.columns;
    weights["scale_dtype"] = to.tensor_scale == nullptr ? "torch.uint8" : "torch.float8_e4m3fn";
  }
  const json group = {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", inputs}};
  config = {
      {"quant_method", "compressed-tensors"}, {"format", method}, {"quantization_status", "compressed"}, {"ignore", kept}};
  config["config_groups"]["group_0"] = group;
  return config;
}
