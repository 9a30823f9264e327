#pragma once

// Checkpoints of safetensors files. A file is the size of its header in 8 bytes, little-endian; the header, in JSON; the
// tensors, without gaps. A directory may have several, and model.safetensors.index.json, which says in which of them a tensor
// is.

#include <fcntl.h>
#include <unistd.h>

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
  enum Code { usage = 2, malformed = 3, bad_scale = 4, io = 5, interrupted = 130 } code;
  Failure(Code of, const std::string& what) : std::runtime_error(what), code(of) {}
};
inline std::string text(const json& value) { return value.dump(); }

/// An open file. Errors name it.
struct File {
  File(const fs::path& path, int flags) : name(path.string()), number(::open(path.c_str(), flags, 0666)) { check(number); }
  File(File&&) = delete;
  ~File() { ::close(number); }
  ssize_t check(ssize_t result) const {
    return result < 0 ? throw Failure(Failure::io, name + ": " + std::strerror(errno)) : result;
  }
  /// Calls pread or pwrite until all is done.
  template <class Call, class Data>
  void move(Call call, Data data, std::size_t bytes, std::size_t offset) const {
    for (std::size_t done = 0, n = 0; done < bytes; done += n) {
      n = static_cast<std::size_t>(check(call(number, data + done, bytes - done, static_cast<off_t>(offset + done))));
      if (n == 0) throw Failure(Failure::malformed, name + ": ends at offset " + text(offset + done));
    }
  }

  const std::string name;
  const int number;
};
/// A new file, which gets its name in `finish`. If that is not reached, as after an error, nothing is left.
struct NewFile : File {
  explicit NewFile(const fs::path& to) : File(to.string() + ".part", O_RDWR | O_CREAT | O_TRUNC), path(to) {}
  ~NewFile() { ::unlink(name.c_str()); }
  void finish() const {
    check(::fsync(number));
    fs::rename(name, path);
    const File directory(fs::absolute(path).parent_path(), O_RDONLY);
    directory.check(::fsync(directory.number));
  }

  const fs::path path;
};

struct Tensor {
  std::string name, dtype;
  Shape shape;
  std::size_t bytes = 0, offset = 0;  // in the file
  const File* file = nullptr;
};
/// 0 if the dtype is unknown.
inline std::size_t bits_of(const std::string& dtype) {
  const std::size_t digits = dtype.find_first_of("123456789");  // as in BF16 and F8_E4M3
  return dtype == "BOOL" ? 8 : digits > 2 ? 0 : std::strtoul(dtype.c_str() + digits, nullptr, 10);
}

/// A file, a directory with model.safetensors, or one with an index.
struct Checkpoint {
  bool has_index = false;
  json config = json::object();
  std::map<std::string, Tensor> tensors;
  std::list<File> files;
  std::map<const File*, json> metadata;
  std::string where;  // what is being read

  void read(const fs::path& path) {
    const fs::path config_path = path / "config.json", index_path = path / "model.safetensors.index.json";
    if (fs::exists(config_path)) config = read_json(config_path);
    has_index = fs::exists(index_path);
    if (!has_index) return read_file(fs::is_directory(path) ? path / "model.safetensors" : path, nullptr);
    json index = read_json(index_path), &map = index.at("weight_map");
    std::set<std::string> names;
    for (const auto& [tensor, file] : map.items()) names.insert(file.get<std::string>());
    for (const std::string& name : names) {
      where = index_path.string() + ": " + name;
      if (name.find('/') != name.npos || !fs::exists(path / name)) throw std::runtime_error("there is no such file");
      read_file(path / name, &map);
    }
    for (const auto& [tensor, file] : map.items())
      throw Failure(Failure::malformed, index_path.string() + ": " + tensor + " is not in " + text(file));
  }

 private:
  json read_json(const fs::path& path) {
    where = path.string();
    std::ifstream in(path);
    return json::parse(in);
  }
  /// Removes from the index what it finds. Loaders do not see other tensors.
  void read_file(const fs::path& path, json* index) {
    where = path.string();
    const File& file = files.emplace_back(path, O_RDONLY);
    const std::size_t bytes = fs::file_size(path);
    std::uint64_t next = 0;
    file.move(::pread, reinterpret_cast<char*>(&next), 8, 0);
    if (next > bytes) throw std::runtime_error("the header at offset 8 has " + text(next) + " bytes, the file " + text(bytes));
    std::string header(next, ' ');
    file.move(::pread, header.data(), next, 8);
    next += 8;
    std::map<std::pair<std::size_t, std::size_t>, std::string> in_order{{{bytes, 0}, "the end"}};
    const json entries = json::parse(header);
    for (const auto& [name, entry] : entries.items()) {
      where = path.string() + ": " + name + ": " + entry.dump();
      if (name == "__metadata__") metadata[&file] = entry;
      if (name == "__metadata__") continue;
      const Tensor tensor = read_entry(name, entry, file, next);
      in_order[{tensor.offset, tensor.bytes}] = where;
      if (index != nullptr && index->value(name, "") != path.filename()) continue;
      if (index != nullptr) index->erase(name);
      tensors[name] = tensor;
    }
    where = path.string() + ": the header";
    for (const auto& [place, of] : in_order) {
      if (place.first != next)
        throw std::runtime_error("ends at offset " + text(next) + "; at " + text(place.first) + " is " + of);
      next += place.second;
      where = of;
    }
    where.clear();
  }
  static Tensor read_entry(const std::string& name, const json& entry, const File& file, std::size_t data_at) {
    for (const char* list : {"shape", "data_offsets"})
      for (const json& n : entry.at(list))
        if (!n.is_number_unsigned()) throw std::runtime_error(text(n) + " is no size");
    const std::size_t begin = entry["data_offsets"].at(0), end = entry["data_offsets"].at(1);
    const Tensor tensor{name, entry.at("dtype"), entry["shape"], end - begin, data_at + begin, &file};
    double bytes = static_cast<double>(bits_of(tensor.dtype)) / 8;  // does not overflow
    for (const std::size_t size : tensor.shape) bytes *= static_cast<double>(size);
    if (begin <= end && bytes == static_cast<double>(tensor.bytes) && bits_of(tensor.dtype) > 0) return tensor;
    throw std::runtime_error("dtype and shape need " + text(bytes) + " bytes at offset " + text(tensor.offset));
  }
};
