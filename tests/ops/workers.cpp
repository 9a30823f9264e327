#include <headroom/ops/executor.hpp>
#include <headroom/ops/workers.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using headroom::parallel;

TEST_CASE("no more threads work than were asked for, however many tasks there are") {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::size_t calls = 0;
  headroom::parallel(2).run(500, [&](std::size_t) {
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
    ++calls;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  CHECK(calls == 500);
  CHECK(threads.size() <= 2);
}

TEST_CASE("the first error of several tasks is the one that arrives, and the next call has none") {
  const auto throw_number = [](std::size_t number) { throw number; };
  {
    headroom::detail::Job job(throw_number);
    for (const std::size_t number : {4U, 2U, 9U}) decltype(job)::call(&job, number);
    try {
      job.throw_error();
      FAIL("no error");
    } catch (std::size_t number) {
      CHECK(number == 4);
    }
  }
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

TEST_CASE("tasks compute with the rounding mode of the caller, whoever started the threads") {
  parallel(4).run(4, [](std::size_t) {});
  for (const int mode : {FE_UPWARD, FE_TONEAREST}) {
    std::fesetround(mode);
    std::atomic<int> others{0};
    for (int call = 0; call < 100; ++call) {
      parallel(4).run(4, [&](std::size_t) { others += std::fegetround() != mode; });
    }
    CHECK(others == 0);
  }
}

TEST_CASE("threads are used again") {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for (int call = 0; call < 200; ++call) {
    parallel(3).run(3, [&](std::size_t) {
      const std::lock_guard<std::mutex> lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  }
  CHECK(seen.size() <= 50);  // of all executors of this program; started anew they would be hundreds
}

TEST_CASE("calls from several threads at once, and from within a task") {
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&runs] {
      for (int call = 0; call < 100; ++call) {
        parallel(4).run(4, [&runs](std::size_t) { parallel(2).run(2, [&runs](std::size_t) { ++runs; }); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(runs == 4 * 100 * 4 * 2);
}

#if !defined(__SANITIZE_THREAD__)  // it takes the child's threads for the parent's
TEST_CASE("a child of fork has threads of its own") {
  for (int round = 0; round < 50; ++round) {  // the parent's workers are caught in all states
    std::atomic<int> runs{0};
    parallel(4).run(4, [&](std::size_t) { ++runs; });
    const pid_t child = fork();
    if (child == 0) {
      parallel(3).run(3, [&](std::size_t) { ++runs; });
      // Each of these two ends when the other has begun, or after seconds.
      std::atomic<int> begun{0};
      parallel(2).run(2, [&](std::size_t) {
        ++begun;
        for (int i = 0; i < 20000 && begun < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (begun == 2) ++runs;
      });
      _exit(runs == 9 ? 0 : 1);
    }
    REQUIRE(child > 0);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}
#endif
