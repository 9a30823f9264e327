// No thread is to be had from the system: parallel(n) goes on with those there are, an AsyncGradScaler is an error. Compiled
// with exceptions and without.
#include <unistd.h>

#include <cstdio>
#include <cstring>

// The message of the one error that is expected ends the program well.
[[noreturn]] inline void end_with(const char* message) {
  std::fputs(message, stdout);
  std::fflush(stdout);
  _exit(std::strstr(message, "AsyncGradScaler") != nullptr ? 0 : 1);
}
#define HEADROOM_ERROR_HANDLER(message) end_with(message)
#include <headroom/headroom.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <system_error>

namespace {
bool no_more_threads = false;
}

/// The system's own, which this stands before, where there are to be threads.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  if (no_more_threads) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  return reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, start, argument);
}

namespace {
bool threads_work(int n) {
  std::atomic<int> runs{0};
  headroom::parallel(n).run(static_cast<std::size_t>(n), [&](std::size_t) { ++runs; });
  return runs == n;
}
}  // namespace

int main() {
  for (int call = 0; call < 3; ++call) {
    no_more_threads = call != 1;  // none; one; no second
    if (!threads_work(call + 1) || !threads_work(4)) return 1;
  }
  no_more_threads = true;
#if HEADROOM_EXCEPTIONS
  try {
    const headroom::AsyncGradScaler<> scaler;
  } catch (const std::system_error& error) {
    std::puts(error.what());
    return error.code() == std::errc::resource_unavailable_try_again ? 0 : 1;
  }
#else
  return 0;  // std::thread ends the program
#endif
  std::puts("an AsyncGradScaler without a thread");
  return 1;
}
