#pragma once

#include <headroom/ops/executor.hpp>

#include <atomic>
#include <cstddef>
#include <thread>

namespace support {

/// Calls f() in this thread and in one of parallel(2). Each waits for the other, so one thread
/// cannot make both calls.
template <class F>
void in_two_threads(const F& f) {
  std::atomic<int> running{0};
  headroom::parallel(2).run(2, [&](std::size_t) {
    for (++running; running < 2;) std::this_thread::yield();
    f();
  });
}

}  // namespace support
