#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/detail/error.hpp>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

// An executor does the work of a verb. It has `concurrency()`, the number of tasks that large work is split into, and `run(n,
// task)`, which calls task(0) … task(n - 1), in any order and at the same time if it likes, and returns when all are done.
// Results do not depend on the executor.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Waits a moment for another thread. Now and then the core is given to others: the thread may be waiting for this one.
inline void pause_or_yield(unsigned i) {
  if (i % 65536 == 65535) return std::this_thread::sleep_for(std::chrono::microseconds(50));
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
  if (i % 64 != 0) return __builtin_ia32_pause();
#elif defined(__GNUC__) && defined(__aarch64__)
  if (i % 64 != 0) {
    __asm__ volatile("yield");
    return;
  }
#endif
  std::this_thread::yield();
}

/// The tasks of one call, and the first error among them.
template <class Task>
class Job {
 public:
  explicit Job(Task& task) : task_(task) {}

  /// Task number i of the Job that `job` points to.
  static void call(void* job, std::size_t i) noexcept {
    auto& self = *static_cast<Job*>(job);
#if HEADROOM_EXCEPTIONS
    try {
      self.task_(i);
    } catch (...) {
      if (!self.has_failed_.exchange(true)) self.error_ = std::current_exception();
    }
#else
    self.task_(i);
#endif
  }
  /// When no task runs any more.
  void throw_error() const {
#if HEADROOM_EXCEPTIONS
    if (error_ != nullptr) std::rethrow_exception(error_);
#endif
  }

 private:
  Task& task_;
#if HEADROOM_EXCEPTIONS
  std::atomic<bool> has_failed_{false};
  std::exception_ptr error_;
#endif
};

/// The threads of parallel(n): started when first needed, as many as the largest n has asked for. After a call they spin for
/// 100 microseconds, because waking a thread takes about as long; then they sleep. They compute with the rounding mode, and the
/// flushing of subnormals, of the caller. They end with the program; from then on, and in a child of fork(), which has none of
/// its parent's threads, the caller does all work.
class Workers {
 public:
  /// Calls task(0) ... task(n - 1), here and on `n_threads` - 1 workers, or on those there are. While another call is running,
  /// or from within a task, all of it is done here.
  template <class Task>
  static void run(std::size_t n, std::size_t n_threads, Task& task) {
    if (n < 2 || n_threads < 2 || !all().take()) {
      for (std::size_t i = 0; i < n; ++i) task(i);
      return;
    }
    Job<Task> job(task);
    all().run_job(n, (n < n_threads ? n : n_threads) - 1, &Job<Task>::call, &job);
    job.throw_error();
  }

 private:
  /// Never destroyed: static objects may use it until the end. At the end the threads go, unless a task ends the program.
  static Workers& all() {
    static Workers& workers = *new Workers;
    static const struct End {
      ~End() {
        if (workers.take()) workers.end();
      }
    } at_the_end;
    return workers;
  }
  static long this_process() noexcept {
#if defined(__unix__) || defined(__APPLE__)
    return getpid();
#else
    return 1;
#endif
  }

  [[nodiscard]] bool take() noexcept {
    return process_ == this_process() && !is_taken_.exchange(true, std::memory_order_acquire);
  }
  void end() {
    is_ending_.store(true);
    wake_sleepers();
    for (std::thread& thread : threads_) thread.join();
  }

  void run_job(std::size_t n, std::size_t workers, void (*call)(void*, std::size_t), void* job) {
    start_threads(workers);
    call_ = call;
    job_ = job;
    tasks_ = n;
    std::fegetenv(&environment_);
    next_task_.store(0, std::memory_order_relaxed);
    const std::uint64_t seats = workers < most_seats ? workers : most_seats;
    gate_.store(((gate_.load() >> job_shift) + 1) << job_shift | seats * one_seat);
    if (sleeping_.load() != 0) wake_sleepers();
    work();
    gate_.fetch_and(~(most_seats * one_seat));  // nobody else joins
    for (unsigned i = 0; (gate_.load() & busy_mask) != 0; ++i) pause_or_yield(i);
    is_taken_.store(false, std::memory_order_release);
  }
  /// Goes on with fewer where the system has no more.
  void start_threads(std::size_t wanted) {
#if HEADROOM_EXCEPTIONS
    try {
      while (threads_.size() < wanted) threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
    }
#else
    while (threads_.size() < wanted) threads_.emplace_back([this] { serve(); });
#endif
  }
  void wake_sleepers() {
    { const std::lock_guard<std::mutex> lock(mutex_); }  // who saw the old gate is waiting by now
    opened_.notify_all();
  }

