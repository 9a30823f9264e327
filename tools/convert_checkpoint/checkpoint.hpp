#pragma once

// Checkpoints of safetensors files. A file is the size of its header in 8 bytes, little-endian; the
// header, in JSON; the tensors, without gaps. A directory may have several, and
// model.safetensors.index.json, which says in which of them a tensor is.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using nlohmann::json;
using Shape = std::vector<std::size_t>;

/// Ends the program.
struct Failure : std::runtime_error {
  enum Code { usage = 2, malformed = 3, not_read = 4, io = 5, interrupted = 130 } code;
  Failure(Code of, const std::string& what) : std::runtime_error(what), code(of) {}
};
inline std::string text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}
/// Refuses more than 64 levels, since what walks through JSON recurses.
template <class Input>
json parse(Input&& input) {
  return json::parse(input, [](int level, json::parse_event_t event, json&) {
    const bool begins =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    return begins && level >= 64 ? throw std::runtime_error("JSON has more than 64 levels") : true;
  });
}

/// An open file. Errors name it.
struct File {
  File(const fs::path& path, int flags)
      : name(path.string()), number(::open(path.c_str(), flags, 0666)) {
    check(number);
  }
  File(File&&) = delete;
  ~File() { ::close(number); }
  ssize_t check(ssize_t result) const {
    return result < 0 ? throw Failure(Failure::io, name + ": " + std::strerror(errno)) : result;
  }
  /// Calls pread or pwrite until all is done.
  template <class Call, class Data>
  void move(Call call, Data data, std::size_t bytes, std::size_t offset) const {
    for (std::size_t done = 0, n = 0; done < bytes; done += n) {
      n = static_cast<std::size_t>(
          check(call(number, data + done, bytes - done, static_cast<off_t>(offset + done))));
      if (n == 0)
        throw Failure(Failure::malformed, name + ": ends at offset " + text(offset + done));
    }
  }
  [[nodiscard]] std::string read(std::size_t bytes, std::size_t offset = 0) const {
    std::string contents(bytes, ' ');
    move(::pread, contents.data(), bytes, offset);
    return contents;
  }

  const std::string name;
  const int number;
};
/// A new file, which gets its name in `finish`. If that is not reached, as after an error, nothing
/// is left. A second process that writes the same file fails.
struct NewFile : File {
  explicit NewFile(const fs::path& to) : File(to.string() + ".part", O_RDWR | O_CREAT), path(to) {
    struct ::stat named {
    }, opened{};
    const bool is_locked =
        ::flock(number, LOCK_EX | LOCK_NB) == 0 && ::stat(name.c_str(), &named) == 0;
    // The other may have finished meanwhile
    if (!is_locked || ::fstat(number, &opened) != 0 || named.st_ino != opened.st_ino)
      throw Failure(Failure::io, name + ": another process writes this file");
    check(::ftruncate(number, 0));
  }
  ~NewFile() {
    if (!is_finished) ::unlink(name.c_str());
  }
  void append(const std::string& contents) {
    move(::pwrite, contents.data(), contents.size(), size), size += contents.size();
  }
  void finish() {
    check(::fsync(number));
    fs::rename(name, path);
    is_finished = true;
    const File directory(fs::absolute(path).parent_path(), O_RDONLY);
    directory.check(::fsync(directory.number));
  }

  const fs::path path;
  std::size_t size = 0;  // appended
  bool is_finished = false;
};

struct Tensor {
  std::string name, dtype{};
  Shape shape{};
  std::size_t bytes = 0, offset = 0;  // in the file
  const File* file = nullptr;
  mutable bool is_part = false;  // of a quantized tensor
  mutable bool is_gone = false;  // after the conversion
  bool operator<(const Tensor& other) const { return name < other.name; }
};
using Tensors = std::set<Tensor>;
inline std::string describe(const Tensor& of) {
  return of.file->name + ": " + of.name + ": " + of.dtype + " of shape " + text(of.shape);
}
/// 0 if the dtype is unknown.
inline std::size_t bits_of(const std::string& dtype) {
  const std::size_t digits = dtype.find_first_of("123456789");  // as in BF16 and F8_E4M3
  return dtype == "BOOL" ? 8 : digits > 2 ? 0 : std::strtoul(dtype.c_str() + digits, nullptr, 10);
}

struct Shard {
  const File file;
  const std::string name;
  json metadata{};
  std::vector<const Tensor*> tensors{};
  explicit Shard(const fs::path& path) : file(path, O_RDONLY), name(path.filename().string()) {}
};
/// A file, a directory with model.safetensors, or one with an index.
struct Checkpoint {
  bool has_index = false;
  std::map<std::string, json> configs;  // of config.json and hf_quant_config.json
  Tensors tensors;
  std::list<Shard> shards;
  std::string where;  // what is being read

