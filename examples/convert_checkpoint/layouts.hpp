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
  const char* method;  ///< the dtype or the quant_method of config.json, or the format of compressed-tensors
  const char *codes, *scales, *tensor_scale;
  const char *dtype, *scale_dtype;  ///< U8 as dtype: two codes of e2m1 in a byte; as scale_dtype: e8m0
  BlockShape block;                 ///< 0: all rows or columns
  bool is_reciprocal = false;       ///< the tensor_scale
  bool is_transposed = false;       ///< the last two dimensions are in the other order than in the model
  [[nodiscard]] bool is_packed() const { return scales != nullptr && *dtype == 'U'; }
  [[nodiscard]] bool has_groups() const { return std::strstr(codes, "blocks") != nullptr; }  ///< [..., n, 16] for 32 n codes
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
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
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

  [[nodiscard]] bool is_quantized() const { return scales.file != nullptr; }
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
  return dtype == as || (as == "U8" && dtype == "F8_E8M0") || (as == "F8_E4M3" && dtype == "F8_E5M2") ||
         (as == "F32" && matches(dtype, {"BF16", "F16"}));
}
/// Reads the scales of layout `job.from`. Returns what does not fit, or nothing.
inline std::string read_scales(Job& job, const std::map<std::string, Tensor>& tensors) {
  const Layout& from = *job.from;
  const auto is = [](const Tensor& of) {
    return of.file->name + ": " + of.name + ": " + of.dtype + " of shape " + text(of.shape);
  };
  const auto find = [&](const char* end) {
    const auto found = tensors.find(job.name + (end == nullptr ? "" : end));
    if (end != nullptr && found != tensors.end()) job.others.push_back(found->first);
    return end == nullptr || found == tensors.end() ? Tensor{} : found->second;
  };
  job.scales = find(from.scales);
  const Tensor one = find(from.tensor_scale);
  if (!job.is_quantized()) return is(job.codes) + ": there is no " + job.name + from.scales;
  for (const char* end : {".input_scale", ".input_global_scale", ".activation_scale"}) {
    const std::string of_input = job.name.substr(0, job.name.rfind('.')) + end;
    if (tensors.count(of_input) != 0) job.others.push_back(of_input);
  }
  if (!is_stored_as(job.scales.dtype, from.scale_dtype) || job.scales.dtype == "F8_E5M2")
    return is(job.scales) + " must be " + from.scale_dtype;
  if (job.shape.size() < (from.has_groups() ? 2U : 1U)) return is(job.codes) + " has too few dimensions";
  if (from.has_groups() && job.shape.back() != 16) return is(job.codes) + " must end with a dimension of 16";
  if (from.has_groups()) job.shape.pop_back();
  if (from.is_packed()) job.shape.back() *= from.has_groups() ? 32 : 2;
  Shape shape = job.scales.shape;
  const Shape want = shape_of_scales(job.shape, job.block);
  if (job.block.columns == 0 && shape.size() + 1 == want.size()) shape.push_back(1);  // may be left out
  if (shape != want) return is(job.scales) + " must be of shape " + text(want) + " for " + is(job.codes);
  if (from.tensor_scale == nullptr) return "";
  if (one.dtype != "F32" || one.bytes != 4) return is(job.codes) + ": there is no F32 " + job.name + from.tensor_scale;
  one.file->move(::pread, reinterpret_cast<char*>(&job.tensor_scale), 4, one.offset);
  const bool is_usable = job.tensor_scale > 0.0F || (job.tensor_scale == 0.0F && !from.is_reciprocal);
  return is_usable ? "" : is(one) + " is " + text(job.tensor_scale);
}
/// `blocks` are those of fp8.
inline Job find_layout(const Tensor& tensor, const std::map<std::string, Tensor>& tensors, BlockShape blocks) {
  const bool must_fit = matches(tensor.dtype, {"F8_E4M3", "F8_E5M2"}) || matches(tensor.name, {"*_packed", "*blocks"});
  if (matches(tensor.name, {"*scale", "*scales", "*_scale_inv", "*_scale_2"})) return {tensor};
  std::string problem;
  int closest = 0;
  for (const Layout& layout : layouts) {
    if (tensor.dtype == "F8_E8M0" || !is_stored_as(tensor.dtype, layout.dtype) ||
        !matches(tensor.name, {std::string("*") + layout.codes}))
      continue;
    Job job{tensor, {}, tensor.name.substr(0, tensor.name.size() - std::strlen(layout.codes)), tensor.shape, &layout};
    job.block = layout.block.rows > 1 ? blocks : layout.block;
    const std::string misfit = layout.scales == nullptr ? "" : read_scales(job, tensors);
    if (misfit.empty()) return job;
    const int closeness = job.is_quantized() ? 3 : *layout.codes != '\0' ? 2 : 1;
    if (closeness > closest) problem = misfit;
    closest = std::max(closest, closeness);
  }
  if (closest == 3 || (closest > 0 && must_fit)) throw Failure(Failure::bad_scale, problem);
  return {tensor};
}

/// Whether loaders expect a tensor to be quantized: weights of linear layers, in gpt-oss those of experts.
inline bool is_quantizable(const Job& job, const Layout& to) {
  const std::size_t columns = to.is_transposed && !job.from->is_transposed ? job.rows() : job.columns();
  if (to.block.rows == 1 && columns % to.block.columns != 0) return false;
  if (to.is_transposed) return job.shape.size() == 3 && matches(job.name, {"*.experts.*_proj"});
  return job.shape.size() == 2 && matches(job.name, {"*.weight"}) &&
         !matches(job.name, {"*embed*", "*lm_head*", "*norm*", "*router*", "*gate.weight", "*.wte.*", "*.wpe.*"});
}
/// Decides what becomes of a tensor.
inline void plan(Job& job, const Layout& to, const std::vector<std::string>& keep) {
  if (job.from == nullptr || job.codes.bytes == 0) return;
  const bool is_kept = matches(job.name, keep) || (to.scales != nullptr && !is_quantizable(job, to));
  const bool is_there = job.from == &to && job.codes.dtype == to.dtype &&
                        (to.scales == nullptr || job.scales.dtype == to.scale_dtype) && job.block.rows == to.block.rows &&
                        job.block.columns == to.block.columns;
  if (job.is_quantized() ? !is_kept && is_there : is_kept || is_there || job.shape.size() < 2) return;
  job.to = is_kept ? &layouts[0] : &to;
  Shape shape = job.shape;
  if (job.is_transposed()) std::swap(shape[shape.size() - 2], shape.back());
  const auto make = [&](const char* end, const char* dtype, const Shape& of) {
    if (end != nullptr) job.made.push_back({job.name + end, dtype, of, product(of) * bits_of(dtype) / 8});
  };
  const Shape of_scales = shape_of_scales(shape, job.to->block);
  if (job.to->is_packed()) shape.back() /= job.to->has_groups() ? 32 : 2;
  if (job.to->has_groups()) shape.push_back(16);
  job.made.clear();
  make(job.to->codes, job.to->dtype, shape);
  make(job.to->scales, job.to->scale_dtype, of_scales);
  make(job.to->tensor_scale, "F32", {1});
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
  config = {
      {"quant_method", "compressed-tensors"}, {"format", method}, {"quantization_status", "compressed"}, {"ignore", kept}};
  config["config_groups"]["group_0"] = {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", inputs}};
  return config;
}
