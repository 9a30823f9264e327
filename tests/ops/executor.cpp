#include <headroom/headroom.hpp>
#include <headroom/ops/executor.hpp>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/threads.hpp"

using namespace headroom;

namespace {

/// An executor whose jobs are made from a Task. Its concurrency may be 0.
struct OwnJobs {
  struct Job {
    Executor::Task task;
    Job(Executor::Task of) : task(std::move(of)) {}  // NOLINT: implicit, as a pool may have it
  };
  std::size_t threads;
  [[nodiscard]] std::size_t concurrency() const { return threads; }
  void run(std::size_t n, const Job& job) const {
    for (std::size_t i = n; i-- > 0;) job.task(i);
  }
};

}  // namespace

TEST_CASE("an executor may have jobs of its own, and need not have threads") {
  const std::vector<float> tree(std::size_t{1} << 18, 2.0F);
  for (const std::size_t threads : {0U, 1U, 5U}) {
    CHECK(measure(tree, OwnJobs{threads}).max_abs == 2.0);
    CHECK_FALSE(find_nonfinite(tree, OwnJobs{threads}).has_value());
  }
}

TEST_CASE("a number of threads below 1 is refused") {
  CHECK_INVALID("n_threads is -3; it must be at least 1", parallel(-3));
  CHECK_THROWS_AS(parallel(0), std::invalid_argument);
}

TEST_CASE("an executor runs each task once") {
  const auto check = [](const auto& executor) {
    for (const std::size_t tasks : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
      std::vector<std::atomic<int>> runs(tasks);
      executor.run(tasks, [&](std::size_t task) { ++runs.at(task); });
      for (const auto& count : runs) CHECK(count == 1);
    }
  };
  check(sequential);
  check(parallel(1));
  check(parallel(3));
}

TEST_CASE("no more threads work than were asked for, however many tasks there are") {
  parallel(4).run(4, [](std::size_t) {});  // so that there are more
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::size_t calls = 0;
  parallel(2).run(500, [&](std::size_t) {
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
    ++calls;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  CHECK(calls == 500);
  CHECK(threads.size() <= 2);
}

TEST_CASE("one error of several tasks arrives, and the next call has none") {
  const auto throw_number = [](std::size_t number) { throw number; };
  for (int call = 0; call < 50; ++call) {
    int errors = 0;
    try {
      parallel(4).run(4, throw_number);
    } catch (std::size_t number) {
      ++errors;
      CHECK(number < 4);
    }
    CHECK(errors == 1);
    std::atomic<int> runs{0};
    parallel(4).run(4, [&](std::size_t) { ++runs; });
    CHECK(runs == 4);
  }
}

TEST_CASE("the first error of several tasks is rethrown") {
  std::atomic<bool> has_thrown{false};
  // Both in one thread, because task 0 keeps the other
  const auto throw_two = [&](std::size_t number) {
    while (number == 0 && !has_thrown) std::this_thread::yield();
    has_thrown = number == 2;
    if (number != 0) throw number;
  };
  std::size_t first = 0;
  try {
    parallel(2).run(3, throw_two);
  } catch (std::size_t number) {
    first = number;
  }
  CHECK(first == 1);
}

TEST_CASE(
    "tasks compute with the rounding mode and the flush-to-zero setting of the caller, whoever "
    "started the threads") {
  std::fenv_t usual;
  std::fegetenv(&usual);
  for (const int mode : {FE_UPWARD, FE_TONEAREST}) {
    std::fesetround(mode);
    std::atomic<int> others{0};
    support::in_two_threads([&] { others += std::fegetround() != mode; });
    CHECK(others == 0);
  }
#if defined(__SSE2__)
  for (const unsigned flush_to_zero : {0x8000U, 0U}) {
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~0x8000U) | flush_to_zero);
    std::atomic<int> others{0};
    support::in_two_threads(
        [&] { others += (__builtin_ia32_stmxcsr() & 0x8000U) != flush_to_zero; });
    CHECK(others == 0);
  }
#endif
  std::fesetenv(&usual);
}

TEST_CASE("calls from several threads at once, and from within a task") {
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&runs] {
      for (int call = 0; call < 100; ++call) {
        parallel(4).run(
            4, [&runs](std::size_t) { parallel(2).run(2, [&runs](std::size_t) { ++runs; }); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(runs == 4 * 100 * 4 * 2);
}