  void read(const fs::path& path) {
    const fs::path index_path = path / "model.safetensors.index.json";
    const fs::path directory = fs::is_directory(path) ? path : path.parent_path();
    for (const char* name : {"config.json", "hf_quant_config.json"})
      configs[name] = read_object(directory / name);
    has_index = fs::exists(index_path);
    if (!has_index && fs::is_directory(path) && !fs::exists(path / "model.safetensors"))
      throw Failure(
          Failure::io,
          path.string() +
              ": has neither model.safetensors nor model.safetensors.index.json: No such file");
    if (!has_index)
      return read_file(fs::is_directory(path) ? path / "model.safetensors" : path, nullptr);
    json index = read_object(index_path), &map = index.at("weight_map");
    std::set<std::string> names;
    for (const auto& [tensor, file] : map.items()) names.insert(file.get<std::string>());
    if (names.empty()) throw std::runtime_error("weight_map is empty");
    for (const std::string& name : names) {
      where = index_path.string() + ": " + name;
      if (name.find('/') != name.npos || !fs::exists(path / name))
        throw std::runtime_error("there is no such file");
      read_file(path / name, &map);
    }
    for (const auto& [tensor, file] : map.items())
      throw Failure(Failure::malformed,
                    index_path.string() + ": " + tensor + " is not in " + text(file));
  }

 private:
  json read_object(const fs::path& path) {
    if (!fs::exists(path)) return json::object();
    where = path.string();
    json value = parse(std::ifstream(path));
    return value.is_object() ? value : throw std::runtime_error("must be an object");
  }
  /// Removes from the index what it finds. Loaders do not see other tensors.
  void read_file(const fs::path& path, json* index) {
    where = path.string();
    Shard& shard = shards.emplace_back(path);
    const std::size_t bytes = fs::file_size(path);
    std::uint64_t next = 0;
    shard.file.move(::pread, reinterpret_cast<char*>(&next), 8, 0);
    if (next > bytes - 8 || next > 100'000'000)  // the limit of the format
      throw std::runtime_error(
          "is no safetensors file: it begins with " + text(shard.file.read(8)) +
          ", so its header at offset 8 would have " + text(next) + " bytes, of " + text(bytes));
    const json entries = parse(shard.file.read(next, 8));
    if (!entries.is_object()) throw std::runtime_error("the header must be an object");
    next += 8;
    // Begin, end, name
    std::vector<std::tuple<std::size_t, std::size_t, std::string>> places{
        {bytes, bytes, "the end"}};
    for (const auto& [name, entry] : entries.items()) {
      where = path.string() + ": " + name + ": " + text(entry);
      if (name == "__metadata__") {
        for (const auto& [key, value] : entry.get_ref<const json::object_t&>())
          (void)value.get_ref<const std::string&>();
        shard.metadata = entry;
        continue;
      }
      const Tensor tensor = read_entry(name, entry, shard.file, next, bytes);
      places.emplace_back(tensor.offset, tensor.offset + tensor.bytes, name);
      if (index != nullptr && index->value(name, "") != shard.name) continue;
      if (index != nullptr) index->erase(name);
      shard.tensors.push_back(&*tensors.insert(tensor).first);
    }
    where = path.string() + ": the header";
    std::sort(places.begin(), places.end());
    for (const auto& [begin, end, name] : places) {
      if (begin != next)
        throw std::runtime_error("ends at offset " + text(next) + ", but " + name + " is at " +
                                 text(begin));
      where = path.string() + ": " + name;
      next = end;
    }
    where.clear();
  }
  static Tensor read_entry(const std::string& name, const json& entry, const File& file,
                           std::size_t data_at, std::size_t size) {
    for (const char* list : {"shape", "data_offsets"})
      for (const json& n : entry.at(list).get_ref<const json::array_t&>())
        if (!n.is_number_unsigned()) throw std::runtime_error(text(n) + " is no size");
    if (entry["data_offsets"].size() != 2)
      throw std::runtime_error("data_offsets must be two numbers");
    const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    if (begin > end || end > size - data_at)
      throw std::runtime_error("data_offsets must lie in the " + text(size - data_at) +
                               " bytes from offset " + text(data_at));
    const Tensor tensor{name,        entry.at("dtype"), entry["shape"],
                        end - begin, data_at + begin,   &file};
    double bytes = static_cast<double>(bits_of(tensor.dtype)) / 8;  // does not overflow
    for (const std::size_t n : tensor.shape) bytes *= static_cast<double>(n);
    if (bytes == static_cast<double>(tensor.bytes) && bits_of(tensor.dtype) > 0) return tensor;
    throw std::runtime_error("dtype and shape need " + text(bytes) + " bytes at offset " +
                             text(tensor.offset));
  }
};
