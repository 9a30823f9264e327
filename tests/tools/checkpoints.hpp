#pragma once

// What the test of convert_checkpoint needs: it makes and reads checkpoints, runs the program, and
// computes in plain scalar code what the numbers are. Nothing here uses headroom.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace fs = std::filesystem;
using nlohmann::json;
using Shape = std::vector<std::size_t>;
using Bytes = std::string;
using Texts = std::vector<std::string>;

// ---- numbers ----

/// Of 1 sign bit, exponent_bits and mantissa_bits, as if no bits were Inf or NaN.
inline float minifloat(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1,
            exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1),
            mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  const bool is_negative = (bits >> (exponent_bits + mantissa_bits) & 1U) != 0;
  const float value = exponent == 0
                          ? std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits)
                          : std::ldexp(static_cast<float>(mantissa + (1 << mantissa_bits)),
                                       exponent - bias - mantissa_bits);
  return is_negative ? -value : value;
}
struct Kind {
  int exponent_bits, mantissa_bits;
  unsigned largest;  ///< the bits of the largest finite number
  bool saturates;
};
/// The dtypes of safetensors, and E2M1 for codes of 4 bits.
inline Kind kind_of(const std::string& dtype) {
  if (dtype == "F16") return {5, 10, 0x7BFF, false};
  if (dtype == "BF16") return {8, 7, 0x7F7F, false};
  if (dtype == "F8_E4M3") return {4, 3, 0x7E, true};
  if (dtype == "F8_E5M2") return {5, 2, 0x7B, true};
  return {2, 1, 7, true};
}
inline std::size_t bits_in(const std::string& dtype) {
  if (dtype == "BOOL") return 8;
  return dtype == "E2M1"
             ? 4
             : static_cast<std::size_t>(std::stoul(dtype.substr(dtype.find_first_of("123468"))));
}
inline float number(unsigned bits, const std::string& dtype) {
  if (dtype == "F8_E8M0")
    return bits == 0xFF ? std::nanf("") : std::ldexp(1.0F, static_cast<int>(bits) - 127);
  const Kind kind = kind_of(dtype);
  const unsigned magnitude = bits & ((1U << (kind.exponent_bits + kind.mantissa_bits)) - 1);
  if (magnitude <= kind.largest) return minifloat(bits, kind.exponent_bits, kind.mantissa_bits);
  const bool is_infinity = dtype != "F8_E4M3" && magnitude == kind.largest + 1;
  return !is_infinity ? std::nanf("") : magnitude == bits ? HUGE_VALF : -HUGE_VALF;
}
/// The numbers of all bits of a dtype.
inline const std::vector<float>& numbers(const std::string& dtype) {
  static std::map<std::string, std::vector<float>> tables;
  std::vector<float>& table = tables[dtype];
  for (unsigned bits = 0; table.size() < std::size_t{1} << bits_in(dtype); ++bits)
    table.push_back(number(bits, dtype));
  return table;
}
inline std::vector<float> decode(const Bytes& bytes, const std::string& dtype) {
  std::vector<float> values(bytes.size() * 8 / bits_in(dtype));
  if (dtype == "F32") std::memcpy(values.data(), bytes.data(), bytes.size());
  if (dtype == "F32") return values;
  const std::vector<float>& table = numbers(dtype);
  for (std::size_t i = 0, width = bits_in(dtype) / 8; i < values.size(); ++i) {
    std::uint16_t word = 0;
    std::memcpy(&word, &bytes[width == 0 ? i / 2 : i * width], std::max<std::size_t>(1, width));
    values[i] = table[width == 0 ? word >> (4 * (i % 2)) & 15U : word];
  }
  return values;
}
/// The nearest, or that with an even code.
inline unsigned nearest(float value, const Kind& kind, const std::vector<float>& table) {
  const unsigned sign = std::signbit(value) ? 1U << (kind.exponent_bits + kind.mantissa_bits) : 0;
  if (std::isnan(value))
    return kind.largest + (kind.exponent_bits == 4 ? 1 : (1U << (kind.mantissa_bits - 1)) + 1);
  const double size = std::fabs(static_cast<double>(value)), largest = table[kind.largest];
  if (size >= largest) {
    const bool overflows =
        !kind.saturates &&
        size >= largest + (largest - static_cast<double>(table[kind.largest - 1])) / 2;
    return sign + kind.largest + (overflows ? 1 : 0);
  }
  const auto above = static_cast<unsigned>(
      std::upper_bound(table.begin(), table.begin() + kind.largest, size) - table.begin());
  const double to_above = static_cast<double>(table[above]) - size,
               to_below = size - static_cast<double>(table[above - 1]);
  return sign +
         (to_above < to_below || (to_above == to_below && above % 2 == 0) ? above : above - 1);
}
inline Bytes encode(const std::vector<float>& values, const std::string& dtype) {
  Bytes bytes(values.size() * bits_in(dtype) / 8, '\0');
  if (dtype == "F32") std::memcpy(bytes.data(), values.data(), bytes.size());
  if (dtype == "F32") return bytes;
  const std::vector<float>& table = numbers(dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned code = nearest(values[i], kind_of(dtype), table);
    if (dtype == "E2M1")
      bytes[i / 2] =
          static_cast<char>(static_cast<unsigned char>(bytes[i / 2]) | code << (4 * (i % 2)));
    if (dtype != "E2M1") std::memcpy(&bytes[i * bits_in(dtype) / 8], &code, bits_in(dtype) / 8);
  }
  return bytes;
}
/// Hexadecimal digits, `count` times.
inline Bytes hex(const std::string& digits, std::size_t count = 1) {
  Bytes bytes;
  for (std::size_t n = 0; n < count; ++n)
    for (std::size_t i = 0; i < digits.size(); i += 2)
      bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}