  /// Takes tasks until there are none.
  void work() {
    for (;;) {
      const std::size_t i = next_task_.fetch_add(1, std::memory_order_relaxed);
      if (i >= tasks_) return;
      call_(job_, i);
    }
  }
  /// The life of a worker.
  void serve() {
    for (std::uint64_t last_job = 0;;) {
      std::uint64_t gate = await_job(last_job);
      if (is_ending_.load()) return;
      if (!gate_.compare_exchange_strong(gate, gate - one_seat + 1)) continue;  // another was faster, or the job is over
      last_job = gate >> job_shift;
      std::fesetenv(&environment_);
      work();
      gate_.fetch_sub(1);
    }
  }
  /// Returns the gate of a job after the last one that can be joined; or any, when there will be no more.
  std::uint64_t await_job(std::uint64_t last_job) {
    std::uint64_t gate = 0;
    const auto is_over = [&] {
      gate = gate_.load();
      return (gate >> job_shift != last_job && (gate & most_seats * one_seat) != 0) || is_ending_.load();
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    for (unsigned i = 0; i % 64 != 0 || std::chrono::steady_clock::now() < end; ++i) {
      if (is_over()) return gate;
      pause_or_yield(i);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    ++sleeping_;
    opened_.wait(lock, is_over);
    --sleeping_;
    return gate;
  }

  static constexpr int job_shift = 32;
  static constexpr std::uint64_t one_seat = 1U << 16, most_seats = 0xffff, busy_mask = 0xffff;

  const long process_ = this_process();
  std::atomic<bool> is_taken_{false};  // by the call that is running; in the end for good. No mutex: a task may call again
  std::atomic<bool> is_ending_{false};
  std::vector<std::thread> threads_;  // of who has taken the workers

  // Written before the gate opens, read by those who have come through it.
  void (*call_)(void* job, std::size_t task) = nullptr;
  void* job_ = nullptr;
  std::size_t tasks_ = 0;
  std::fenv_t environment_{};
  std::atomic<std::size_t> next_task_{0};
  /// In one word, so that nobody joins a job that is over: its number, how many workers may still join it, how many do it.
  std::atomic<std::uint64_t> gate_{0};

  std::atomic<int> sleeping_{0};
  std::mutex mutex_;
  std::condition_variable opened_;
};

}  // namespace detail

/// Runs everything in the calling thread.
struct SequentialExecutor {
  [[nodiscard]] static constexpr std::size_t concurrency() noexcept { return 1; }
  template <class Task>
  static void run(std::size_t n, Task&& task) {
    for (std::size_t i = 0; i < n; ++i) task(i);
  }
};

/// The default executor of every verb.
inline constexpr SequentialExecutor sequential{};

/// Up to `n_threads` threads, including the calling one. The others are shared by all executors. Small trees are left to the
/// calling thread, and so is all work while the others are busy with another call. Do not fork, and do not unload a library
/// that uses them, while a call is running.
class ParallelExecutor {
 public:
  explicit ParallelExecutor(int n_threads) : n_threads_(n_threads) {
    if (n_threads < 1) detail::throw_invalid_argument({"n_threads is ", std::to_string(n_threads), "; it must be at least 1"});
  }

  [[nodiscard]] std::size_t concurrency() const noexcept { return static_cast<std::size_t>(n_threads_); }

  /// Rethrows the first error of a task once no task is running.
  template <class Task>
  void run(std::size_t n, Task&& task) const {
    detail::Workers::run(n, concurrency(), task);
  }

 private:
  int n_threads_;
};

/// An executor of `n_threads` threads. Throws std::invalid_argument below 1.
[[nodiscard]] inline ParallelExecutor parallel(int n_threads) { return ParallelExecutor(n_threads); }

namespace detail {

/// Of class type and not noexcept, as what verbs have executors do.
struct AnyTask {
  void operator()(std::size_t) const {}
};
template <class T>
using run_t = decltype(std::declval<const T&>().run(std::size_t{}, std::declval<AnyTask>()));
template <class T>
using concurrency_t = std::enable_if_t<std::is_convertible_v<decltype(std::declval<const T&>().concurrency()), std::size_t>>;

template <class Executor>
constexpr bool check_is_executor() {
  constexpr bool is_executor = is_detected_v<run_t, Executor> && is_detected_v<concurrency_t, Executor>;
  static_assert(is_executor,
                "headroom: the first argument of a verb, before its trees, is an executor: headroom::sequential, "
                "headroom::parallel(n_threads), or one of your own, with concurrency() and run(n, task)");
  return is_executor;
}

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
