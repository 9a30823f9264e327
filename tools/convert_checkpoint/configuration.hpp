#pragma once

// What configurations say of quantized tensors: config.json and hf_quant_config.json at any level,
// the metadata of headers, and tensors of ComfyUI.

#include "layouts.hpp"

/// A string, bool or null under `key` of a configuration of `method`, and the formats of layouts
/// that it stands for. What no row has is not read. The first row that matches counts.
struct Method {
  const char *method, *key, *value, *formats;
};
// clang-format off
constexpr Method methods[] = {
    {"fp8",                "quant_method", "*",                    "fp8 mxfp8 mxfp4"}, // DeepSeek-V4 has experts in mxfp4
    {"fbgemm_fp8",         "quant_method", "*",                    "fp8"},
    {"mxfp8",              "quant_method", "*",                    "fp8 mxfp8"},
    {"mxfp4",              "quant_method", "*",                    "mxfp4"},
    {"compressed-tensors", "location",     nullptr,                nullptr}, // of a transform
    {"compressed-tensors", "format",       "dense",                ""},
    {"compressed-tensors", "format",       "mixed-precision",      ""},
    {"compressed-tensors", "format",       "float-quantized",      "fp8"},
    {"compressed-tensors", "format",       "naive-quantized",      "fp8"},
    {"compressed-tensors", "format",       "mxfp8-quantized",      "mxfp8"},
    {"compressed-tensors", "format",       "mxfp4-pack-quantized", "mxfp4"},
    {"compressed-tensors", "format",       "nvfp4-pack-quantized", "nvfp4"},
    {"modelopt",           "quant_algo",   "MIXED_PRECISION",      ""},
    {"modelopt",           "quant_algo",   "null",                 ""}, // only the cache is quantized
    {"modelopt",           "quant_algo",   "[Ff][Pp]8*",           "fp8"},
    {"modelopt",           "quant_algo",   "[Mm][Xx][Ff][Pp]8",    "mxfp8"},
    {"modelopt",           "quant_algo",   "*[Mm][Xx][Ff][Pp]4*",  "mxfp4"},
    {"modelopt",           "quant_algo",   "*NVFP4*",              "nvfp4"},
    {"quark",              "scale_format", "e5m3",                 nullptr},
    {"quark",              "scale_format", "*",                    ""},
    {"quark",              "weight/dtype", "fp8_e[45]m[23]",       "fp8"},
    {"quark",              "weight/dtype", "fp4",                  "mxfp4 nvfp4"},
    {"torchao",            "_type",        "Float8*Config",        "fp8"},
    {"torchao",            "_type",        "*Config",              nullptr},
    {"torchao",            "_type",        "*",                    ""},
    {"auto-round",         "data_type",    "fp*",                  "fp8"},
    {"auto-round",         "data_type",    "mx_fp*",               "mxfp8 mxfp4"},
    {"auto-round",         "data_type",    "nv_fp*",               "nvfp4"},
    {"MLX",                "mode",         "mxfp8",                "mxfp8"},
    {"MLX",                "mode",         "mxfp4",                "mxfp4"},
    {"MLX",                "mode",         "nvfp4",                "nvfp4"},
    {"ComfyUI",            "convrot",      "false",                ""},
    {"ComfyUI",            "format",       "float8_e[45]m[23]*",   "fp8"}, // its 4 bits and MX are swizzled
};
// clang-format on

inline bool is_quantization(const std::string& key, const json& value) {
  const auto has_key = [&](const char* name) { return value.contains(name); };
  const char* const named[] = {"quant_method", "quant_algo", "bits", "mode"};
  return has("quantization_config compression_config", key) ||
         (key == "quantization" && std::any_of(std::begin(named), std::end(named), has_key));
}
/// Calls visit(path, parent, key, value) for all members of objects at any level. It decides
/// whether to go into a value.
template <class Visit>
void walk(const json& node, const std::string& path, const std::string& parent,
          const Visit& visit) {
  for (const auto& [key, value] : node.items()) {
    const std::string at = path + (path.back() == ' ' ? "" : ".") + key;
    const bool is_in = !node.is_object() || visit(at, parent, key, value);
    if (is_in && value.is_structured()) walk(value, at, node.is_object() ? key : parent, visit);
  }
}

/// What the configurations of a checkpoint say.
struct Quantization {
  std::string unread{};                                    // the first format that is not read
  std::map<std::string, std::set<std::string>> formats{};  // by the path of a configuration
  std::set<std::string> kept{};                            // modules that are not quantized
  BlockShape blocks{128, 128};                             // of fp8

  void read(const Checkpoint& checkpoint) {
    for (const auto& [file, config] : checkpoint.configs)
      walk(config, file + ": ", "",
           [&](const std::string& at, auto&, const std::string& key, const json& value) {
             if (is_quantization(key, value)) add(at, value);
             return !is_quantization(key, value);
           });
    for (const Shard& shard : checkpoint.shards) {
      const std::string key = "_quantization_metadata",
                        layers = shard.metadata.is_null() ? "" : shard.metadata.value(key, "");
      if (!layers.empty()) add(shard.file.name + ": " + key, parse(layers), "ComfyUI");
    }
    for (const Tensor& tensor : checkpoint.tensors)
      if (matches(tensor.name, {"*.comfy_quant"}) && tensor.bytes < 4096)
        add(describe(tensor), parse(tensor.file->read(tensor.bytes, tensor.offset)), "ComfyUI");
  }

