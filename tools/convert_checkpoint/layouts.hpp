#pragma once

// How checkpoints store quantized tensors. A format is a row of `layouts`, and the names that
// configurations have for it are rows of `methods` in configuration.hpp.

#include <fnmatch.h>

#include <cmath>
#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>
#include <numeric>

#include "checkpoint.hpp"

using headroom::BlockShape;

/// A tensor NAME + name has codes in NAME + codes, which are multiplied by the scales in NAME +
/// scales. Scales of NVFP4 are multiplied by the number in NAME + tensor_scale, or divided by it.
/// Lists have spaces; what is written is their first.
struct Layout {
  const char* to;  ///< for --to; null: it is only read
  /// The dtype or the quant_method of config.json, the format of compressed-tensors, or who writes
  /// it
  const char* method;
  const char* format;  ///< of the numbers
  const char *name, *codes, *scales, *tensor_scale;
  const char *dtypes, *scale_dtypes;  ///< U8 as scale_dtype: e8m0, in nvfp4 e4m3
  BlockShape block{0, 0};             ///< 0: all rows or columns. fp8 is read with all `forms`
  bool is_reciprocal = false;         ///< the tensor_scale
  /// The last two dimensions are in the other order than in the model
  bool is_transposed = false;
  [[nodiscard]] bool is(const char* of) const { return std::strcmp(format, of) == 0; }
  /// e2m1, several in an integer
  [[nodiscard]] bool is_packed() const { return is("mxfp4") || is("nvfp4"); }
  [[nodiscard]] bool is_quantized() const { return is_packed() || is("mxfp8") || is("fp8"); }
  /// [..., n, 16] for 32 n codes
  [[nodiscard]] bool has_groups() const { return std::strstr(codes, "blocks") != nullptr; }
};
// clang-format off
constexpr const char *fp8 = "F8_E4M3 F8_E5M2", *floats = "F32 BF16 F16", *e8m0 = "U8 F8_E8M0", *e2m1 = "F4";
constexpr Layout layouts[] = {
    // --to         method                  format   name       codes             scales           tensor_scale     dtypes     scale_dtypes
    {"bf16",        "bfloat16",             "bf16",  "",        "",               nullptr,         nullptr,         "BF16",    nullptr},
    {"fp16",        "float16",              "fp16",  "",        "",               nullptr,         nullptr,         "F16",     nullptr},
    {"fp32",        "float32",              "fp32",  "",        "",               nullptr,         nullptr,         "F32",     nullptr},
    {nullptr,       "a cast",               "fp8",   "",        "",               nullptr,         nullptr,         fp8,       nullptr},
    {"fp8-128x128", "fp8",                  "fp8",   "",        "",               "_scale_inv",    nullptr,         fp8,       "F32 BF16 F16 U8 F8_E8M0", {128, 128}},
    {"fp8-tensor",  "float-quantized",      "fp8",   "",        "",               "_scale",        nullptr,         fp8,       floats},
    {nullptr,       "ModelOpt",             "fp8",   "",        "",               "_weight_scale", nullptr,         fp8,       floats},
    {nullptr,       "torchao",              "fp8",   ".weight", "._weight_qdata", "._weight_scale", nullptr,        fp8,       floats},
    {nullptr,       "ComfyUI",              "fp8",   ".weight", ".weight",        ".scale_weight", nullptr,         fp8,       floats},
    {nullptr,       "Mistral",              "fp8",   ".weight", ".weight",        ".qscale_weight", nullptr,        fp8,       floats},
    {nullptr,       "DeepSeek-V4",          "fp8",   ".weight", ".weight",        ".scale",        nullptr,         fp8,       "F8_E8M0"},
    {nullptr,       "DeepSeek-V4",          "mxfp4", ".weight", ".weight",        ".scale",        nullptr,         "I8",      "F8_E8M0", {1, 32}},
    {"mxfp8",       "mxfp8-quantized",      "mxfp8", "",        "",               "_scale",        nullptr,         fp8,       e8m0,      {1, 32}},
    {"nvfp4",       "nvfp4-pack-quantized", "nvfp4", "",        "_packed",        "_scale",        "_global_scale", "U8",      "F8_E4M3", {1, 16}, true},
    {"mxfp4",       "mxfp4-pack-quantized", "mxfp4", "",        "_packed",        "_scale",        nullptr,         "U8",      e8m0,      {1, 32}},
    {nullptr,       "ModelOpt",             "nvfp4", "",        "",               "_scale",        "_scale_2",      "U8",      "F8_E4M3", {1, 16}},
    {nullptr,       "ModelOpt or Quark",    "mxfp4", "",        "",               "_scale",        nullptr,         "U8",      e8m0,      {1, 32}},
    {"mxfp4",       "mxfp4",                "mxfp4", "",        "_blocks",        "_scales",       nullptr,         "U8",      e8m0,      {1, 32}, false, true},
    {nullptr,       "OpenAI",               "mxfp4", "",        ".blocks",        ".scales",       nullptr,         "U8",      e8m0,      {1, 32}},
    {nullptr,       "MLX",                  "mxfp4", ".weight", ".weight",        ".scales",       nullptr,         "U32",     "U8",      {1, 32}},
    {nullptr,       "MLX",                  "mxfp8", ".weight", ".weight",        ".scales",       nullptr,         "U32",     "U8",      {1, 32}},
    {nullptr,       "MLX",                  "nvfp4", ".weight", ".weight",        ".scales",       nullptr,         "U32",     "U8",      {1, 16}},
};
/// Shapes of the scales of fp8: * stands for the dimensions before the last two, if any, E for one or more of them, R and C for
/// the blocks along the last two.
struct Form { const char* shape; BlockShape block; };
constexpr BlockShape given{~std::size_t{0}, ~std::size_t{0}}; // by the configuration
constexpr Form forms[] = {
    {"*RC", given}, {"R1C1", given}, {"*R1", {1, 0}}, {"R", {1, 0}}, {"E1C", {0, 1}}, {"E11", {0, 0}}, {"E", {0, 0}},
    {"", {0, 0}}, {"1", {0, 0}}, {"11", {0, 0}}, // one for all matrices
};
/// Parts without which weights are wrong. No layout has them.
const std::vector<std::string> parts_of_weights = {
    "*weight_scale*", "*pre_quant_scale", "*act_pre_scale", "*input_prescale", "*input_rotation*", "*.svdquant_*", "*zero_point", "*_zp", "*g_idx",
    "*.qzeros", "*.qbiases", "*.absmax", "*.quant_map", "*.SCB", "*._shift"};
