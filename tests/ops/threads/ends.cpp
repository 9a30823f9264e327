// ends WAY: the ways in which a program with workers ends. Each must end with status 0.
#include <headroom/ops/executor.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

/// Whether each of three tasks runs once.
bool threads_work() {
  std::atomic<int> runs{0};
  headroom::parallel(3).run(3, [&](std::size_t) { ++runs; });
  return runs == 3;
}
void need(bool holds) {
  if (!holds) _exit(1);
}

/// Uses threads in its destructor.
struct UsesThreadsAtTheEnd {
  ~UsesThreadsAtTheEnd() {
    for (int call = 0; call < 3; ++call) need(threads_work());
  }
};
UsesThreadsAtTheEnd destroyed_after_the_threads;

int end_with_static_objects() {
  need(threads_work());
  static const UsesThreadsAtTheEnd destroyed_before_the_threads;
  return 0;
}

int end_while_workers_sleep() {
  need(threads_work());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return 0;
}

int end_in_a_task(std::size_t ending_task) {
  const auto main_thread = std::this_thread::get_id();
  headroom::parallel(3).run(3, [&](std::size_t) {
    const bool is_main = std::this_thread::get_id() == main_thread;
    if (is_main == (ending_task == 0)) std::exit(0);
    std::this_thread::sleep_for(std::chrono::seconds(20));  // the program must not wait for this
  });
  return 1;
}

/// A child process works and ends normally, whatever its parent's threads, which it does not have,
/// were doing at the time of the fork: going to sleep, for example, with a lock that nobody opens.
int end_after_a_fork() {
  for (int fork_number = 0; fork_number < 1000; ++fork_number) {
    need(threads_work());
    std::this_thread::sleep_for(std::chrono::microseconds(fork_number % 200));
    const pid_t child = fork();
    if (child == 0) {
      need(threads_work());
      std::exit(0);
    }
    int status = -1;
    need(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  const char* const way = arguments[1];
  if (std::strcmp(way, "static_objects") == 0) return end_with_static_objects();
  if (std::strcmp(way, "while_workers_sleep") == 0) return end_while_workers_sleep();
  if (std::strcmp(way, "in_a_task_of_main") == 0) return end_in_a_task(0);
  if (std::strcmp(way, "in_a_task_of_a_worker") == 0) return end_in_a_task(1);
  if (std::strcmp(way, "after_a_fork") == 0) return end_after_a_fork();
  std::printf("no such way: %s\n", way);
  return 1;
}
