#pragma once

// Checkpoints that survive a kill or a power failure: named sections of bytes in one file. This
// file needs only the standard library and POSIX, so you can copy it. The file system must support
// hard links.
//
// save(path) writes path.tmp, syncs it and renames it to path. The checkpoint before it becomes
// path.previous. At any moment path is a complete checkpoint, the last or the one before. Only one
// process at a time may save to a path.
//
// File format: a magic of 8 bytes; version; size of the file; number of sections; for each section
// the size of its name, the size of its content, the name and the content; the FNV-1a checksum of
// everything before it. Numbers are 64-bit little-endian.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

namespace checkpoint {

using Sections = std::map<std::string, std::string>;  // name and bytes

struct Loaded {
  Sections sections;
  std::string path;     // of the file that they were read from
  std::string warning;  // what is wrong with the newest file; empty if the newest was read
};

namespace detail {

inline const std::string magic = "\x89HRCKPT\n";  // not text; a conversion of line ends changes it
inline constexpr std::uint64_t version = 1, header_size = 32, checksum_size = 8;

[[noreturn]] inline void fail(const std::string& path, const std::string& what) {
  throw std::runtime_error(path + ": " + what);
}
[[noreturn]] inline void fail_errno(const std::string& path, const std::string& what) {
  fail(path, what + ": " + std::generic_category().message(errno));
}

/// An open file, and the checksum of all bytes read or written so far.
class File {
 public:
  File(const std::string& path, int flags)
      : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0)
      fail_errno(path, (flags & O_CREAT) != 0 ? "cannot be created" : "cannot be opened");
  }
  File(File&&) = delete;
  ~File() { ::close(descriptor_); }

  void write(const std::string& bytes) { transfer(::write, bytes.data(), bytes, "written"); }
  [[nodiscard]] std::string read(std::uint64_t size) {
    std::string bytes(size, '\0');
    transfer(::read, bytes.data(), bytes, "read");
    return bytes;
  }
  void sync() {
    while (::fsync(descriptor_) != 0) {
      if (errno != EINTR) fail_errno(path_, "cannot be synced");
    }
  }
  [[nodiscard]] std::uint64_t size() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
      fail(path_, "is not a file");
    return static_cast<std::uint64_t>(status.st_size);
  }
  [[nodiscard]] std::uint64_t checksum() const { return checksum_; }

 private:
  template <class Call, class Byte>
  void transfer(Call call, Byte* next, const std::string& bytes, const char* done) {
    for (std::size_t left = bytes.size(); left > 0;) {
      const ssize_t count = call(descriptor_, next, left);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_errno(path_, std::string("cannot be ") + done);
      if (count == 0) fail(path_, std::string("ended while it was ") + done);
      next += count;
      left -= static_cast<std::size_t>(count);
    }
    // FNV-1a: changing any one byte changes the checksum.
    for (const char byte : bytes)
      checksum_ = (checksum_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }

  std::string path_;
  int descriptor_;
  std::uint64_t checksum_ = 0xcbf29ce484222325U;
};

inline std::string to_bytes(std::uint64_t number) {
  std::string bytes;
  for (unsigned shift = 0; shift < 64; shift += 8)
    bytes += static_cast<char>(number >> shift & 0xffU);
  return bytes;
}
inline std::uint64_t number_at(const std::string& bytes, std::size_t position) {
  std::uint64_t number = 0;
  for (std::size_t i = 8; i-- > 0;)
    number = number << 8U | static_cast<unsigned char>(bytes[position + i]);
  return number;
}

inline void write(const std::string& path, const Sections& sections) {
  std::uint64_t size = header_size + checksum_size;
  for (const auto& [name, content] : sections) size += 16 + name.size() + content.size();

  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  file.write(magic + to_bytes(version) + to_bytes(size) + to_bytes(sections.size()));
  for (const auto& [name, content] : sections) {
    file.write(to_bytes(name.size()) + to_bytes(content.size()) + name);
    file.write(content);
  }
  file.write(to_bytes(file.checksum()));
  file.sync();
}

