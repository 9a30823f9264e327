// If the system has no more threads, or no more memory for them, parallel(n) uses those that there
// are.
#include <headroom/ops/executor.hpp>

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
bool no_more_threads = false, no_more_memory = false;
}

void* operator new(std::size_t bytes) {
  void* const memory = no_more_memory ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

/// Replaces the system's function, and calls it if threads are to be available.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  if (no_more_threads) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  return reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, start,
                                                                      argument);
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
    no_more_threads = call != 1;  // no worker; one; no second one
    if (!threads_work(call + 1) || !threads_work(4)) return 1;
  }
  no_more_threads = false;
  for (int call = 0; call < 2; ++call) {
    no_more_memory = call == 0;
    if (!threads_work(40)) return 1;
  }
  return 0;
}
