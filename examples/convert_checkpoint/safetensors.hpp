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
template <class T>  // a number or a shape
std::string text(const T& value) {
  return json(value).dump();
}

/// An open file. Errors name it.
class File {
 public:
  File(const fs::path& path, int flags) : name(path.string()), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    check(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(descriptor_); }

  [[nodiscard]] std::size_t size() const { return fs::file_size(name); }
  void read(void* to, std::size_t bytes, std::size_t offset) const { move(::pread, static_cast<char*>(to), bytes, offset); }
  void write(const void* from, std::size_t bytes, std::size_t offset) const {
    move(::pwrite, static_cast<const char*>(from), bytes, offset);
  }
  void sync() const { check(::fsync(descriptor_)); }

  const std::string name;

 private:
  void check(ssize_t result) const {
    if (result < 0) throw Failure(Failure::io, name + ": " + std::strerror(errno));
  }
  template <class Call, class Data>
  void move(Call call, Data data, std::size_t bytes, std::size_t offset) const {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t n = call(descriptor_, data + done, bytes - done, static_cast<off_t>(offset + done));
      check(n);
      if (n == 0) throw Failure(Failure::io, name + " ends at offset " + text(offset + done));
      done += static_cast<std::size_t>(n);
    }
  }

  int descriptor_;
};

/// A new file, which gets its name in `finish`. If that is not reached, as after an error, nothing is left.
class NewFile : public File {
 public:
  explicit NewFile(const fs::path& path) : File(path.string() + ".part", O_RDWR | O_CREAT | O_TRUNC), path_(path) {}
  ~NewFile() {
    if (!is_finished_) ::unlink(name.c_str());
  }
  void finish() {
    sync();
    fs::rename(name, path_);
    is_finished_ = true;
    File(fs::absolute(path_).parent_path(), O_RDONLY).sync();
  }

 private:
  fs::path path_;
  bool is_finished_ = false;
};

struct Tensor {
  std::string dtype;
  Shape shape;
  std::size_t bytes = 0, offset = 0;  // in the file
  const File* file = nullptr;
};

/// 0 if the dtype is unknown.
inline std::size_t bits_of(const std::string& dtype) {
  if (dtype == "BOOL") return 8;
  const std::size_t digits = dtype.find_first_of("123456789");  // as in BF16 and F8_E4M3
  return digits > 2 ? 0 : std::strtoul(dtype.c_str() + digits, nullptr, 10);
}

/// A file, a directory with model.safetensors, or one with an index.
class Checkpoint {
 public:
  explicit Checkpoint(const fs::path& path) {
    std::string where;
    try {
      read(path, where);
    } catch (const Failure&) {
      throw;
    } catch (const std::exception& error) {
      throw Failure(Failure::malformed, where + ": " + error.what());
    }
  }
  /// Null if there is none.
  [[nodiscard]] const Tensor* find(const std::string& name) const {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }

  bool has_index = false;
  json config = json::object();
  std::map<std::string, Tensor> tensors;
  std::list<File> files;
  std::map<const File*, json> metadata;

 private:
  void read(const fs::path& path, std::string& where) {
    const auto parse = [&](const fs::path& file) {
      where = file.string();
      std::ifstream in(file);
      return json::parse(in);
    };
    if (!fs::is_directory(path)) return read_file(path, where, nullptr);
    if (fs::exists(path / "config.json")) config = parse(path / "config.json");
    has_index = fs::exists(path / "model.safetensors.index.json");
    if (!has_index) return read_file(path / "model.safetensors", where, nullptr);
    json whole_index = parse(path / "model.safetensors.index.json"), &index = whole_index.at("weight_map");
    std::set<std::string> names;
    for (const auto& [tensor, file] : index.items()) names.insert(file.get<std::string>());
    for (const std::string& name : names) {
      where = (path / name).string();
      if (name.find('/') != std::string::npos || !fs::exists(where))
        throw std::runtime_error("the index names it, but it is not there");
      read_file(where, where, &index);
    }
    for (const auto& [tensor, file] : index.items())
      throw std::runtime_error(file.get<std::string>() + " has no " + tensor + ", which the index names");
  }
  /// Removes from the index what it finds. Loaders do not see other tensors.
  void read_file(const fs::path& path, std::string& where, json* index) {
    where = path.string();
    const File& file = files.emplace_back(path, O_RDONLY);
    const std::size_t bytes = file.size(), prefix = sizeof(std::uint64_t);
    std::uint64_t size = 0;
    file.read(&size, std::min(bytes, prefix), 0);
    if (bytes < prefix || size > bytes - prefix)
      throw std::runtime_error("the file has " + text(bytes) + " bytes, its header at offset 8 " + text(size));
    std::string text_of_header(size, ' ');
    file.read(text_of_header.data(), size, prefix);
    const json header = json::parse(text_of_header);
    std::map<std::pair<std::size_t, std::size_t>, std::string> in_order;
    for (const auto& [name, entry] : header.items()) {
      where = file.name + ": " + name + ": " + entry.dump();
      if (name == "__metadata__") {
        metadata[&file] = entry;
        continue;
      }
      const Tensor tensor = read_entry(entry, file, prefix + size);
      in_order[{tensor.offset, tensor.offset + tensor.bytes}] = where;
      const bool is_listed = index == nullptr || index->value(name, "") == path.filename();
      if (is_listed) tensors[name] = tensor;
      if (is_listed && index != nullptr) index->erase(name);
    }
    std::size_t next = prefix + size;
    for (const auto& [range, of] : in_order) {
      where = of;
      if (range.first != next) throw std::runtime_error("begins at offset " + text(range.first) + ", not at " + text(next));
      next = range.second;
    }
    if (next != bytes) throw std::runtime_error("is the last tensor, and ends at offset " + text(next) + " of " + text(bytes));
  }
  static Tensor read_entry(const json& entry, const File& file, std::size_t data_at) {
    for (const char* list : {"shape", "data_offsets"})
      for (const json& n : entry.at(list))
        if (!n.is_number_unsigned()) throw std::runtime_error(n.dump() + " is no size");
    const std::size_t begin = entry["data_offsets"].at(0), end = entry["data_offsets"].at(1), limit = file.size();
    const Tensor tensor{entry.at("dtype"), entry["shape"], end - begin, data_at + begin, &file};
    auto bytes = static_cast<double>(bits_of(tensor.dtype)) / 8;  // does not overflow
    if (bytes == 0) throw std::runtime_error("the dtype is unknown");
    for (const std::size_t size : tensor.shape) bytes *= static_cast<double>(size);
    if (begin <= end && end <= limit - data_at && bytes == static_cast<double>(tensor.bytes)) return tensor;
    throw std::runtime_error("needs " + text(bytes) + " bytes at offset " + text(tensor.offset) + " of " + text(limit));
  }
};
