#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_PTHREADS
#include <pthread.h>
#include <sched.h>
#include <time.h>
#else
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#endif

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

#if HEADROOM_DETAIL_HAS_PTHREADS

using ThreadHandle = pthread_t;

/// Starts body(argument) in a thread that has to be joined or detached. Returns 0, or the error number if no thread can be
/// started; std::thread would throw, or end the program.
[[nodiscard]] inline int start_thread(ThreadHandle& thread, void* (*body)(void*), void* argument) noexcept {
  return pthread_create(&thread, nullptr, body, argument);
}
inline void join_thread(ThreadHandle& thread) noexcept { (void)pthread_join(thread, nullptr); }
inline void detach_thread(ThreadHandle& thread) noexcept { (void)pthread_detach(thread); }
[[nodiscard]] inline bool is_current_thread(const ThreadHandle& thread) noexcept {
  return pthread_equal(thread, pthread_self()) != 0;
}

using Mutex = pthread_mutex_t;
using Condition = pthread_cond_t;

/// Call before the first use of the two if they are constant-initialised. Returns false if out of memory.
[[nodiscard]] inline bool prepare(Mutex&, Condition&) noexcept { return true; }

class Lock {
 public:
  explicit Lock(Mutex& mutex) noexcept : mutex_(mutex) { (void)pthread_mutex_lock(&mutex); }
  ~Lock() { (void)pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  void wait(Condition& condition) noexcept { (void)pthread_cond_wait(&condition, &mutex_); }

 private:
  Mutex& mutex_;
};
inline void wake_all(Condition& condition) noexcept { (void)pthread_cond_broadcast(&condition); }

inline void yield_thread() noexcept { (void)sched_yield(); }
inline void sleep_for_microseconds(int time) noexcept {
  const timespec duration{0, time * 1000L};
  (void)nanosleep(&duration, nullptr);
}
/// Of a clock that nobody sets.
[[nodiscard]] inline std::int64_t microseconds_now() noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
}

#else

// Pointers, which are constant-initialised and never destroyed where the classes of std are neither.
using ThreadHandle = std::thread*;

[[nodiscard]] inline int start_thread(ThreadHandle& thread, void* (*body)(void*), void* argument) noexcept {
#if HEADROOM_EXCEPTIONS
  try {
    thread = new std::thread(body, argument);
  } catch (const std::system_error& error) {
    return error.code().value();
  } catch (const std::bad_alloc&) {
    return static_cast<int>(std::errc::not_enough_memory);
  }
#else
  thread = new std::thread(body, argument);
#endif
  return 0;
}
inline void join_thread(ThreadHandle& thread) noexcept {
  thread->join();
  delete thread;
}
inline void detach_thread(ThreadHandle& thread) noexcept {
  thread->detach();
  delete thread;
}
[[nodiscard]] inline bool is_current_thread(const ThreadHandle& thread) noexcept {
  return thread->get_id() == std::this_thread::get_id();
}

using Mutex = std::mutex*;
using Condition = std::condition_variable*;

[[nodiscard]] inline bool prepare(Mutex& mutex, Condition& condition) noexcept {
  if (mutex == nullptr) mutex = new (std::nothrow) std::mutex;
  if (condition == nullptr) condition = new (std::nothrow) std::condition_variable;
  return mutex != nullptr && condition != nullptr;
}

class Lock {
 public:
  explicit Lock(Mutex& mutex) : lock_(*mutex) {}
  void wait(Condition& condition) { condition->wait(lock_); }

 private:
  std::unique_lock<std::mutex> lock_;
};
inline void wake_all(Condition& condition) noexcept { condition->notify_all(); }

inline void yield_thread() noexcept { std::this_thread::yield(); }
inline void sleep_for_microseconds(int time) { std::this_thread::sleep_for(std::chrono::microseconds(time)); }
[[nodiscard]] inline std::int64_t microseconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

#endif

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
