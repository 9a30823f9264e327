#pragma once

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
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

// An executor runs the work of a verb. `concurrency()` is the number of tasks that large work is split into. `run(n, task)`
// calls task(0) … task(n - 1), in any order or at the same time, and returns when all are done. It passes exceptions of tasks
// on. Results do not depend on the executor.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// The threads of parallel(n). They are started when a call first needs them. After a call they yield for 100 microseconds,
/// because waking a thread takes about as long. Then they sleep. They compute with the caller's rounding mode and flush-to-zero
/// setting. They are joined at the end of the program. After that the caller does all work. In a child of fork(), which has
/// none of these threads, the caller does all work, too.
class Workers {
 public:
  /// Calls task(0) … task(n - 1) in this thread and on up to `n_threads` - 1 workers. If another call is running, or if a task
  /// makes this call, this thread does all of it.
  template <class Task>
  static void run(std::size_t n, std::size_t n_threads, Task& task) {
    if (n < 2 || n_threads < 2 || !all().take()) {
      for (std::size_t i = 0; i < n; ++i) task(i);
      return;
    }
    all().run_job(n, (n < n_threads ? n : n_threads) - 1, std::ref(task));
  }

 private:
  /// Never destroyed, because destructors of static objects may use it. If a task calls exit(), the threads are not joined.
  static Workers& all() {
    static Workers& workers = *new Workers;
    static const struct End {
      ~End() {
        if (!workers.take()) return;
        workers.open(0);
        for (std::thread& thread : workers.threads_) thread.join();
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
  void run_job(std::size_t n, std::size_t workers, const std::function<void(std::size_t)>& task) {
    start_threads(workers);
    task_ = &task;
    std::fegetenv(&environment_);
    tasks_ = n;
    next_task_.store(0, std::memory_order_relaxed);
    open(workers);
    work();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      seats_ = 0;  // a worker that wakes up later takes no part
    }
    while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
    const std::exception_ptr error = std::exchange(error_, nullptr);
    is_taken_.store(false, std::memory_order_release);
    if (error != nullptr) std::rethrow_exception(error);
  }
  /// Starts fewer threads if the system has no more threads or no more memory.
  void start_threads(std::size_t wanted) {
    HEADROOM_DETAIL_TRY {
      while (threads_.size() < wanted) threads_.emplace_back([this] { serve(); });
    }
    HEADROOM_DETAIL_CATCH {}
  }
  void open(std::size_t seats) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      seats_ = seats;
      is_ending_ = seats == 0;
      job_number_.fetch_add(1, std::memory_order_relaxed);
    }
    opened_.notify_all();
  }

  void work() {
    for (;;) {
      const std::size_t i = next_task_.fetch_add(1, std::memory_order_relaxed);
      if (i >= tasks_) return;
      HEADROOM_DETAIL_TRY { (*task_)(i); }
      HEADROOM_DETAIL_CATCH {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (error_ == nullptr) error_ = std::current_exception();
      }
    }
  }
  void serve() {
    for (unsigned seen = 0;;) {
      await_job_after(seen);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_ending_) return;
        seen = job_number_.load(std::memory_order_relaxed);
        if (seats_ == 0) continue;
        --seats_;
        busy_.fetch_add(1, std::memory_order_relaxed);
      }
      std::fesetenv(&environment_);
      work();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }
  void await_job_after(unsigned seen) {
    const auto is_there = [&] { return job_number_.load(std::memory_order_relaxed) != seen; };
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (!is_there() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    std::unique_lock<std::mutex> lock(mutex_);
    opened_.wait(lock, is_there);
  }

  const long process_ = this_process();
  std::atomic<bool> is_taken_{false};  // by a running call, and at the end. No mutex, because a task may call run()
  std::vector<std::thread> threads_;   // used only by the call that has taken the workers

  // The job: written before open(), read by workers that have a seat.
  const std::function<void(std::size_t)>* task_ = nullptr;
  std::fenv_t environment_{};
  std::size_t tasks_ = 0;
  std::atomic<std::size_t> next_task_{0}, busy_{0};  // the first task not yet taken; how many workers are running tasks
  std::exception_ptr error_;                         // of the first task that failed

  std::mutex mutex_;
  std::condition_variable opened_;
  std::atomic<unsigned> job_number_{0};
  std::size_t seats_ = 0;  // how many workers may still join
  bool is_ending_ = false;
};

/// A task like those of verbs: of class type and not noexcept.
struct AnyTask {
  void operator()(std::size_t) const {}
};
template <class T>
using executor_t =
    decltype(std::declval<const T&>().run(static_cast<std::size_t>(std::declval<const T&>().concurrency()), AnyTask()));
template <class T>
using concurrency_t = decltype(std::declval<const T&>().concurrency());

template <class Executor>
constexpr bool check_is_executor() {
  constexpr bool is_executor = is_detected_v<executor_t, Executor>;
  constexpr bool may_be_tree = !std::is_integral_v<Executor> && !is_detected_v<concurrency_t, Executor>;
  static_assert(is_executor || !may_be_tree,
                "headroom: the first argument is no executor (it has no concurrency()), so there is an argument too many. In "
                "a call of a policy's member, drop the loss scale: the policy knows it");
  static_assert(is_executor || may_be_tree,
                "headroom: the first argument of a verb, before its trees, is an executor: headroom::sequential, "
                "headroom::parallel(n_threads), or one of your own, with concurrency() and run(n, task)");
  return is_executor;
}

}  // namespace detail

/// Runs everything in the calling thread.
struct SequentialExecutor {
  [[nodiscard]] static constexpr std::size_t concurrency() noexcept { return 1; }  ///< the number of threads
  template <class Task>
  static void run(std::size_t n, Task&& task) {  ///< task(0) to task(n - 1)
    for (std::size_t i = 0; i < n; ++i) task(i);
  }
};

/// The default executor of every verb.
inline constexpr SequentialExecutor sequential{};

/// Up to `n_threads` threads, including the calling one. All executors share the others. The calling thread does all work on
/// trees of fewer than 262,144 elements, and while the others are busy with another call. While a call is running, do not fork,
/// and do not unload a library that uses headroom.
class ParallelExecutor {
 public:
  explicit ParallelExecutor(int n_threads) : n_threads_(n_threads) {  ///< throws below 1
    if (n_threads < 1) detail::throw_invalid_argument({"n_threads is ", std::to_string(n_threads), "; it must be at least 1"});
  }

  [[nodiscard]] std::size_t concurrency() const noexcept { return static_cast<std::size_t>(n_threads_); }  ///< n_threads

  /// Rethrows the first error of a task once no task is running.
  template <class Task>
  void run(std::size_t n, Task&& task) const {
    detail::Workers::run(n, concurrency(), task);
  }

 private:
  int n_threads_;
};

/// An executor of `n_threads` threads. Throws std::invalid_argument if n_threads is below 1.
[[nodiscard]] inline ParallelExecutor parallel(int n_threads) { return ParallelExecutor(n_threads); }

HEADROOM_DETAIL_END_NAMESPACE
