// Run twice: with POSIX threads, and with what C++ has of its own (detail/thread_without_pthreads).
#include <headroom/detail/thread.hpp>

#include <atomic>
#include <cstddef>
#include <vector>

#include "support/catch.hpp"

using namespace headroom::detail;

namespace {

Mutex mutex = {};
Condition changed = {};

/// Who started it, what it has seen, and how far it is.
struct Body {
  ThreadHandle own{};
  std::atomic<bool> has_handle{false};
  bool is_itself = false;
  int turns = 0;
};

void* look_at_itself(void* argument) {
  auto& body = *static_cast<Body*>(argument);
  while (!body.has_handle.load()) {
  }
  body.is_itself = is_current_thread(body.own);
  return nullptr;
}

/// Two threads take turns at `turn`.
struct PingPong {
  int turn = 0;
  static constexpr int turns = 1000;

  void play(int player) {
    Lock lock(mutex);
    while (turn < turns) {
      if (turn % 2 == player) {
        ++turn;
        wake_all(changed);
      } else {
        lock.wait(changed);
      }
    }
  }
};
void* play_second(void* game) {
  static_cast<PingPong*>(game)->play(1);
  return nullptr;
}

struct Counter {
  std::size_t count = 0;
};
void* count_up(void* argument) {
  for (int i = 0; i < 10000; ++i) {
    const Lock lock(mutex);
    ++static_cast<Counter*>(argument)->count;
  }
  return nullptr;
}

std::atomic<int> detached_runs{0};
void* run_detached(void*) {
  ++detached_runs;
  return nullptr;
}

}  // namespace

TEST_CASE("a thread knows itself, and nobody else") {
  Body body;
  REQUIRE(start_thread(body.own, &look_at_itself, &body) == 0);
  body.has_handle = true;
  CHECK_FALSE(is_current_thread(body.own));
  join_thread(body.own);
  CHECK(body.is_itself);
}

TEST_CASE("a lock keeps the others out") {
  REQUIRE(prepare(mutex, changed));
  REQUIRE(prepare(mutex, changed));  // again, which changes nothing
  Counter counter;
  std::vector<ThreadHandle> threads(4);
  for (ThreadHandle& thread : threads) REQUIRE(start_thread(thread, &count_up, &counter) == 0);
  for (ThreadHandle& thread : threads) join_thread(thread);
  CHECK(counter.count == 40000);
}

TEST_CASE("who waits lets go of the lock, is woken up, and has it again") {
  REQUIRE(prepare(mutex, changed));
  PingPong game;
  ThreadHandle second{};
  REQUIRE(start_thread(second, &play_second, &game) == 0);
  game.play(0);
  join_thread(second);
  CHECK(game.turn == PingPong::turns);
}

TEST_CASE("a detached thread runs by itself") {
  const int before = detached_runs;
  ThreadHandle thread{};
  REQUIRE(start_thread(thread, &run_detached, nullptr) == 0);
  detach_thread(thread);
  while (detached_runs == before) {
  }
  CHECK(detached_runs == before + 1);
}
