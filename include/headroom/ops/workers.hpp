#pragma once

#include <headroom/config.hpp>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace headroom::detail {

/// The threads of parallel(n): started when first needed, asleep between calls, as many as the largest n has asked for. There
/// is one set for the program, which is never taken down: threads that sleep end with the process, and a destructor could run
/// while other static objects still call it. A child of fork() has none of its parent's threads, and locks that nobody will
/// open: it begins with a set of its own.
class Workers {
 public:
  [[nodiscard]] static Workers& shared() {
    static std::atomic<Workers*> workers{new Workers};
    Workers* current = workers.load(std::memory_order_acquire);
    if (current->process_ != this_process()) {
      auto* const fresh = new Workers;
      if (workers.compare_exchange_strong(current, fresh, std::memory_order_acq_rel)) return *fresh;
      delete fresh;  // another thread of the child was faster
    }
    return *current;
  }

  /// Calls task(0) ... task(n - 1), here and on n - 1 workers. While another call is running, or from within a task, all of it
  /// is done here.
  template <class Task>
  void run(std::size_t n, Task& task) {
    if (n < 2 || is_running_.exchange(true, std::memory_order_acquire)) {
      for (std::size_t i = 0; i < n; ++i) task(i);
      return;
    }
    const Running running{is_running_};
    start_threads(n - 1);
    open_job(
        n, [](void* job, std::size_t i) { (*static_cast<Task*>(job))(i); }, const_cast<void*>(static_cast<const void*>(&task)));
    work();
    close_job();
  }

 private:
#if defined(__unix__) || defined(__APPLE__)
  using Process = pid_t;
  static Process this_process() noexcept { return getpid(); }
#else
  using Process = int;
  static Process this_process() noexcept { return 0; }
#endif

  struct Running {
    std::atomic<bool>& flag;
    ~Running() { flag.store(false, std::memory_order_release); }
  };

  void start_threads(std::size_t wanted) {
#if HEADROOM_EXCEPTIONS
    try {
      for (; threads_ < wanted; ++threads_) std::thread([this] { serve(); }).detach();
    } catch (const std::exception&) {
      // What the system gives no thread for is done by the threads there are.
    }
#else
    for (; threads_ < wanted; ++threads_) std::thread([this] { serve(); }).detach();
#endif
  }

  void open_job(std::size_t n, void (*call)(void*, std::size_t), void* task) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      call_ = call;
      task_ = task;
      tasks_ = n;
      next_.store(0, std::memory_order_relaxed);
      is_open_ = true;
      ++job_;
    }
    opened_.notify_all();
  }
  /// Nobody else joins; returns when those who have are done.
  void close_job() {
    std::unique_lock<std::mutex> lock(mutex_);
    is_open_ = false;
    left_.wait(lock, [this] { return busy_ == 0; });
#if HEADROOM_EXCEPTIONS
    if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
#endif
  }

  /// Takes tasks until there are none.
  void work() {
    for (;;) {
      const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= tasks_) return;
#if HEADROOM_EXCEPTIONS
      try {
        call_(task_, i);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (error_ == nullptr) error_ = std::current_exception();
      }
#else
      call_(task_, i);
#endif
    }
  }

  /// The life of a worker.
  void serve() {
    std::size_t last_job = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      opened_.wait(lock, [&] { return is_open_ && job_ != last_job; });
      last_job = job_;
      ++busy_;
      lock.unlock();
      work();
      lock.lock();
      if (--busy_ == 0) left_.notify_one();
    }
  }

  const Process process_ = this_process();
  std::atomic<bool> is_running_{false};  // no mutex: a task that calls again would lock it twice
  std::size_t threads_ = 0;              // touched by the call that is running

  std::mutex mutex_;  // guards what follows
  std::condition_variable opened_, left_;
  bool is_open_ = false;
  std::size_t job_ = 0;   // number of the job that is open, or was
  std::size_t busy_ = 0;  // workers that have joined it
  std::exception_ptr error_;
  // Written before a job opens, read by those who have joined it.
  void (*call_)(void*, std::size_t) = nullptr;
  void* task_ = nullptr;
  std::size_t tasks_ = 0;
  std::atomic<std::size_t> next_{0};
};

}  // namespace headroom::detail
