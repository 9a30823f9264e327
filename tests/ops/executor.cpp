#include <headroom/headroom.hpp>
#include <headroom/ops/executor.hpp>

#include <atomic>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::parallel;

namespace {

/// Takes what the verbs give it, which is of class type, and nothing else; and may have no thread to give.
struct ClassesOnly {
  std::size_t threads;
  [[nodiscard]] std::size_t concurrency() const { return threads; }
  template <class Task, std::enable_if_t<std::is_class_v<Task>, int> = 0>
  void run(std::size_t n, const Task& task) const {
    for (std::size_t i = n; i-- > 0;) task(i);
  }
};

}  // namespace

TEST_CASE("an executor need not take functions, nor have threads") {
  const std::vector<float> tree(std::size_t{1} << 18, 2.0F);
  for (const std::size_t threads : {0, 1, 5}) {
    CHECK(headroom::measure(ClassesOnly{threads}, tree).max_abs == 2.0);
    CHECK_FALSE(headroom::find_nonfinite(ClassesOnly{threads}, tree).has_value());
  }
}

TEST_CASE("a number of threads below 1 is refused") {
  CHECK_THAT(support::message_of([] { (void)parallel(0); }), ContainsSubstring("n_threads is 0; it must be at least 1"));
  CHECK_THAT(support::message_of([] { (void)parallel(-3); }), ContainsSubstring("n_threads is -3"));
  CHECK_THAT(support::message_of([] { (void)parallel(std::numeric_limits<int>::min()); }),
             ContainsSubstring("n_threads is -2147483648"));
  CHECK(parallel(1).concurrency() == 1);
}

TEST_CASE("an executor runs each task once") {
  const auto check = [](const auto& executor) {
    for (const std::size_t tasks : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
      std::vector<std::atomic<int>> runs(tasks);
      executor.run(tasks, [&](std::size_t task) { ++runs.at(task); });
      for (const auto& count : runs) CHECK(count == 1);
    }
  };
  check(headroom::sequential);
  check(parallel(1));
  check(parallel(3));
}

TEST_CASE("where tasks throw, all are run and one error arrives") {
  for (const std::size_t bad : {std::size_t{0}, std::size_t{2}}) {
    std::atomic<int> runs{0};
    const auto task = [&](std::size_t number) {
      ++runs;
      if (number >= bad) throw std::runtime_error("task");
    };
    CHECK_THROWS_AS(parallel(3).run(3, task), std::runtime_error);
    CHECK(runs == 3);
  }
  std::atomic<int> runs{0};
  parallel(3).run(3, [&](std::size_t) { ++runs; });
  CHECK(runs == 3);
}