/// Parts that only quantized activations and caches need. They go with a format.
const std::vector<std::string> parts_of_activations = {
    "*[._]input_scale", "*[._]input_scale_2", "*[._]input_global_scale", "*.activation_scale", "*.output_scale", "*.scale_input",
    "*.[kqv]_scale", "*.[kv]_proj.[kv]_bias", "*scaled_fp8", "*.comfy_quant"};
/// Names of ids, masks and tables of indices, besides BOOL, 64 bits and integers without two dimensions.
const std::vector<std::string> tables = {"*ids", "*index", "*indices", "*idx", "*tid2eid", "*mask"};
/// Names of weights that are not those of linear layers, or that loaders do not quantize: embeddings, heads, norms, routers, and
/// the layers of GPT-2, which have the other order of dimensions. A name begins with a dot.
const std::vector<std::string> not_linear = {
    "*embed*", "*lm_head*", "*head.weight", "*norm*", "*router*", "*gate.weight", "*.wte.*", "*.wpe.*", "*.shared.weight", "*emb.weight",
    "*relative_attention_bias*", "*.output.weight", "*output_layer.weight", "*score.weight", "*classifier*", "*_token*.weight",
    "*codebook*", "*query_feat*", "*queries*", "*reference_points*", "*.pe_k*", "*transformer.w.weight", "*.c_attn.*", "*.c_proj.*", "*.c_fc.*"};
