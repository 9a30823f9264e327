#include "../../examples/checkpoint.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using checkpoint::Sections;

namespace {

// The functions below replace the system calls of save and load. They can make the n-th call fail, or end the process there.
struct System {
  enum class Fault {
    none,
    error,
    death,
    half
  };  // half: writes half the bytes and ends the process, or reads the end of the file
  bool is_watched = false;
  Fault fault = Fault::none;
  std::size_t at = 0;  // the number of the call with the fault
  int error = 0;
  std::vector<std::string> calls = {};

  bool fails(const std::string& call) {
    if (!is_watched) return false;
    calls.push_back(call);
    if (fault == Fault::none || calls.size() != at + 1) return false;
    if (fault == Fault::death) _exit(0);
    errno = error;
    return fault == Fault::error;
  }
  [[nodiscard]] bool halves() const { return is_watched && fault == Fault::half && calls.size() == at + 1; }
};
System the_system;

std::string name_of(const char* path) { return std::filesystem::path(path).filename(); }
std::string name_of(int descriptor) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)).filename();
}

}  // namespace

extern "C" {
int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  if (the_system.fails("open " + name_of(path))) return -1;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  if (the_system.is_watched && the_system.fails("write " + name_of(descriptor))) return -1;
  if (the_system.halves()) {
    (void)syscall(SYS_write, descriptor, bytes, size / 2);
    _exit(0);
  }
  return syscall(SYS_write, descriptor, bytes, size);
}
ssize_t read(int descriptor, void* bytes, std::size_t size) {
  if (the_system.is_watched && the_system.fails("read " + name_of(descriptor))) return -1;
  return the_system.halves() ? 0 : syscall(SYS_read, descriptor, bytes, size);
}
int fsync(int descriptor) {
  if (the_system.is_watched && the_system.fails("fsync " + name_of(descriptor))) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}
