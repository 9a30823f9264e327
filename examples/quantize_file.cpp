// Quantizes the weights of a safetensors file to fp8 and back, and says what was lost.
//
//   quantize_file to-fp8 IN OUT     with a scale for each tensor
//   quantize_file to-mx IN OUT      with a scale for each 32 neighbours in a row
//   quantize_file to-float IN OUT   back, to F32
//   quantize_file --demo DIRECTORY  does all of this with weights that it makes
//
// Tensors of F64, F32, F16 or BF16 with two or more dimensions are quantized, others are copied, also those of unknown dtypes.
// NAME becomes F8_E4M3, and NAME_scale is what its elements are multiplied by to dequantize them:
//   to-fp8   one F32
//   to-mx    a U8 for each block of 32, the exponent plus 127, in the shape of NAME with ceil(n / 32) for the last n above 1
// OUT may be IN. After an error OUT is what it was. In the table, the largest relative error is that of elements that did not
// become zero.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using headroom::float8_e4m3;
using nlohmann::json;
using Shape = std::vector<std::size_t>;

struct Tensor {
  std::string dtype;
  Shape shape;
  std::string bytes;
};
struct File {
  json metadata;  // null if there is none
  std::map<std::string, Tensor> tensors;
};

[[noreturn]] void fail(const std::string& where, const std::string& what) { throw std::runtime_error(where + ": " + what); }

/// 0 if the dtype is unknown.
std::size_t bytes_each(const std::string& dtype) {
  static const std::map<std::string, std::size_t> sizes = {{"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
                                                           {"F8_E5M2", 1}, {"I64", 8}, {"U64", 8}, {"I32", 4},  {"U32", 4},
                                                           {"I16", 2},     {"U16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}
Shape sizes_in(const json& list) {
  Shape sizes;
  for (const json& size : list) {
    if (!size.is_number_unsigned()) throw std::runtime_error(size.dump() + " is no size");
    sizes.push_back(size.get<std::size_t>());
  }
  return sizes;
}

/// A safetensors file is the size of its header in 8 bytes, little-endian; the header, in JSON; the tensors, without gaps.
File read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(path, "cannot be read");
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::uint64_t size = 0;
  if (all.size() >= sizeof size) std::memcpy(&size, all.data(), sizeof size);
  if (all.size() < sizeof size || size > all.size() - sizeof size) {
    fail(path, "has " + std::to_string(all.size()) + " bytes, its header " + std::to_string(size));
  }
  const std::string data(all, sizeof size + size);
  File file;
  std::map<std::size_t, std::pair<std::size_t, std::string>> ranges;  // begin, end, name
  std::string where = path + ": header";
  try {
    const json header = json::parse(all.begin() + sizeof size, all.begin() + static_cast<std::ptrdiff_t>(sizeof size + size));
    for (const auto& [name, entry] : header.get<std::map<std::string, json>>()) {
      if (name == "__metadata__") {
        file.metadata = entry;
        continue;
      }
      where = path + ": " + name + ": " + entry.dump();
      Tensor tensor{entry.at("dtype").get<std::string>(), sizes_in(entry.at("shape")), {}};
      const Shape offsets = sizes_in(entry.at("data_offsets"));
      const std::size_t begin = offsets.at(0), end = offsets.at(1);
      const bool is_known = bytes_each(tensor.dtype) != 0;
      if (!is_known)
        std::fprintf(stderr, "%s: %s: unknown dtype %s: copied\n", path.c_str(), name.c_str(), tensor.dtype.c_str());
      auto bytes = static_cast<double>(bytes_each(tensor.dtype));  // does not overflow
      for (const std::size_t n : tensor.shape) bytes *= static_cast<double>(n);
      if (begin > end || end > data.size() || (is_known && static_cast<double>(end - begin) != bytes)) {
        fail("data_offsets",
             "dtype and shape need " + json(bytes).dump() + " bytes, the file has " + std::to_string(data.size()));
      }
      tensor.bytes = data.substr(begin, end - begin);
      if (begin != end) ranges[begin] = {end, name};
      file.tensors[name] = std::move(tensor);
    }
  } catch (const std::exception& error) {
    fail(where, error.what());
  }
  std::size_t next = 0;
  for (const auto& [begin, range] : ranges) {
    if (begin != next) {
      fail(path + ": " + range.second, "data_offsets begin at " + std::to_string(begin) + ", not at " + std::to_string(next));
    }
    next = range.first;
  }
  if (next != data.size()) fail(path, "the tensors have " + std::to_string(next) + " bytes of " + std::to_string(data.size()));
  return file;
}

/// Writes another file and renames it. The largest elements come first, so that all are aligned.
void write_file(const std::string& path, const File& file) {
  std::vector<std::pair<std::string, Tensor>> tensors(file.tensors.begin(), file.tensors.end());
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return bytes_each(a.second.dtype) > bytes_each(b.second.dtype); });
  json entries = json::object();
  if (!file.metadata.is_null()) entries["__metadata__"] = file.metadata;
  std::size_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t end = begin + tensor.bytes.size();
    entries[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string header = entries.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = header.size();
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof size) << header;
  for (const auto& [name, tensor] : tensors) out << tensor.bytes;
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, path, error);
  if (out && !error) return;
  std::filesystem::remove(temporary, error);
  fail(path, "cannot be written");
}

