#pragma once

// What configurations say of quantized tensors: config.json and hf_quant_config.json at any level, the metadata of headers,
// and tensors of ComfyUI.

#include "layouts.hpp"

/// A string under `key` of a configuration of `method`, and the formats of layouts that it stands for. What no row has is
/// not read. The first row that matches counts.
struct Method {
  const char *method, *key, *value, *formats;
};
// clang-format off
constexpr Method methods[] = {
    {"fp8",                "quant_method", "*",                    "fp8 mxfp8 mxfp4"}, // DeepSeek-V4 has experts in mxfp4
    {"fbgemm_fp8",         "quant_method", "*",                    "fp8"},
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
    {"modelopt",           "quant_algo",   "[Ff][Pp]8*",           "fp8"},
    {"modelopt",           "quant_algo",   "[Mm][Xx][Ff][Pp]8",    "mxfp8"},
    {"modelopt",           "quant_algo",   "*[Mm][Xx][Ff][Pp]4*",  "mxfp4"},
    {"modelopt",           "quant_algo",   "*NVFP4*",              "nvfp4"},
    {"quark",              "scale_format", "e5m3",                 nullptr},
    {"quark",              "scale_format", "*",                    ""},
    {"quark",              "weight/dtype", "fp8_e[45]m[23]",       "fp8"},
    {"quark",              "weight/dtype", "fp4",                  "mxfp4"},
    {"torchao",            "_type",        "Float8*Config",        "fp8"},
    {"torchao",            "_type",        "*Config",              nullptr},
    {"torchao",            "_type",        "*",                    ""},
    {"auto-round",         "data_type",    "fp*",                  "fp8"},
    {"auto-round",         "data_type",    "mx_fp*",               "mxfp8 mxfp4"},
    {"auto-round",         "data_type",    "nv_fp*",               "nvfp4"},
    {"MLX",                "mode",         "mxfp8",                "mxfp8"},
    {"MLX",                "mode",         "mxfp4",                "mxfp4"},
    {"MLX",                "mode",         "nvfp4",                "nvfp4"},
    {"ComfyUI",            "format",       "float8_e[45]m[23]*",   "fp8"}, // its 4 bits and MX are swizzled
};
// clang-format on

inline bool is_quantization(const std::string& key) { return has("quantization_config quantization compression_config", key); }
/// Calls visit(path, parent, key, value) for all members of objects at any level. It decides whether to go into a value.
template <class Visit>
void walk(const json& node, const std::string& path, const std::string& parent, Visit&& visit) {
  for (const auto& [key, value] : node.items()) {
    const std::string at = path + (path.empty() || path.back() == ' ' ? "" : ".") + key;
    const bool is_in = !node.is_object() || visit(at, parent, key, value);
    if (is_in && value.is_structured()) walk(value, at, node.is_object() ? key : parent, visit);
  }
}

/// A configuration of quantized tensors.
struct Quantization {
  std::string where, method;
  json value;
  std::set<std::string> formats{};
  std::string unread{};   ///< what it names that is not read
  bool is_named = false;  ///< a format, if only that nothing is quantized

  Quantization(const std::string& path, const json& of) : where(path), value(of) {
    if (!value.is_object()) throw Failure(Failure::malformed, where + " must be an object, not " + text(value));
    const json& named = value.contains("quant_method") ? value["quant_method"] : json();
    method = named.is_string()              ? named.get<std::string>()
             : value.contains("quant_algo") ? "modelopt"
             : value.contains("bits")       ? "MLX"
             : value.contains("format")     ? "ComfyUI"
                                            : "";
    if (method == "MLX" && !value.contains("mode")) value["mode"] = "affine";  // as older versions of it
    walk(value, where, "", [&](const std::string& at, const std::string& parent, const std::string& key, const json& of_key) {
      if (of_key.is_string()) read(at, parent + "/" + key, of_key);
      return true;
    });
    for (const Method& row : methods)  // a method alone: any of its formats
      if (!is_named && row.method == method && row.formats != nullptr) add(row.formats);
    if (!is_named && formats.empty()) unread = (method.empty() ? "no method" : method) + " (" + where + ")";
  }
  void add(const char* of_row) {
    for (const char* format : {"fp8", "mxfp8", "mxfp4", "nvfp4"})
      if (has(of_row, format)) formats.insert(format);
  }
  void read(const std::string& at, const std::string& key, const std::string& of_key) {
    bool is_key = false;
    for (const Method& row : methods) {
      if (row.method != method || (key.substr(key.find('/') + 1) != row.key && key != row.key)) continue;
      is_key = is_named = true;
      if (row.value == nullptr || ::fnmatch(row.value, of_key.c_str(), 0) != 0) continue;
      if (row.formats == nullptr) break;
      return add(row.formats);
    }
    if (is_key && unread.empty()) unread = of_key + ", " + method + " (" + at + ")";
  }
};

