#pragma once

#include <headroom/config.hpp>

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
#include <thread>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// The i-th moment of waiting for another thread, which may be one that has been put on this core, or that may not run as long
/// as this one does.
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

/// The threads of parallel(n): started when first needed, as many as the largest n has asked for. After a call they look out
/// for the next one for 100 microseconds, for it takes about as long to wake them up; then they sleep. They compute with the
/// rounding mode, and the flushing of subnormals, of the caller. There is one set for the program, which is never taken down:
/// threads that sleep end with the process, and a destructor could run while other static objects still call it. A child of
/// fork() has none of its parent's threads, and locks that nobody will open: it begins with a set of its own.
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
    call_ = call;
    task_ = task;
    tasks_ = n;
    std::fegetenv(&environment_);
    next_.store(0, std::memory_order_relaxed);
    const std::uint64_t seats = n - 1 < most_seats ? n - 1 : most_seats;
    gate_.store(((gate_.load() >> job_shift) + 1) << job_shift | seats * one_seat);
    if (sleeping_.load() == 0) return;
    { const std::lock_guard<std::mutex> lock(mutex_); }  // who has seen the old gate waits by now
    opened_.notify_all();
  }
  /// Nobody else joins; returns when those who have are done.
  void close_job() {
    gate_.fetch_and(~(most_seats * one_seat));
    for (unsigned i = 0; (gate_.load() & busy_mask) != 0; ++i) pause_or_yield(i);
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
    for (std::uint64_t last_job = 0;;) {
      std::uint64_t gate = await_job(last_job);
      last_job = gate >> job_shift;
      if (!gate_.compare_exchange_strong(gate, gate - one_seat + 1)) {
        --last_job;  // another worker was faster, or the job is over: look again
        continue;
      }
      std::fesetenv(&environment_);
      work();
      gate_.fetch_sub(1);
    }
  }
  std::uint64_t await_job(std::uint64_t last_job) {
    std::uint64_t gate = 0;
    const auto is_open = [&] {
      gate = gate_.load();
      return gate >> job_shift != last_job && (gate & most_seats * one_seat) != 0;
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    for (unsigned i = 0; i % 64 != 0 || std::chrono::steady_clock::now() < end; ++i) {
      if (is_open()) return gate;
      pause_or_yield(i);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    ++sleeping_;
    opened_.wait(lock, is_open);
    --sleeping_;
    return gate;
  }

  const Process process_ = this_process();
  std::atomic<bool> is_running_{false};  // no mutex: a task that calls again would lock it twice
  std::size_t threads_ = 0;              // touched by the call that is running

  // Written before the gate opens, read by those who have come through it.
  void (*call_)(void*, std::size_t) = nullptr;
  void* task_ = nullptr;
  std::size_t tasks_ = 0;
  std::fenv_t environment_{};
  std::atomic<std::size_t> next_{0};

  // In one word, so that nobody joins a job that is over: its number, how many workers may still join it, how many are at it.
  static constexpr int job_shift = 32;
  static constexpr std::uint64_t one_seat = 1U << 16, most_seats = 0xffff, busy_mask = 0xffff;
  std::atomic<std::uint64_t> gate_{0};

  std::mutex mutex_;
  std::condition_variable opened_;
  std::atomic<int> sleeping_{0};
  std::exception_ptr error_;  // guarded by the mutex while workers are at it
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