inline std::size_t product(const Shape& shape) {
  std::size_t result = 1;
  for (const std::size_t n : shape) result *= n;
  return result;
}
inline std::mt19937& engine() {
  static std::mt19937 one(1);
  return one;
}
inline Bytes random_bytes(std::size_t n) {
  Bytes bytes(n, ' ');
  for (char& byte : bytes) byte = static_cast<char>(engine()());
  return bytes;
}
/// Positive, from 2^-4 to 16.
inline std::vector<float> random_numbers(std::size_t n) {
  std::vector<float> values(n);
  for (float& value : values)
    value = std::ldexp(1.0F + static_cast<float>(engine()() % 8192) / 8192,
                       static_cast<int>(engine()() % 8) - 4);
  return values;
}
/// Exact, except that any NaN is any NaN of the dtype. Empty if all are equal.
inline std::string difference(const Bytes& got, const Bytes& want, const std::string& dtype) {
  if (got.size() != want.size())
    return std::to_string(got.size()) + " bytes, not " + std::to_string(want.size());
  if (got == want) return "";
  const bool is_number = dtype == "F32" || dtype == "BF16" || dtype == "F16";
  const std::string as = is_number ? dtype : "F8_E8M0";
  const std::vector<float> a = decode(got, as), b = decode(want, as);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t width = bits_in(as) / 8;
    if (got.compare(i * width, width, want, i * width, width) == 0 ||
        (is_number && std::isnan(a[i]) && std::isnan(b[i])))
      continue;
    std::ostringstream text;
    text << "element " << i << " of " << a.size() << " is " << a[i] << ", not " << b[i];
    return text.str();
  }
  return "";
}
inline std::string crc32(const Bytes& bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0);
  }
  std::ostringstream text;
  text.width(8);
  text.fill('0');
  text << std::hex << ~crc;
  return text.str();
}

// ---- files ----

/// A directory that is the current one and vanishes at the end, in memory if there is some: the
/// program waits for disks.
struct Workplace {
  Workplace() {
    std::error_code ignored;
    const bool is_fast =
        fs::space("/dev/shm", ignored).available > std::size_t{1} << 28 && !ignored;
    std::string name =
        (is_fast ? "/dev/shm" : fs::temp_directory_path().string()) + "/convert_checkpoint_XXXXXX";
    path = ::mkdtemp(name.data());
    fs::current_path(path);
  }
  ~Workplace() {
    fs::current_path("/");
    fs::remove_all(path);
  }
  Workplace(const Workplace&) = delete;
  fs::path path;
};
inline Bytes contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void put(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
/// A safetensors file of any header.
inline Bytes with_header(const std::string& header, const Bytes& data) {
  const std::uint64_t size = header.size();
  return Bytes(reinterpret_cast<const char*>(&size), 8) + header + data;
}

struct Tensor {
  std::string name, dtype;
  Shape shape;
  Bytes bytes;
  /// All bytes are 0x38: 1 in e4m3, a small number in others.
  Tensor(std::string of_name, std::string of_dtype, Shape of_shape)
      : Tensor(std::move(of_name), of_dtype, of_shape,
               Bytes(product(of_shape) * bits_in(of_dtype) / 8, '\x38')) {}
  Tensor(std::string of_name, std::string of_dtype, Shape of_shape, Bytes of_bytes)
      : name(std::move(of_name)),
        dtype(std::move(of_dtype)),
        shape(std::move(of_shape)),
        bytes(std::move(of_bytes)) {}
};
/// As "w.weight U8 [4,16]; w.weight_scale F32 [] 0.5". What follows the shape is the number of all
/// elements of F32, or, in {}, the bytes, or, after =, their hexadecimal digits, as in "v BF16 [3]
/// = 803f*2 0000".
inline std::vector<Tensor> tensors_of(const std::string& list) {
  std::vector<Tensor> tensors;
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ';');) {
    std::istringstream words(item);
    std::string name, dtype, shape, rest, digits;
    words >> name >> dtype >> shape >> std::ws;
    tensors.emplace_back(name, dtype, json::parse(shape).get<Shape>());
    Bytes& bytes = tensors.back().bytes;
    if (!std::getline(words, rest)) continue;
    if (rest[0] == '{') bytes = rest;
    if (rest[0] != '{' && rest[0] != '=')
      bytes = encode(std::vector<float>(product(tensors.back().shape), std::stof(rest)), "F32");
    if (rest[0] != '=') continue;
    bytes.clear();
    for (std::istringstream runs(rest.substr(1)); runs >> digits;) {
      const std::size_t star = digits.find('*');
      bytes += hex(digits.substr(0, star),
                   star == digits.npos ? 1 : std::stoul(digits.substr(star + 1)));
    }
  }
  return tensors;
}
/// A file to be. With a configuration it is in a directory.
struct Files {
  std::vector<Tensor> tensors{};
  json config{}, producer{}, metadata{};