 private:
  void add(const std::string& path, json value, std::string method = "") {
    if (value.is_null() || value == false || value == json::object()) return;
    if (!value.is_object())
      throw Failure(Failure::malformed, path + " must be an object, not " + text(value));
    std::set<std::string>& named = formats[path];
    if (value.contains("quant_method") && value["quant_method"].is_string())
      method = value["quant_method"];
    if (method.empty() && value.contains("quant_algo")) method = "modelopt";
    if (method.empty() && value.contains("bits")) method = "MLX";
    // As older versions of it
    if (method == "MLX" && !value.contains("mode")) value["mode"] = "affine";
    // A format, if only that nothing is quantized
    bool is_named = false;
    walk(value, path, "",
         [&](const std::string& at, const std::string& parent, const std::string& key,
             const json& of_key) {
           if (of_key.is_string() || has("convrot quant_algo", key))
             is_named = read_format(method, parent, key,
                                    of_key.is_string() ? of_key.get<std::string>() : text(of_key),
                                    at, named) ||
                        is_named;
           if (has("weight_block_size block_structure", key) && !of_key.is_null())
             read_blocks(of_key, at);
           // Compressed-tensors' groups of fp8
           if (key == "weights" && of_key.is_object() && of_key.value("num_bits", json()) == 8)
             if (const json size = of_key.value("group_size", json()); size.is_number_unsigned())
               read_blocks({1U, size}, at);
           if (has("modules_to_not_convert ignore exclude_modules exclude ignored_layers", key) &&
               of_key.is_array())
             for (const json& name : of_key)
               kept.insert(name.is_string() ? name.get<std::string>() : "");
           return true;
         });
    for (const Method& row : methods)  // a method alone: any of its formats
      if (!is_named && row.method == method && row.formats != nullptr)
        add_formats(row.formats, named);
    if (!is_named && named.empty() && unread.empty())
      unread = (method.empty() ? "no method" : method) + " (" + path + ")";
  }
  static void add_formats(const std::string& names, std::set<std::string>& formats) {
    for (const char* format : {"fp8", "mxfp8", "mxfp4", "nvfp4"})
      if (has(names, format)) formats.insert(format);
  }
  /// Whether this key is that of a format.
  bool read_format(const std::string& method, const std::string& parent, const std::string& key,
                   const std::string& value, const std::string& at, std::set<std::string>& named) {
    bool is_key = false;
    for (const Method& row : methods) {
      if (row.method != method || (row.key != key && row.key != parent + "/" + key)) continue;
      is_key = true;
      if (row.value == nullptr || !matches(value, {row.value})) continue;
      if (row.formats == nullptr) break;
      add_formats(row.formats, named);
      return true;
    }
    if (is_key && unread.empty()) unread = value + ", " + method + " (" + at + ")";
    return is_key;
  }
  void read_blocks(const json& size, const std::string& at) {
    const auto is_size = [](const json& n) { return n.is_number_unsigned() && n != 0; };
    if (!size.is_array() || size.size() != 2 || !is_size(size[0]) || !is_size(size[1]))
      throw Failure(Failure::malformed, at + " is " + text(size));
    blocks = {size[0], size[1]};
  }
};

/// What loaders read in config.json. `kept` are modules whose weights are not quantized.
inline json quantization_config(const Layout& to, const std::set<std::string>& kept) {
  const std::string method = to.method;
  json config = {{"quant_method", method}, {"modules_to_not_convert", kept}};
  if (method == "fp8")
    config.update(
        {{"fmt", "e4m3"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}});
  if (method == "fp8" || method == "mxfp4") return config;
  json weights = {{"num_bits", to.is_packed() ? 4 : 8}, {"type", "float"}, {"strategy", "tensor"}},
       inputs;
  if (to.block.rows == 0)
    inputs = {{"num_bits", 8}, {"type", "float"}, {"strategy", "token"}, {"dynamic", true}};
  if (to.block.rows == 1)
    weights.update(
        {{"strategy", "group"}, {"group_size", to.block.columns}, {"scale_dtype", "torch.uint8"}});
  if (to.tensor_scale != nullptr)
    weights.update({{"strategy", "tensor_group"}, {"scale_dtype", "torch.float8_e4m3fn"}});
  config = {{"quant_method", "compressed-tensors"}, {"format", method}, {"ignore", kept}};
  config["quantization_status"] = "compressed";
  config["config_groups"]["group_0"] = {
      {"targets", {"Linear"}}, {"weights", weights}, {"input_activations", inputs}};
  return config;
}
/// Removes what speaks of an old format, at any level. `dtype` becomes that of the weights; empty:
/// it changes if they are quantized.
inline void relabel(json& config, const std::string& dtype) {
  for (auto entry = config.begin(); entry != config.end();) {
    const std::string key = config.is_object() ? entry.key() : "";
    if (is_quantization(key, *entry) || has("expert_dtype scale_fmt", key)) {
      entry = config.erase(entry);
      continue;
    }
    if (has("dtype torch_dtype", key) && entry->is_string() &&
        (!dtype.empty() || matches(*entry, {"*float8*", "*int*"})))
      *entry = dtype.empty() ? "bfloat16" : dtype;
    if (entry->is_structured()) relabel(*entry, dtype);
    ++entry;
  }
}