/// Output layers of models in transformers whose weight is the embedding's, so that it is not in the file, each with a tensor by
/// which the model is known; null: any. Its quantizers must be told to leave them.
struct Tied { const char *module, *tensor; };
constexpr Tied tied[] = {
    {"lm_head", nullptr}, {"lm_head.decoder", "lm_head.layer_norm.weight"}, {"proj_out", "model.encoder.conv1.weight"},
    {"cls.predictions.decoder", "cls.predictions.transform.dense.weight"}, {"predictions.decoder", "predictions.dense.weight"},
    {"vocab_projector", "vocab_projector.bias"}, {"generator_lm_head", "generator_lm_head.bias"}, {"decoder", "decoder.bias"}};
/// What a tensor of a kind that is not read is taken for, if no configuration says it: the first row of its name and dtype.
struct Unread { const char *name, *dtype, *taken_for; };
constexpr Unread unread[] = {
    {"*qweight", "*", "int4 of GPTQ or AWQ"}, {"*bitsandbytes*", "*", "nf4 or fp4, bitsandbytes"}, {"*qdata", "*", "blocks or integers, torchao"},
    {"*.W_q", "*", "integers, HQQ"}, {"*._data", "*", "integers, quanto"},
    {"*_packed", "I32", "pack-quantized, compressed-tensors"}, {"*", "*FNUZ", "fp8 of another bias, FNUZ"}, {"*", "U32", "affine, MLX"},
    {"*", "I8", "int8, scaled"}, {"*", "[IU]*", "packed or scaled integers"}, {"*", "*", "numbers of another dtype"}};
// clang-format on

inline bool matches(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](auto& p) { return ::fnmatch(p.c_str(), name.c_str(), 0) == 0; });
}
inline bool has(const std::string& list, const std::string& dtype) {
  return (" " + list + " ").find(" " + dtype + " ") != std::string::npos;
}
inline std::string first(const std::string& list) { return list.substr(0, list.find(' ')); }
inline std::size_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}
inline std::size_t blocks_in(std::size_t n, std::size_t block) {
  return block == 0 ? 1 : (n + block - 1) / block;
}

/// A tensor of the model: how it is stored, and what becomes of it.
struct Job {
  Tensor codes, scales{};
  std::string name = codes.name;
  Shape shape = codes.shape;     ///< of the numbers, in the order in which they are stored
  const Layout* from = nullptr;  ///< null: no floating-point numbers
  BlockShape block{0, 0};        ///< of the source; 0: all rows or columns
  bool has_one_scale = false;    ///< for all matrices
  float tensor_scale = 1.0F;
  std::vector<const Tensor*> parts{};  ///< tensors that are gone after a conversion
  const Layout* to = nullptr;          ///< null: it is copied
  std::vector<Tensor> made = {codes};  ///< codes, scales, tensor_scale

  [[nodiscard]] bool is_quantized() const { return from != nullptr && from->is_quantized(); }
  [[nodiscard]] bool is_transposed() const {
    return to != nullptr && from->is_transposed != to->is_transposed;
  }
  [[nodiscard]] bool has_no_blocks() const {  // so its elements are a row
    const bool by_itself = scales.file == nullptr || has_one_scale;
    return to == nullptr ||
           (by_itself && (to->scales == nullptr || to->block.rows == 0) && !is_transposed());
  }
  [[nodiscard]] bool needs_largest() const {
    return to != nullptr && to->scales != nullptr &&
           (to->block.rows == 0 || to->tensor_scale != nullptr);
  }
  [[nodiscard]] std::size_t columns() const {
    return has_no_blocks() ? product(shape) : shape.back();
  }
  [[nodiscard]] std::size_t rows() const {
    return has_no_blocks() || shape.size() < 2 ? 1 : shape[shape.size() - 2];
  }
};

