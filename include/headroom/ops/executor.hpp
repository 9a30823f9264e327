#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/workers.hpp>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

// An executor does the work of a verb. It has `concurrency()`, the number of tasks that large work is split into, and `run(n,
// task)`, which calls task(0) … task(n - 1), in any order and at the same time if it likes, and returns when all are done.
// Results do not depend on the executor.

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
/// calling thread, and so is all work while the others are busy with another call.
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
