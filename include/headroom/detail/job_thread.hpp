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
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// For what the system refuses; `error` is its errno.
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_system_error(int error, const std::string& message) {
#if HEADROOM_EXCEPTIONS
  throw std::system_error(error, std::generic_category(), "headroom: " + message);
#else
  throw_invalid_argument({message, " (error ", std::to_string(error), ")"});
#endif
}

/// Jobs that a thread does one after the other. After an error the remaining jobs are dropped until somebody receives the
/// error. The queue outlives its JobThread while somebody shares it.
class JobQueue {
 public:
  /// Adds a job. The future gets what the job returns or throws; a dropped job breaks its promise.
  template <class Work>
  auto enqueue(Work work) {
    using Result = decltype(work());
    auto promise = std::make_shared<std::promise<Result>>();
    std::future<Result> result = promise->get_future();
    auto shared = std::make_shared<Work>(std::move(work));  // std::function copies
    locked([&] {
      if (!error_) jobs_.emplace_back([promise, shared] { return fulfil(*promise, *shared); });
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
  /// Throws the error, if there is one, after calling before_throw() under the lock; jobs are accepted again.
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

  /// Ends `run` when what is left has been done, or drops that; a job that is being done goes on.
  void end(bool drops_what_is_left) {
    std::deque<Job> dropped;
    locked([&] {
      is_ending_ = true;
      if (drops_what_is_left) dropped.swap(jobs_);
    });
    changed_.notify_all();
  }
  void run() {
    while (Job job = next()) {
      std::exception_ptr error = job();
      job = nullptr;  // what it holds goes away here, and so does what is dropped, not under the lock
      std::deque<Job> dropped;
      locked([&] {
        is_busy_ = false;
        if (!error) return;
        error_ = std::move(error);
        dropped.swap(jobs_);
      });
      changed_.notify_all();
    }
  }

 private:
  using Job = std::function<std::exception_ptr()>;

  /// The next job, as soon as there is one; none at the end.
  Job next() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return is_ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return nullptr;
    is_busy_ = true;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
  }

  /// An error goes to the promise and on to run().
  template <class Result, class Work>
  static std::exception_ptr fulfil(std::promise<Result>& promise, Work& work) {
#if HEADROOM_EXCEPTIONS
    try {
      set_value(promise, work);
    } catch (...) {
      promise.set_exception(std::current_exception());
      return std::current_exception();
    }
#else
    set_value(promise, work);
#endif
    return nullptr;
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

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::exception_ptr error_;
  bool is_busy_ = false, is_ending_ = false;
};

/// The thread of a JobQueue. Its destructor waits until all jobs are done; called from within a job, it drops the remaining
/// ones.
class JobThread {
 public:
  /// Throws std::system_error if no thread can be started.
  explicit JobThread(std::shared_ptr<JobQueue> jobs) : jobs_(std::move(jobs)) {
    auto its_share = std::make_unique<std::shared_ptr<JobQueue>>(jobs_);
    const int error = start_thread(thread_, &run_jobs, its_share.get());
    if (error != 0) throw_system_error(error, "cannot start the thread of an AsyncGradScaler");
    (void)its_share.release();
  }
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;
  ~JobThread() {
    jobs_->end(is_current());
    is_current() ? detach_thread(thread_) : join_thread(thread_);
  }

  [[nodiscard]] bool is_current() const noexcept { return is_current_thread(thread_); }

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