inline Shape shape_of_scales(const Shape& shape, BlockShape block, const char* form = "*RC") {
  Shape result;
  for (const bool has_rows = shape.size() > 1; *form != '\0'; ++form) {
    if ((*form == '*' || *form == 'E') && has_rows)
      result.insert(result.end(), shape.begin(), shape.end() - 2);
    if (*form == 'R' && has_rows) result.push_back(blocks_in(shape[shape.size() - 2], block.rows));
    if (*form == 'C') result.push_back(blocks_in(shape.back(), block.columns));
    if (*form == '1') result.push_back(1);
  }
  return result;
}
/// Blocks with 0 if they are all rows or columns.
inline BlockShape cut(BlockShape block, const Shape& shape) {
  if (shape.size() < 2 || block.rows >= shape[shape.size() - 2]) block.rows = 0;
  if (!shape.empty() && block.columns >= shape.back()) block.columns = 0;
  return block;
}
template <class T>
headroom::span<T> as(std::string& bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}
/// Calls f(span of the floating-point numbers that `bytes` are).
template <class F>
void with_floats(const std::string& dtype, std::string& bytes, const F& f) {
  if (dtype == "F32") f(as<float>(bytes));
  if (dtype == "F16") f(as<headroom::half>(bytes));
  if (dtype == "BF16") f(as<headroom::bfloat16>(bytes));
  if (dtype == "F8_E4M3") f(as<headroom::float8_e4m3>(bytes));
  if (dtype == "F8_E5M2") f(as<headroom::float8_e5m2>(bytes));
}
inline void decode(const std::string& dtype, std::string& bytes, std::vector<float>& to) {
  to.resize(bytes.size() * 8 / bits_of(dtype));
  with_floats(dtype, bytes, [&](auto numbers) { headroom::cast_into(numbers, to); });
  for (std::size_t i = 0; has(e8m0, dtype) && i < to.size(); ++i)
    to[i] = static_cast<float>(as<headroom::e8m0>(bytes)[i]);
  const std::vector<float> one{1.0F};
  if (dtype == e2m1)
    headroom::dequantize_blocks_into(as<headroom::float4_e2m1x2>(bytes), one, to, {0, 0});
}
inline float read_finite(const Tensor& from) {
  std::string bytes = from.file->read(from.bytes, from.offset);
  std::vector<float> number;
  decode(from.dtype, bytes, number);
  if (!std::isfinite(number[0]))
    throw Failure(Failure::not_read, describe(from) + " is " + std::to_string(number[0]));
  return number[0];
}

