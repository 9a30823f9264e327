#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/thread.hpp>
#include <headroom/ops/pool.hpp>

#if HEADROOM_DETAIL_HAS_PTHREADS
#include <unistd.h>
#endif

#include <atomic>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// The i-th moment of waiting for another thread, which may be one that has been put on this core, or that may not run as long
/// as this one does.
inline void pause_or_yield(unsigned i) {
  if (i % 65536 == 65535) return sleep_for_microseconds(50);
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
  if (i % 64 != 0) return __builtin_ia32_pause();
#elif defined(__GNUC__) && defined(__aarch64__)
  if (i % 64 != 0) {
    __asm__ volatile("yield");
    return;
  }
#endif
  yield_thread();
}

/// The tasks of one call, and the first error among them. Errors stay here, in the code of the caller, which may be a unit with
/// exceptions where that of the workers is none.
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
/// flushing of subnormals, of the caller. A program has one set of them, and so has each shared library: they run its code, so
/// they end before it is unloaded. From then on, as in static objects that are destroyed last, all work is done by the caller.
/// A child of fork() has none of its parent's threads, and locks that nobody will open: it begins with a set of its own.
class HEADROOM_DETAIL_HIDDEN Workers {
 public:
  /// Calls task(0) ... task(n - 1), here and on `n_threads` - 1 workers, or on those there are. While another call is running,
  /// or from within a task, all of it is done here.
  template <class Task>
  static void run(std::size_t n, std::size_t n_threads, Task& task) {
    const std::size_t workers = (n < n_threads ? n : n_threads) - 1;
    shared_v1::Pool& pool = current();
    if (n < 2 || n_threads < 2 || pool.is_taken.exchange(true, std::memory_order_acquire)) {
      for (std::size_t i = 0; i < n; ++i) task(i);
      return;
    }
    Job<Task> job(task);
    start_threads(pool, workers);
    open_job(pool, n, workers, &Job<Task>::call, &job);
    work(pool);
    close_job(pool);
    pool.is_taken.store(false, std::memory_order_release);
    job.throw_error();
  }

 private:
  using Pool = shared_v1::Pool;

#if HEADROOM_DETAIL_HAS_PTHREADS
  static int this_process() noexcept { return static_cast<int>(getpid()); }
#else
  static int this_process() noexcept { return 1; }
#endif

  static Pool& current() {
    void* its_place = shared_v1::current_pool.load(std::memory_order_acquire);
    auto* const pool = static_cast<Pool*>(its_place);
    const int here = this_process();
    int process = pool->process.load(std::memory_order_relaxed);
    if (process == here || (process == 0 && pool->process.compare_exchange_strong(process, here)) || process == here)
      return *pool;
    auto* const fresh = new Pool{here};
    if (shared_v1::current_pool.compare_exchange_strong(its_place, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;  // another thread of the child was faster
    return *static_cast<Pool*>(its_place);
  }

  static void start_threads(Pool& pool, std::size_t wanted) {
    if (pool.thread_count >= wanted || !prepare(pool.mutex, pool.opened)) return;
    end_with_this_library();
    while (pool.thread_count < wanted) {
      auto* const thread = new (std::nothrow) Pool::Thread{{}, pool.threads};
      if (thread == nullptr) return;
      if (start_thread(thread->handle, &serve, &pool) != 0) return delete thread;
      pool.threads = thread;
      ++pool.thread_count;
    }
  }

  /// Where threads cannot be joined while a library is unloaded, as on Windows, they end with the process.
  static void end_with_this_library() {
#if HEADROOM_DETAIL_HAS_PTHREADS
    struct End {
      ~End() { end(); }
    };
    static const End at_the_end;
#endif
  }
  /// Whoever unloads a library, or ends the program, while a call is running, may be one of its tasks: nobody is waited for.
  static void end() {
    Pool& pool = *static_cast<Pool*>(shared_v1::current_pool.load(std::memory_order_acquire));
    if (pool.process.load(std::memory_order_relaxed) != this_process()) return;  // they are those of the parent
    if (pool.is_taken.exchange(true, std::memory_order_acquire)) return;
    pool.is_ending.store(true);
    wake_sleepers(pool);
    while (pool.threads != nullptr) {
      Pool::Thread* const thread = pool.threads;
      pool.threads = thread->next;
      join_thread(thread->handle);
      delete thread;
    }
  }

  static void open_job(Pool& pool, std::size_t n, std::size_t workers, void (*call)(void*, std::size_t), void* job) {
    pool.call = call;
    pool.job = job;
    pool.tasks = n;
    std::fegetenv(&pool.environment);
    pool.next_task.store(0, std::memory_order_relaxed);
    const std::uint64_t seats = workers < most_seats ? workers : most_seats;
    pool.gate.store(((pool.gate.load() >> job_shift) + 1) << job_shift | seats * one_seat);
    if (pool.sleeping.load() != 0) wake_sleepers(pool);
  }
  static void wake_sleepers(Pool& pool) {
    { const Lock lock(pool.mutex); }  // anyone who saw the old gate is waiting by now
    wake_all(pool.opened);
  }
  /// Nobody else joins; returns when those who have are done.
  static void close_job(Pool& pool) {
    pool.gate.fetch_and(~(most_seats * one_seat));
    for (unsigned i = 0; (pool.gate.load() & busy_mask) != 0; ++i) pause_or_yield(i);
  }

  /// Takes tasks until there are none.
  static void work(Pool& pool) {
    for (;;) {
      const std::size_t i = pool.next_task.fetch_add(1, std::memory_order_relaxed);
      if (i >= pool.tasks) return;
      pool.call(pool.job, i);
    }
  }

  /// The life of a worker.
  static void* serve(void* its_pool) {
    Pool& pool = *static_cast<Pool*>(its_pool);
    for (std::uint64_t last_job = 0;;) {
      std::uint64_t gate = await_job(pool, last_job);
      if (pool.is_ending.load()) return nullptr;
      last_job = gate >> job_shift;
      if (!pool.gate.compare_exchange_strong(gate, gate - one_seat + 1)) {
        --last_job;  // another worker was faster, or the job is over: look again
        continue;
      }
      std::fesetenv(&pool.environment);
      work(pool);
      pool.gate.fetch_sub(1);
    }
  }
  /// Returns the gate of a job after the last one that can be joined; or any, when there will be no more.
  static std::uint64_t await_job(Pool& pool, std::uint64_t last_job) {
    std::uint64_t gate = 0;
    const auto is_over = [&] {
      gate = pool.gate.load();
      return (gate >> job_shift != last_job && (gate & most_seats * one_seat) != 0) || pool.is_ending.load();
    };
    const std::int64_t end = microseconds_now() + 100;
    for (unsigned i = 0; i % 64 != 0 || microseconds_now() < end; ++i) {
      if (is_over()) return gate;
      pause_or_yield(i);
    }
    Lock lock(pool.mutex);
    ++pool.sleeping;
    while (!is_over()) lock.wait(pool.opened);
    --pool.sleeping;
    return gate;
  }

  static constexpr int job_shift = 32;
  static constexpr std::uint64_t one_seat = 1U << 16, most_seats = 0xffff, busy_mask = 0xffff;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
