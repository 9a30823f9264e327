#include <headroom/detail/job_thread.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using headroom::detail::JobQueue;
using headroom::detail::JobThread;

TEST_CASE("jobs are done one after the other, in another thread, and their results arrive") {
  const auto jobs = std::make_shared<JobQueue>();
  const JobThread thread(jobs);
  std::vector<int> done;
  std::vector<std::future<int>> results;
  for (int i = 0; i < 100; ++i) {
    results.push_back(jobs->enqueue([&done, i] {
      done.push_back(i);
      return 2 * i;
    }));
  }
  auto where = jobs->enqueue([] { return std::this_thread::get_id(); });
  CHECK(where.get() != std::this_thread::get_id());
  for (int i = 0; i < 100; ++i) {
    CHECK(results[static_cast<std::size_t>(i)].get() == 2 * i);
    CHECK(done[static_cast<std::size_t>(i)] == i);
  }
  CHECK_FALSE(thread.is_current());
  CHECK(jobs->enqueue([&] { return thread.is_current(); }).get());
}

TEST_CASE("after an error what is behind it is dropped, and nothing is taken until somebody has received it") {
  const auto jobs = std::make_shared<JobQueue>();
  const JobThread thread(jobs);
  std::promise<void> may_begin;
  auto thrown = jobs->enqueue([begin = may_begin.get_future().share()] {
    begin.wait();
    throw std::runtime_error("disk full");
  });
  auto dropped = jobs->enqueue([] { return 1; });
  may_begin.set_value();
  jobs->wait_until_idle();
  CHECK_THROWS_AS(thrown.get(), std::runtime_error);
  CHECK_THROWS_AS(dropped.get(), std::future_error);
  CHECK_THROWS_AS(jobs->enqueue([] { return 2; }).get(), std::future_error);
  bool was_called = false;
  CHECK_THROWS_AS(jobs->receive_error([&] { was_called = true; }), std::runtime_error);
  CHECK(was_called);
  was_called = false;
  jobs->receive_error([&] { was_called = true; });
  CHECK_FALSE(was_called);
  CHECK(jobs->enqueue([] { return 3; }).get() == 3);
}

TEST_CASE("a wait ends by its condition or by an error") {
  const auto jobs = std::make_shared<JobQueue>();
  const JobThread thread(jobs);
  int done = 0;
  for (int i = 0; i < 10; ++i) (void)jobs->enqueue([&] { jobs->locked([&] { ++done; }); });
  jobs->wait([&] { return done == 10; });
  (void)jobs->enqueue([] { throw std::runtime_error("disk full"); });
  jobs->wait([] { return false; });
  CHECK_THROWS_AS(jobs->receive_error([] {}), std::runtime_error);
}

TEST_CASE("what a job holds is gone when it is done, though its future is still held") {
  const auto jobs = std::make_shared<JobQueue>();
  const JobThread thread(jobs);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> gone = held;
  auto result = jobs->enqueue([held = std::move(held)] { return *held; });
  jobs->wait_until_idle();
  CHECK(gone.expired());
  CHECK(result.get() == 1);
}

TEST_CASE("the destructor finishes what is left; within a job it drops what is left") {
  std::atomic<int> done{0};
  {
    const auto jobs = std::make_shared<JobQueue>();
    const JobThread thread(jobs);
    for (int i = 0; i < 20; ++i) {
      (void)jobs->enqueue([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        ++done;
      });
    }
  }
  CHECK(done == 20);
  const auto jobs = std::make_shared<JobQueue>();
  auto thread = std::make_unique<JobThread>(jobs);
  std::promise<void> may_begin;
  auto ended = jobs->enqueue([&thread, begin = may_begin.get_future().share()] {
    begin.wait();
    thread.reset();
  });
  auto dropped = jobs->enqueue([] {});
  may_begin.set_value();
  ended.get();
  CHECK(thread == nullptr);
  CHECK_THROWS_AS(dropped.get(), std::future_error);
}
