// expect: headroom: the first argument of a verb, before its trees, is an executor
#include <headroom/ops/measure.hpp>

#include <cstddef>
#include <vector>

struct Executor {
  static std::size_t concurrency() { return 2; }
#ifdef HEADROOM_CONTROL
  template <class Task>
  static void run(std::size_t n, const Task& task) {
    while (n > 0) task(--n);
  }
#else
  static void run(std::size_t n, void (*task)(std::size_t)) {
    while (n > 0) task(--n);
  }
#endif
};

double norm(const std::vector<float>& tree) { return headroom::measure(Executor(), tree).norm; }