template <class T>
std::vector<T> elements_of(const Tensor& tensor) {
  std::vector<T> elements(tensor.bytes.size() / sizeof(T));
  if (!elements.empty()) std::memcpy(elements.data(), tensor.bytes.data(), tensor.bytes.size());
  return elements;
}
template <class T>
Tensor make_tensor(const char* dtype, Shape shape, const std::vector<T>& elements) {
  return {dtype, std::move(shape), std::string(reinterpret_cast<const char*>(elements.data()), sizeof(T) * elements.size())};
}

/// The elements of a row, which lies along the last dimension of more than one element.
std::size_t& row_of(Shape& shape) {
  std::size_t i = shape.size() - 1;
  while (i > 0 && shape[i] == 1) --i;
  return shape[i];
}
Shape shape_of_scales(Shape shape) {
  row_of(shape) = (row_of(shape) + 31) / 32;
  return shape;
}
/// Calls `f(values, codes, scales)` with spans for each row.
template <class Value, class Code, class Scale, class F>
void for_each_row(Shape shape, std::vector<Value>& values, std::vector<Code>& codes, std::vector<Scale>& scales, F f) {
  const std::size_t row = row_of(shape), blocks = (row + 31) / 32;
  for (std::size_t i = 0; i * row < values.size(); ++i) {
    f(headroom::span<Value>(&values[i * row], row), headroom::span<Code>(&codes[i * row], row),
      headroom::span<Scale>(&scales[i * blocks], blocks));
  }
}

/// `where` names the codes.
std::vector<float> dequantized(const std::string& where, const Tensor& tensor, const Tensor& scale) {
  auto codes = elements_of<float8_e4m3>(tensor);
  if (scale.dtype == "F32" && scale.bytes.size() == sizeof(float)) {
    return headroom::dequantize<float>(codes, elements_of<float>(scale));
  }
  if (scale.dtype != "U8" || tensor.shape.empty() || scale.shape != shape_of_scales(tensor.shape)) {
    fail(where + "_scale",
         scale.dtype + " of shape " + json(scale.shape).dump() + " is for no tensor of shape " + json(tensor.shape).dump());
  }
  std::vector<float> values(codes.size());
  auto scales = elements_of<headroom::e8m0>(scale);
  for_each_row(tensor.shape, values, codes, scales, [](auto row, auto of_row, auto scales_of_row) {
    headroom::dequantize_blocks_into(of_row, scales_of_row, row, {1, 32});
  });
  return values;
}

/// Empty if the tensor is to be copied.
std::vector<float> values_to_quantize(const Tensor& tensor) {
  if (tensor.shape.size() < 2) return {};
  if (tensor.dtype == "F64") {
    const auto elements = elements_of<double>(tensor);
    auto values = headroom::cast<float>(elements);
    for (std::size_t i = 0; i < values.size(); ++i) {  // so that the table counts them
      if (elements[i] != 0.0 && values[i] == 0.0F) values[i] = std::numeric_limits<float>::denorm_min();
    }
    return values;
  }
  if (tensor.dtype == "F16") return headroom::cast<float>(elements_of<headroom::half>(tensor));
  if (tensor.dtype == "BF16") return headroom::cast<float>(elements_of<headroom::bfloat16>(tensor));
  return tensor.dtype == "F32" ? elements_of<float>(tensor) : std::vector<float>();
}

void print_loss(const std::string& name, const std::vector<float>& x, const std::vector<float>& back, const Tensor& codes) {
  std::size_t zeros = 0, saturated = 0;
  double largest = 0.0, errors = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double size = std::fabs(double{x[i]}), stored = std::fabs(double{back[i]}), error = std::fabs(size - stored);
    errors += error * error;
    squares += size * size;
    zeros += size != 0.0 && stored == 0.0 ? 1 : 0;
    if (stored != 0.0) largest = std::max(largest, error / size);
    const bool is_largest = (codes.bytes[i] & 0x7F) == std::numeric_limits<float8_e4m3>::max().bits();
    saturated += is_largest && size > stored * (1.0 + 1.0 / 28.0) ? 1 : 0;  // by more than half a step: 448 is 28 half steps
  }
  std::printf("%-40s %9zu %9.2f %% %9.2f %% %8zu %9zu\n", name.c_str(), x.size(), 100.0 * largest,
              squares > 0.0 ? 100.0 * std::sqrt(errors / squares) : 0.0, zeros, saturated);
}

