#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/thread.hpp>

#include <atomic>
#include <cfenv>
#include <cstddef>
#include <cstdint>

// Shared by translation units with different flags and versions under the rules of shared.hpp; but the program, and each shared
// library, has one of its own, which is gone when the library is unloaded: its threads run the library's code.
namespace headroom::shared_v1 {

/// The workers of parallel(n), and the job they are doing: see detail::Workers. An aggregate, made as `Pool{process}`: for `new
/// Pool` and `new Pool{}` g++ calls an implicit constructor, which units with different flags would have in common.
struct HEADROOM_DETAIL_HIDDEN Pool {
  struct Thread {
    detail::ThreadHandle handle;
    Thread* next;
  };

  std::atomic<int> process{0};        ///< whose threads these are; 0 until there is a call
  std::atomic<bool> is_taken{false};  ///< by the call that is running; in the end for good. No mutex: a task may call again
  std::atomic<bool> is_ending{false};
  std::size_t thread_count = 0;  ///< this and the list belong to who has taken the pool
  Thread* threads = nullptr;

  // Written before the gate opens, read by those who have come through it.
  void (*call)(void* job, std::size_t task) = nullptr;  ///< throws nothing: it is the code of another unit than the worker's
  void* job = nullptr;
  std::size_t tasks = 0;
  std::fenv_t environment{};
  std::atomic<std::size_t> next_task{0};

  /// In one word, so that nobody joins a job that is over: its number, how many workers may still join it, how many are doing
  /// it.
  std::atomic<std::uint64_t> gate{0};

  std::atomic<int> sleeping{0};
#if HEADROOM_DETAIL_HAS_PTHREADS
  detail::Mutex mutex = PTHREAD_MUTEX_INITIALIZER;
  detail::Condition opened = PTHREAD_COND_INITIALIZER;
#else
  detail::Mutex mutex = nullptr;
  detail::Condition opened = nullptr;
#endif
};

// Initialised before any code runs and never destroyed, so that objects with static storage may call parallel(n) at any time.
HEADROOM_DETAIL_HIDDEN inline Pool first_pool{0};
/// Points to a Pool. A child of fork() makes another one.
HEADROOM_DETAIL_HIDDEN inline std::atomic<void*> current_pool{&first_pool};

}  // namespace headroom::shared_v1