/// What does not fit.
struct Misfit {
  // The first is the closest to fitting
  enum { none, shape, codes, dtype, no_scales, no_layout } of = none;
  std::string what{};
  double distance = 0.0;  // of a shape: in dimensions and powers of two
};
/// Reads the scales of layout `job.from`. `blocks` are those of fp8 in the configuration.
inline Misfit read_scales(Job& job, const std::string& stem, const Tensors& tensors,
                          BlockShape blocks) {
  const Layout& from = *job.from;
  const auto find = [&](const char* end) {
    const auto found = end == nullptr ? tensors.end() : tensors.find({stem + end});
    if (found != tensors.end()) job.parts.push_back(&*found);
    return found == tensors.end() ? Tensor{} : *found;
  };
  job.scales = find(from.scales);
  const Tensor one = find(from.tensor_scale);
  const bool is_named = *from.codes != '\0' && std::strcmp(from.codes, from.name) != 0;
  if (job.scales.file == nullptr)
    return {is_named ? Misfit::codes : Misfit::no_scales,
            describe(job.codes) + ": there are no scales, such as " + stem + from.scales};
  const std::string of = std::string(" for ") + from.format + ", " + from.method,
                    must = describe(job.scales) + " must be ";
  if (!has(from.scale_dtypes, job.scales.dtype))
    return {Misfit::dtype, must + from.scale_dtypes + of};
  if (job.shape.empty() || (from.has_groups() && (job.shape.size() < 2 || job.shape.back() != 16)))
    return {Misfit::codes, describe(job.codes) + " has no dimension of codes" + of};
  if (from.has_groups()) job.shape.pop_back();
  job.shape.back() *=
      from.has_groups() ? 32 : bits_of(job.codes.dtype) / (from.is_packed() ? 4 : 8);
  if (from.block.rows == 1 && job.shape.back() % from.block.columns != 0)
    return {Misfit::codes,
            describe(job.codes) + " must have rows of " + text(from.block.columns) + of};
  std::set<Shape> shapes;
  double distance = 1e9;
  const auto log_size = [](const Shape& shape) {
    return std::log2(static_cast<double>(product(shape) + 1));
  };
  for (const Form& form : forms) {
    const bool has_rank =
        *form.shape == 'R' ? job.shape.size() == 2 : *form.shape != 'E' || job.shape.size() > 2;
    if (!has_rank || (!from.is("fp8") && &form != forms)) continue;
    job.block = !from.is("fp8") ? from.block : form.block.rows == given.rows ? blocks : form.block;
    job.has_one_scale = *form.shape == '\0' || *form.shape == '1';
    const Shape shape = shape_of_scales(job.shape, job.block, form.shape);
    shapes.insert(shape);
    if (shape == job.scales.shape) break;
    distance = std::min(distance, std::abs(static_cast<double>(shape.size()) -
                                           static_cast<double>(job.scales.shape.size())) +
                                      std::abs(log_size(shape) - log_size(job.scales.shape)));
  }
  if (shapes.count(job.scales.shape) == 0)
    return {Misfit::shape,
            must + "of a shape in " + text(shapes) + of + ", for " + describe(job.codes), distance};
  job.block = cut(job.block, job.shape);
  if (from.is("nvfp4")) job.scales.dtype = "F8_E4M3";  // MLX says U8
  if (job.scales.bytes > 1 && product(job.scales.shape) == 1 && from.is("fp8"))
    (void)read_finite(job.scales);
  if (from.tensor_scale == nullptr) return {};
  if (one.dtype != "F32" || one.bytes != 4)
    return {Misfit::shape, describe(job.codes) + ": there is no F32 " + stem + from.tensor_scale};
  job.tensor_scale = read_finite(one);
  if (job.tensor_scale > 0.0F || (job.tensor_scale == 0.0F && !from.is_reciprocal)) return {};
  throw Failure(Failure::not_read, describe(one) + " is " + std::to_string(job.tensor_scale));
}
/// A job without a layout if none fits. `closest` then says what fits least badly.
inline Job find_layout(const Tensor& tensor, const Tensors& tensors, BlockShape blocks,
                       bool fp8_is_cast, Misfit& closest) {
  closest = {Misfit::no_layout};
  for (const Layout& layout : layouts) {
    const std::size_t stem =
        tensor.name.size() - std::min(tensor.name.size(), std::strlen(layout.codes));
    if (!has(layout.dtypes, tensor.dtype) ||
        tensor.name.compare(stem, std::string::npos, layout.codes) != 0)
      continue;
    if (layout.scales == nullptr && layout.is_quantized() && !fp8_is_cast) continue;
    Job job{tensor, {}, tensor.name.substr(0, stem) + layout.name, tensor.shape, &layout};
    const Misfit misfit = layout.scales == nullptr
                              ? Misfit{}
                              : read_scales(job, tensor.name.substr(0, stem), tensors, blocks);
    if (misfit.of == Misfit::none) return job;
    if (std::tie(misfit.of, misfit.distance) < std::tie(closest.of, closest.distance))
      closest = misfit;
  }
  return {tensor};
}
/// Whether a tensor of integers, or of a dtype that is not read, is an id, a mask or a table, which
/// stays.
inline bool is_table(const Tensor& tensor) {
  const bool is_integer = matches(tensor.dtype, {"[IU][1-9]*"}),
             is_mask = tensor.shape.size() == 4 && matches(tensor.name, {"*.bias"});
  if (tensor.dtype == "BOOL" || matches(tensor.dtype, {"[IU]64"})) return true;
  if (is_integer && (is_mask || matches(tensor.name, tables))) return true;
  return tensor.shape.size() < 2 &&
         (is_integer ? !matches(tensor.name, {"*weight*"}) : matches(tensor.dtype, {"F64", "C*"}));
}
/// Whether the module of a tensor has codes beside it, so that the tensor may be their scale.
inline bool is_beside_codes(const Tensor& tensor, const Tensors& tensors) {
  const std::string module =
      tensor.name.substr(0, tensor.name.rfind('.', tensor.name.rfind("scale")));
  for (auto other = tensors.lower_bound({module});
       other != tensors.end() && other->name.find(module) == 0; ++other) {
    const bool is_in =
        other->name == module || (other->name[module.size()] == '.' &&
                                  other->name.find('.', module.size() + 1) == std::string::npos);
    if (is_in && other->name != tensor.name && !has(floats, other->dtype) && !is_table(*other))
      return true;
  }
  return false;
}
inline bool is_of_activations(const Tensor& tensor) {
  const bool is_one = product(tensor.shape) == 1;
  return matches(tensor.name, parts_of_activations) &&
         (is_one || (tensor.shape.size() < 2 && !matches(tensor.name, {"*.[kqv]_scale"})));
}
/// Whether a tensor that belongs to no layout is a part that weights need.
inline bool is_of_weights(const Tensor& tensor, const Tensors& tensors) {
  if (matches(tensor.name, parts_of_weights)) return true;
  return matches(tensor.name, {"*scale*", "*biases"}) && !is_of_activations(tensor) &&
         is_beside_codes(tensor, tensors);
}
/// Whether loaders expect a tensor to be quantized: weights of linear layers, in gpt-oss those of
/// experts.
inline bool is_quantizable(const Job& job, const Layout& to) {
  if (job.shape.size() < 2) return false;
  const std::size_t columns =
      job.shape[job.shape.size() - (to.is_transposed && !job.from->is_transposed ? 2 : 1)];
  if (to.block.rows == 1 && columns % to.block.columns != 0) return false;
  if (to.is_transposed) return job.shape.size() == 3 && matches(job.name, {"*.experts.*_proj"});
  return job.shape.size() == 2 && matches(job.name, {"*.weight"}) &&
         !matches("." + job.name, not_linear);
}
/// Decides what becomes of a tensor. `is_kept`: it must not be quantized.
inline void plan(Job& job, const Layout& to, bool is_kept) {
  if (job.from == nullptr || job.codes.bytes == 0) return;
  is_kept = is_kept || (to.scales != nullptr && !is_quantizable(job, to));
  if (!job.is_quantized() && (is_kept || job.shape.size() < 2)) return;
  job.to = is_kept ? &layouts[0] : &to;
  Shape shape = job.shape;
  if (job.is_transposed()) std::swap(shape[shape.size() - 2], shape.back());
  const auto make = [&](const char* end, const std::string& dtype, const Shape& of) {
    if (end != nullptr)
      job.made.push_back({job.name + end, dtype, of, product(of) * bits_of(dtype) / 8});
  };
  const Shape of_scales =
      job.to->block.rows == 0 ? Shape{1} : shape_of_scales(shape, job.to->block);
  if (job.to->is_packed()) shape.back() /= job.to->has_groups() ? 32 : 2;
  if (job.to->has_groups()) shape.push_back(16);
  job.made.clear();
  make(job.to->codes, first(job.to->dtypes), shape);
  if (job.to->scales != nullptr) make(job.to->scales, first(job.to->scale_dtypes), of_scales);
  make(job.to->tensor_scale, "F32", {1});
  const auto is_same = [](const Tensor& a, const Tensor& b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  };
  const BlockShape block = cut(job.to->block, job.shape);
  const bool has_scales = job.to->scales == nullptr ||
                          (is_same(job.made[1], job.scales) && block.rows == job.block.rows &&
                           block.columns == job.block.columns);
  if (job.from != job.to || !is_same(job.made[0], job.codes) || !has_scales) return;
  job.to = nullptr;  // it is there
  job.made = {job.codes};
}
