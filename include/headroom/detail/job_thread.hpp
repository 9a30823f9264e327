#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/detail/thread.hpp>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Jobs that a thread does one after the other. After an error the jobs behind it are dropped, until somebody receives it. It
/// outlives its JobThread while somebody shares it.
class JobQueue {
 public:
  /// Adds a job. The future has what it returns, or throws; a job that is dropped breaks its promise.
  template <class Work>
  auto enqueue(Work work) {
    using Result = decltype(work());
    auto promise = std::make_shared<std::promise<Result>>();
    std::future<Result> result = promise->get_future();
    auto shared = std::make_shared<Work>(std::move(work));  // std::function copies
    locked([&] {
      if (!error_) jobs_.emplace_back([promise, shared] { fulfil(*promise, *shared); });
    });
    changed_.notify_all();
    return result;
  }

  template <class F>
  std::invoke_result_t<F> locked(F f) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return f();
  }
  /// Until condition(), which is called under the lock, or an error.
  template <class Condition>
  void wait(Condition condition) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return error_ || condition(); });
  }
  void wait_until_idle() {
    wait([this] { return jobs_.empty() && !is_busy_; });
  }
  /// Throws the error, if there is one, when before_throw() has been called under the lock; then jobs are taken again.
  template <class F>
  void receive_error(F before_throw) {
    std::exception_ptr error;
    locked([&] {
      if (!error_) return;
      before_throw();
      error = std::exchange(error_, nullptr);
    });
#if HEADROOM_EXCEPTIONS
    if (error) std::rethrow_exception(error);
#endif
  }

  /// What is left is dropped; the job that is being done goes on.
  void end_now() {
    std::deque<std::function<void()>> dropped;
    locked([&] {
      is_ending_ = true;
      dropped.swap(jobs_);
    });
  }
  /// When what is left has been done.
  void end() {
    locked([this] { is_ending_ = true; });
    changed_.notify_all();
  }
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      is_busy_ = true;
      lock.unlock();
      std::exception_ptr error = error_of(job);
      job = nullptr;  // what it holds goes away here, not under the lock
      std::deque<std::function<void()>> dropped;
      lock.lock();
      is_busy_ = false;
      if (error) {
        error_ = std::move(error);
        dropped.swap(jobs_);
      }
      changed_.notify_all();
      if (!dropped.empty()) {
        lock.unlock();
        dropped.clear();
        lock.lock();
      }
    }
  }

 private:
  /// An error goes to the promise and on to run().
  template <class Result, class Work>
  static void fulfil(std::promise<Result>& promise, Work& work) {
#if HEADROOM_EXCEPTIONS
    try {
      set_value(promise, work);
    } catch (...) {
      promise.set_exception(std::current_exception());
      throw;
    }
#else
    set_value(promise, work);
#endif
  }
  template <class Result, class Work>
  static void set_value(std::promise<Result>& promise, Work& work) {
    if constexpr (std::is_void_v<Result>) {
      work();
      promise.set_value();
    } else {
      promise.set_value(work());
    }
  }

  static std::exception_ptr error_of(const std::function<void()>& job) noexcept {
#if HEADROOM_EXCEPTIONS
    try {
      job();
    } catch (...) {
      return std::current_exception();
    }
#else
    job();
#endif
    return nullptr;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::exception_ptr error_;
  bool is_busy_ = false, is_ending_ = false;
};

/// The thread of a JobQueue. Its destructor waits until all jobs are done; one that is called in a job drops those behind it.
class JobThread {
 public:
  /// Throws std::system_error where there is no thread to be had.
  JobThread() : jobs_(std::make_shared<JobQueue>()) {
    auto its_share = std::make_unique<std::shared_ptr<JobQueue>>(jobs_);
    const int error = start_thread(thread_, &run_jobs, its_share.get());
    if (error != 0) throw_system_error(error, "there is no thread to be had for an AsyncGradScaler");
    (void)its_share.release();
  }
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;
  ~JobThread() {
    if (is_current()) {
      jobs_->end_now();
      detach_thread(thread_);
    } else {
      jobs_->end();
      join_thread(thread_);
    }
  }

  [[nodiscard]] bool is_current() const noexcept { return is_current_thread(thread_); }
  [[nodiscard]] const std::shared_ptr<JobQueue>& jobs() const noexcept { return jobs_; }

 private:
  static void* run_jobs(void* share) {
    const std::unique_ptr<std::shared_ptr<JobQueue>> jobs(static_cast<std::shared_ptr<JobQueue>*>(share));
    (*jobs)->run();
    return nullptr;
  }

  std::shared_ptr<JobQueue> jobs_;
  ThreadHandle thread_{};
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