/// Reads and checks the header; returns the number of sections.
inline std::uint64_t read_header(File& file, const std::string& path, std::uint64_t size) {
  const std::string header = file.read(std::min(size, header_size));
  if (header.compare(0, magic.size(), magic, 0, header.size()) != 0)
    fail(path, "is not a checkpoint");
  if (size < header_size + checksum_size)
    fail(path, "is truncated: " + std::to_string(size) + " bytes");
  if (const std::uint64_t found = number_at(header, 8); found != version) {
    fail(path, "has version " + std::to_string(found) + "; this program reads version " +
                   std::to_string(version));
  }
  const std::uint64_t written = number_at(header, 16);
  const std::string sizes =
      std::to_string(size) + " bytes, but " + std::to_string(written) + " were written";
  if (size < written) fail(path, "is truncated: " + sizes);
  if (size > written) fail(path, "has extra bytes at its end: " + sizes);
  return number_at(header, 24);
}

}  // namespace detail

/// Reads this file only, not path.previous. Throws std::runtime_error naming the path and the
/// fault.
[[nodiscard]] inline Sections load_file(const std::string& path) {
  detail::File file(path, O_RDONLY);
  const std::uint64_t size = file.size(), count = detail::read_header(file, path, size);
  std::uint64_t left = size - detail::header_size - detail::checksum_size;
  const auto take = [&](std::uint64_t bytes) {  // checks the size before it allocates
    if (bytes > left) detail::fail(path, "is damaged: its sections are larger than the file");
    left -= bytes;
    return file.read(bytes);
  };

  Sections sections;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string sizes = take(16), name = take(detail::number_at(sizes, 0));
    sections[name] = take(detail::number_at(sizes, 8));
  }
  if (left != 0) detail::fail(path, "is damaged: its sections are smaller than the file");
  const std::uint64_t checksum = file.checksum();
  if (detail::number_at(file.read(detail::checksum_size), 0) != checksum)
    detail::fail(path, "is damaged: wrong checksum");
  return sections;
}

/// Reads path, or path.previous if path is missing or damaged. Empty if neither file exists. Tries
/// to rename a damaged path to path.damaged, so that the next save does not replace the good
/// path.previous by it. Throws std::runtime_error naming both files and their faults if neither can
/// be read.
[[nodiscard]] inline std::optional<Loaded> load(const std::string& path) {
  const std::string previous = path + ".previous";
  const auto is_missing = [](const std::string& file) {
    return ::access(file.c_str(), F_OK) != 0 && errno == ENOENT;
  };
  if (is_missing(path) && is_missing(previous)) return std::nullopt;
  try {
    return Loaded{load_file(path), path, ""};
  } catch (const std::runtime_error& newest) {
    try {
      Loaded loaded{load_file(previous), previous, newest.what()};
      (void)std::rename(path.c_str(), (path + ".damaged").c_str());
      return loaded;
    } catch (const std::runtime_error& older) {
      throw std::runtime_error(std::string(newest.what()) + "; " + older.what());
    }
  }
}

/// Throws std::runtime_error naming the file and the system's reason. The earlier checkpoint can
/// then still be loaded, and no partly written file is left.
inline void save(const std::string& path, const Sections& sections) {
  const std::string written = path + ".tmp", kept = path + ".old";
  try {
    detail::write(written, sections);
    // A hard link keeps the old file while path is replaced. path.previous is overwritten only
    // after that.
    if (::unlink(kept.c_str()) != 0 && errno != ENOENT)
      detail::fail_errno(kept, "cannot be removed");
    const bool is_first = ::link(path.c_str(), kept.c_str()) != 0;
    if (is_first && errno != ENOENT) detail::fail_errno(path, "cannot be linked to " + kept);
    if (::rename(written.c_str(), path.c_str()) != 0)
      detail::fail_errno(path, "cannot be replaced");
    if (!is_first && ::rename(kept.c_str(), (path + ".previous").c_str()) != 0) {
      detail::fail_errno(path, "was written, but the checkpoint before it cannot be kept");
    }
    const std::string folder = std::filesystem::path(path).parent_path();
    detail::File(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY)
        .sync();  // otherwise a power failure may undo the renames
  } catch (...) {
    ::unlink(written.c_str());
    ::unlink(kept.c_str());
    throw;
  }
}

}  // namespace checkpoint
