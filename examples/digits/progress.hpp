#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <string>

namespace digits {

/// A progress bar on stderr. Prints nothing if stderr is not a terminal.
class Progress {
 public:
  explicit Progress(int total, int done = 0)
      : total_(total), is_terminal_(isatty(STDERR_FILENO) != 0), done_(done) {}
  void tick() {
    const int done = ++done_;
    const int before = (done - 1) * width / total_, now = done * width / total_;
    if (!is_terminal_ || before == now) return;
    std::fprintf(stderr, "\r[%s%s] %3d %%%s",
                 std::string(static_cast<std::size_t>(now), '#').c_str(),
                 std::string(static_cast<std::size_t>(width - now), ' ').c_str(),
                 100 * done / total_, done == total_ ? "\n" : "");
  }

 private:
  static constexpr int width = 50;
  int total_;
  bool is_terminal_;
  std::atomic<int> done_;
};

}  // namespace digits