  Files& add(Tensor tensor) {
    tensors.push_back(std::move(tensor));
    return *this;
  }
  void write(const fs::path& path, const std::string& file = "model.safetensors") const {
    json header = json::object();
    Bytes data;
    if (!metadata.is_null()) header["__metadata__"] = metadata;
    for (const Tensor& one : tensors) {
      header[one.name] = {{"dtype", one.dtype},
                          {"shape", one.shape},
                          {"data_offsets", {data.size(), data.size() + one.bytes.size()}}};
      data += one.bytes;
    }
    const Bytes all = with_header(header.dump(), data);
    if (config.is_null()) return put(path, all);
    fs::create_directories(path);
    put(path / file, all);
    put(path / "config.json", config.dump());
    if (!producer.is_null()) put(path / "hf_quant_config.json", producer.dump());
  }
};
/// Writes the index of a directory: {tensor, file}.
inline void write_index(const fs::path& path, const json& map) {
  put(path / "model.safetensors.index.json", json{{"weight_map", map}}.dump());
}
/// What a file or a directory has. Fails if the index differs.
inline std::map<std::string, Tensor> read(const fs::path& path, json* metadata = nullptr) {
  std::map<std::string, Tensor> found;
  std::vector<fs::path> files{path};
  if (fs::is_directory(path)) {
    files.clear();
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  json map = json::object();
  for (const fs::path& file : files) {
    const Bytes all = contents(file);
    std::uint64_t size = 0;
    std::memcpy(&size, all.data(), std::min<std::size_t>(8, all.size()));
    const json header = json::parse(all.substr(8, size));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        if (metadata != nullptr) *metadata = entry;
        continue;
      }
      const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
      found.emplace(name, Tensor(name, entry["dtype"], entry["shape"],
                                 all.substr(8 + size + begin, end - begin)));
      map[name] = file.filename().string();
    }
  }
  const fs::path index = path / "model.safetensors.index.json";
  if (fs::exists(index) && json::parse(contents(index))["weight_map"] != map)
    throw std::runtime_error("another index: " + map.dump());
  return found;
}
/// What differs in one tensor of a file, or empty.
inline std::string differs(const std::map<std::string, Tensor>& got, const Tensor& want) {
  const auto found = got.find(want.name);
  if (found == got.end()) return want.name + " is missing";
  const Tensor& one = found->second;
  const auto text = [](const Tensor& of) { return of.dtype + " " + json(of.shape).dump(); };
  if (text(one) != text(want)) return want.name + " is " + text(one) + ", not " + text(want);
  const std::string what = difference(one.bytes, want.bytes, want.dtype);
  return what.empty() ? what : want.name + ": " + what;
}
/// A line for each tensor, as in expected.txt.
inline std::string describe(const fs::path& path) {
  std::string lines;
  for (const auto& [name, tensor] : read(path)) {
    std::string shape;
    for (const std::size_t n : tensor.shape)
      shape += (shape.empty() ? "" : "x") + std::to_string(n);
    lines += name + " " + tensor.dtype + " " + (shape.empty() ? "scalar" : shape) + " " +
             crc32(tensor.bytes) + "\n";
  }
  return lines;
}

// ---- the program ----

struct Result {
  int code;
  std::string out, err;
};
/// Runs in a child before the program.
using Setup = std::function<void()>;
inline pid_t start(
    const Texts& arguments, const Setup& setup = [] {}) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  std::vector<char*> argv{const_cast<char*>(HEADROOM_TEST_PROGRAM)};
  for (const std::string& one : arguments) argv.push_back(const_cast<char*>(one.c_str()));
  argv.push_back(nullptr);
  if (std::freopen("log.out", "w", stdout) == nullptr ||
      std::freopen("log.err", "w", stderr) == nullptr)
    ::_exit(126);
  setup();
  ::execv(argv[0], argv.data());
  ::_exit(127);
}
inline Result finish(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), contents("log.out"),
          contents("log.err")};
}
inline Result run(
    const Texts& arguments, const Setup& setup = [] {}) {
  return finish(start(arguments, setup));
}