void quantize_file(const std::string& from, const std::string& to, bool mx) {
  const File in = read_file(from);
  File out = in;
  std::printf("%-40s %9s %11s %11s %8s %9s\n", "", "elements", "max error", "RMS error", "to zero", "saturated");
  for (const auto& [name, tensor] : in.tensors) {
    auto x = values_to_quantize(tensor);
    if (x.empty()) continue;
    if (in.tensors.count(name + "_scale") != 0) fail(from + ": " + name + "_scale", "exists already");
    if (const auto bad = headroom::find_nonfinite(x))
      fail(from + ": " + name, "is not finite at " + std::to_string(bad->index));
    Tensor &codes = out.tensors[name], &scale = out.tensors[name + "_scale"];
    if (mx) {
      const Shape of_scales = shape_of_scales(tensor.shape);
      std::vector<float8_e4m3> quantized(x.size());
      std::vector<headroom::e8m0> scales(1);
      for (const std::size_t n : of_scales) scales.resize(scales.size() * n);
      for_each_row(tensor.shape, x, quantized, scales, [](auto row, auto of_row, auto scales_of_row) {
        (void)headroom::quantize_blocks_into(row, of_row, scales_of_row, {1, 32},
                                             headroom::MxScaling{headroom::MxScale::rceil});
      });
      codes = make_tensor("F8_E4M3", tensor.shape, quantized);
      scale = make_tensor("U8", of_scales, scales);
    } else {
      headroom::TensorScales<float8_e4m3, headroom::CurrentScaling> scales(x);
      codes = make_tensor("F8_E4M3", tensor.shape, scales.quantize(x));
      scale = make_tensor("F32", {1}, std::vector<float>{scales.inverse_scales()[0]});
    }
    print_loss(name, x, dequantized(from + ": " + name, codes, scale), codes);
  }
  write_file(to, out);
}

void dequantize_file(const std::string& from, const std::string& to) {
  const File in = read_file(from);
  File out = in;
  for (const auto& [name, tensor] : in.tensors) {
    if (tensor.dtype != "F8_E4M3") continue;
    const auto scale = in.tensors.find(name + "_scale");
    if (scale == in.tensors.end()) fail(from + ": " + name, "there is no " + name + "_scale");
    try {
      out.tensors[name] = make_tensor("F32", tensor.shape, dequantized(from + ": " + name, tensor, scale->second));
    } catch (const std::invalid_argument& error) {
      fail(from + ": " + name + "_scale", error.what());
    }
    out.tensors.erase(name + "_scale");
  }
  write_file(to, out);
}

/// A tensor whose rows have magnitudes from 1 to 2^-20, one that fp8 suits, and two that are copied.
File demo_weights() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> even(64 * 100), uneven(even);
  for (float& value : even) value = 0.02F * normal(random);
  for (std::size_t i = 0; i < uneven.size(); ++i) uneven[i] = std::ldexp(normal(random), -static_cast<int>(i / 100 % 21));
  return {json{{"made_by", "quantize_file"}},
          {{"even.weight", make_tensor("F32", {64, 100}, even)},
           {"uneven.weight", make_tensor("BF16", {64, 100}, headroom::cast<headroom::bfloat16>(uneven))},
           {"norm.weight", make_tensor("F32", {64}, std::vector<float>(64, 1.0F))},
           {"steps", make_tensor("I64", {}, std::vector<std::int64_t>{1000})}}};
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> args(argv + 1, argv + argc);
    if (args.size() == 3 && (args[0] == "to-fp8" || args[0] == "to-mx")) {
      quantize_file(args[1], args[2], args[0] == "to-mx");
    } else if (args.size() == 3 && args[0] == "to-float") {
      dequantize_file(args[1], args[2]);
    } else if (args.size() == 2 && args[0] == "--demo") {
      std::filesystem::create_directories(args[1]);
      const std::string weights = args[1] + "/weights.safetensors";
      write_file(weights, demo_weights());
      for (const std::string format : {"fp8", "mx"}) {
        const std::string file = args[1] + "/weights_" + format + ".safetensors";
        std::printf("%s:\n", file.c_str());
        quantize_file(weights, file, format == "mx");
        dequantize_file(file, args[1] + "/weights_" + format + "_float.safetensors");
      }
    } else {
      fail("quantize_file", "call it with to-fp8, to-mx or to-float, a file and a file, or with --demo and a directory");
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
