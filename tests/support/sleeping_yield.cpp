// Makes the ranks of a test sleep while they wait. Open MPI polls, and calls sched_yield between
// two polls. On a busy machine the scheduler of Linux puts a process that yields thousands of times
// behind all others, so that each collective takes a third of a second. A process that sleeps runs
// as soon as it wakes.

#include <sched.h>
#include <time.h>

extern "C" int sched_yield() noexcept {
  const timespec pause{0, 50'000};
  (void)nanosleep(&pause, nullptr);
  return 0;
}