/// All that a checkpoint has.
inline std::vector<Quantization> quantizations(const Checkpoint& checkpoint, const fs::path& in) {
  std::vector<Quantization> found;
  const auto add = [&](const std::string& path, const json& value) {
    if (!value.is_null() && value != false && !(value.is_structured() && value.empty())) found.emplace_back(path, value);
  };
  for (const auto& [file, config] :
       {std::pair{"config.json", &checkpoint.config}, {"hf_quant_config.json", &checkpoint.producer}})
    walk(*config, (in / file).string() + ": ", "",
         [&](const std::string& at, auto&, const std::string& key, const json& value) {
           if (is_quantization(key)) add(at, value);
           return !is_quantization(key);
         });
  for (const auto& [file, metadata] : checkpoint.metadata) {
    const std::string comfy = metadata.value("_quantization_metadata", "");
    if (!comfy.empty())
      walk(parse(comfy).value("layers", json::object()), file->name + ": _quantization_metadata: ", "",
           [&](const std::string& at, auto&, auto&, const json& value) {
             add(at, value);
             return false;
           });
  }
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!matches(name, {"*.comfy_quant"}) || tensor.bytes > 4096) continue;
    std::string value(tensor.bytes, ' ');
    tensor.file->move(::pread, value.data(), value.size(), tensor.offset);
    add(describe(tensor), parse(value));
  }
  return found;
}
/// The modules that configurations keep.
inline std::set<std::string> kept_modules(const std::vector<Quantization>& found) {
  std::set<std::string> kept;
  for (const Quantization& one : found)
    walk(one.value, "", "", [&](auto&, auto&, const std::string& key, const json& value) {
      if (has("modules_to_not_convert ignore exclude_modules exclude ignored_layers", key) && value.is_array())
        for (const json& name : value)
          if (name.is_string()) kept.insert(name.get<std::string>());
      return true;
    });
  return kept;
}
/// The blocks of fp8.
inline BlockShape blocks_of(const std::vector<Quantization>& found) {
  BlockShape blocks{128, 128};
  for (const Quantization& one : found)
    walk(one.value, one.where, "", [&](const std::string& at, auto&, const std::string& key, const json& value) {
      if (!has("weight_block_size block_structure", key) || value.is_null()) return true;
      const bool is_size = value.is_array() && value.size() == 2 && value[0].is_number_unsigned() &&
                           value[1].is_number_unsigned() && value[0] != 0 && value[1] != 0;
      if (!is_size) throw Failure(Failure::malformed, at + " is " + text(value));
      blocks = {value[0], value[1]};
      return false;
    });
  return blocks;
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
/// Removes what speaks of an old format, at any level. `dtype` becomes that of the weights; empty: it changes if they are
/// quantized.
inline void relabel(json& config, const std::string& dtype) {
  for (auto entry = config.begin(); entry != config.end();) {
    const std::string key = config.is_object() ? entry.key() : "";
    if (is_quantization(key) || has("expert_dtype scale_fmt", key)) {
      entry = config.erase(entry);
      continue;
    }
    if (has("dtype torch_dtype", key) && entry->is_string() && (!dtype.empty() || matches(*entry, {"*float8*", "*int*"})))
      *entry = dtype.empty() ? "bfloat16" : dtype;
    if (entry->is_structured()) relabel(*entry, dtype);
    ++entry;
  }
}