int link(const char* from, const char* to) noexcept {
  if (the_system.fails("link " + name_of(from) + " " + name_of(to))) return -1;
  return static_cast<int>(syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int unlink(const char* path) noexcept {
  if (the_system.fails("unlink " + name_of(path))) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int rename(const char* from, const char* to) noexcept {
  if (the_system.fails("rename " + name_of(from) + " " + name_of(to))) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}

namespace {

/// A new folder, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "headroom_checkpoint_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  Folder(Folder&&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string content_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
void put(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}
std::string load_error(const std::string& path) {
  return error_of([&] { (void)checkpoint::load_file(path); });
}

/// The sections that a training saves after `step`.
Sections sections_of(int step) {
  return {{"weights", std::string(40, static_cast<char>(step))}, {"step", std::to_string(step)}, {"empty", ""}};
}
/// The step of the checkpoint that load finds; -1 if there is none.
int step_of(const std::string& path) {
  const auto loaded = checkpoint::load(path);
  if (!loaded) return -1;
  const int step = std::stoi(loaded->sections.at("step"));
  CHECK(loaded->sections == sections_of(step));
  return step;
}
void check_no_leftovers(const std::string& path) {
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
  CHECK_FALSE(std::filesystem::exists(path + ".old"));
}

/// The content of a folder before step 9 is saved, and the step that load finds there.
struct Situation {
  const char* name;
  int step;
  void (*prepare)(const std::string& path);
};
const std::vector<Situation> situations = {
    {"nothing", -1, [](const std::string&) {}},
    {"one", 1, [](const std::string& path) { checkpoint::save(path, sections_of(1)); }},
    {"two", 2,
     [](const std::string& path) {
       checkpoint::save(path, sections_of(1));
       checkpoint::save(path, sections_of(2));
     }},
    {"the newest is damaged", 1,
     [](const std::string& path) {
       checkpoint::save(path, sections_of(1));
       checkpoint::save(path, sections_of(2));
       put(path, "damaged");
     }},
    {"the newest is missing", 1,
     [](const std::string& path) {
       checkpoint::save(path, sections_of(1));
       checkpoint::save(path, sections_of(2));
       std::filesystem::remove(path);
     }},
    {"leftovers", 2,
     [](const std::string& path) {
       checkpoint::save(path, sections_of(1));
       checkpoint::save(path, sections_of(2));
       put(path + ".tmp", std::string(10000, 'x'));
       std::filesystem::create_hard_link(path, path + ".old");
     }},
};

/// Saves step 9 with a fault at call `at`. Returns the error, or "".
std::string save_with(System::Fault fault, std::size_t at, int error, const std::string& path) {
  the_system = {true, fault, at, error};
  const std::string message = error_of([&] { checkpoint::save(path, sections_of(9)); });
  the_system.is_watched = false;
  return message;
}

}  // namespace

TEST_CASE("a saved checkpoint is loaded") {
  const Folder folder;
  const std::string path = folder.file("a");
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  const Sections large = {{"all", all_bytes}, {"", "no name"}, {"empty", ""}, {all_bytes, std::string(3000000, '\xfe')}};
  for (const Sections& sections : {Sections{}, Sections{{"", ""}}, large, sections_of(3)}) {
    checkpoint::save(path, sections);
    CHECK(checkpoint::load_file(path) == sections);
    const auto loaded = checkpoint::load(path);
    REQUIRE(loaded);
    CHECK(loaded->sections == sections);
    CHECK(loaded->path == path);
    CHECK(loaded->warning.empty());
    check_no_leftovers(path);
  }
  CHECK(checkpoint::load_file(path + ".previous") == large);
}

TEST_CASE("a checkpoint truncated to any length is refused, and the previous one is used") {
  const Folder folder;
  const std::string path = folder.file("a");
  checkpoint::save(path, sections_of(1));
  checkpoint::save(path, sections_of(2));
  const std::string whole = content_of(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put(path, whole.substr(0, size));
    const std::string error = load_error(path);
    CHECK_THAT(error, ContainsSubstring(path + ": is truncated: " + std::to_string(size) + " bytes"));
    const auto loaded = checkpoint::load(path);
    REQUIRE(loaded);
    CHECK(loaded->sections == sections_of(1));
    CHECK(loaded->path == path + ".previous");
    CHECK(loaded->warning == error);
  }
  put(path, whole + '\0');
  CHECK_THAT(load_error(path), ContainsSubstring(path + ": has extra bytes at its end: "));
  CHECK(step_of(path) == 1);
}

TEST_CASE("a checkpoint with any bit flipped is refused, and the previous one is used") {
  const Folder folder;
  const std::string path = folder.file("a");
  checkpoint::save(path, sections_of(1));
  checkpoint::save(path, sections_of(2));
  const std::string whole = content_of(path);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    put(path, flipped);
    const std::string error = load_error(path);
    const char* expected = bit < 64    ? "is not a checkpoint"
                           : bit < 128 ? "this program reads version 1"
                           : bit < 192 ? " bytes, but "
                                       : "is damaged: ";
    CHECK_THAT(error, ContainsSubstring(path + ": "));
    CHECK_THAT(error, ContainsSubstring(expected));
    CHECK(step_of(path) == 1);
  }
}

TEST_CASE("other files and other versions are refused") {
  const Folder folder;
  const std::string path = folder.file("a");
  put(path, "{\"weights\": [0.5, 0.25], \"step\": 7, \"a JSON file\": true}");
  CHECK(load_error(path) == path + ": is not a checkpoint");
  checkpoint::save(path, sections_of(1));
  std::string other = content_of(path);
  other[8] = 2;
  put(path, other);
  CHECK(load_error(path) == path + ": has version 2; this program reads version 1");
  checkpoint::save(path, sections_of(1));
  other = content_of(path);
  other[24] = 2;
  put(path, other);
  CHECK(load_error(path) == path + ": is damaged: its sections are smaller than the file");
  CHECK_THAT(load_error(folder.path()), ContainsSubstring("is not a file"));
  CHECK_THAT(load_error(folder.file("b")), ContainsSubstring("b: cannot be opened: No such file"));
}

TEST_CASE("two bad checkpoints are an error that names both; no checkpoint is not an error") {
  const Folder folder;
  const std::string path = folder.file("a");
  CHECK_FALSE(checkpoint::load(path));
  put(path, "");
  const std::string alone = error_of([&] { (void)checkpoint::load(path); });
  CHECK_THAT(alone, ContainsSubstring(path + ": is truncated: 0 bytes; " + path + ".previous: cannot be opened: No such"));
  put(path + ".previous", "something else");
  const std::string both = error_of([&] { (void)checkpoint::load(path); });
  CHECK(both == path + ": is truncated: 0 bytes; " + path + ".previous: is not a checkpoint");
  CHECK_THAT(error_of([&] { (void)checkpoint::load(path + "/b"); }), ContainsSubstring("Not a directory"));
}

TEST_CASE("save syncs the new file before it replaces the old one, and the folder at the end") {
  const Folder folder;
  const std::string path = folder.file("a");
  CHECK(save_with(System::Fault::none, 0, 0, path).empty());
  CHECK(save_with(System::Fault::none, 0, 0, path).empty());
  std::vector<std::string> calls = the_system.calls;
  REQUIRE(calls.size() > 8);
  const std::size_t before = calls.size() - 7;
  CHECK(calls.front() == "open a.tmp");
  for (std::size_t i = 1; i < before; ++i) CHECK(calls[i] == "write a.tmp");
  const std::string name = std::filesystem::path(folder.path()).filename();
  CHECK(std::vector<std::string>(calls.begin() + static_cast<std::ptrdiff_t>(before), calls.end()) ==
        std::vector<std::string>{"fsync a.tmp", "unlink a.old", "link a a.old", "rename a.tmp a", "rename a.old a.previous",
                                 "open " + name, "fsync " + name});
}

TEST_CASE("if any system call fails, the error says so and nothing is lost") {
  for (const Situation& situation : situations) {
    bool has_failed = true;
    for (std::size_t at = 0; has_failed; ++at) {
      const Folder folder;
      const std::string path = folder.file("a");
      situation.prepare(path);
      const std::string error = save_with(System::Fault::error, at, ENOSPC, path);
      const std::vector<std::string> calls = the_system.calls;
      has_failed = calls.size() > at;
      INFO(situation.name << ", " << (has_failed ? calls[at] : "") << ": " << error);
      CHECK(error.empty() == !has_failed);
      if (has_failed) {
        CHECK_THAT(error, ContainsSubstring(folder.path()));
        CHECK_THAT(error, ContainsSubstring(": No space left on device"));
      } else {
        CHECK(at >= 14);
      }
      const auto last = calls.begin() + static_cast<std::ptrdiff_t>(at);
      const bool is_in_place = std::find(calls.begin(), last, "rename a.tmp a") != last;
      CHECK(step_of(path) == (is_in_place ? 9 : situation.step));
      check_no_leftovers(path);
      checkpoint::save(path, sections_of(10));
      CHECK(step_of(path) == 10);
    }
  }
}

TEST_CASE("a checkpoint that cannot be read, or becomes shorter during the read, is refused") {
  const Folder folder;
  const std::string path = folder.file("a");
  checkpoint::save(path, sections_of(1));
  const auto load_error_with = [&](System::Fault fault, std::size_t at) {
    the_system = {true, fault, at, EIO};
    const std::string error = load_error(path);
    the_system.is_watched = false;
    return error;
  };
  CHECK(load_error_with(System::Fault::none, 0).empty());
  const std::size_t calls = the_system.calls.size();
  CHECK(calls > 8);
  for (std::size_t at = 1; at < calls; ++at) {
    CHECK(load_error_with(System::Fault::error, at) == path + ": cannot be read: Input/output error");
    CHECK(load_error_with(System::Fault::half, at) == path + ": ended while it was read");
  }
}

TEST_CASE("if the process ends at any system call, or within a write, nothing is lost") {
  for (const Situation& situation : situations) {
    for (const auto fault : {System::Fault::death, System::Fault::half}) {
      bool has_ended = false;  // without a fault
      for (std::size_t at = 0; !has_ended; ++at) {
        const Folder folder;
        const std::string path = folder.file("a");
        situation.prepare(path);
        const pid_t child = fork();
        if (child == 0) {
          (void)save_with(fault, at, 0, path);
          _exit(the_system.calls.size() > at ? 2 : 1);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        REQUIRE(WIFEXITED(status));
        has_ended = WEXITSTATUS(status) == 1;
        INFO(situation.name << ", call " << at);
        const int step = step_of(path);
        CHECK((step == situation.step || step == 9));
        if (has_ended) CHECK(step == 9);
        checkpoint::save(path, sections_of(10));
        CHECK(step_of(path) == 10);
        check_no_leftovers(path);
      }
    }
  }
}
