#include <headroom/ops/plan.hpp>

#include <cstddef>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using headroom::detail::Buffer;

namespace {

struct Entry {
  std::size_t number;
  const void* other;
};

bool holds_numbers_up_to(const Buffer<Entry, 4>& list, std::size_t n) {
  if (list.size() != n) return false;
  for (std::size_t i = 0; i < n; ++i) {
    if (list.begin()[i].number != i) return false;
  }
  return list.end() == list.begin() + n;
}
void fill(Buffer<Entry, 4>& list, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) list.push_back({i, &list});
}

}  // namespace

TEST_CASE("a buffer keeps its elements while it grows") {
  for (const std::size_t n : {0U, 1U, 4U, 5U, 8U, 9U, 1000U, 100'000U}) {
    Buffer<Entry, 4> list;
    fill(list, n);
    CHECK(holds_numbers_up_to(list, n));
  }
}

TEST_CASE("a block goes from one buffer to the next") {
  const void* block = nullptr;
  {
    Buffer<Entry, 4> list;
    fill(list, 5000);
    block = list.begin();
  }
  Buffer<Entry, 4> next;
  fill(next, 5);
  CHECK(static_cast<const void*>(next.begin()) == block);
  fill(next, 0);
  Buffer<Entry, 4> other;  // while that one has it
  fill(other, 5);
  CHECK(static_cast<const void*>(other.begin()) != block);
}

TEST_CASE("threads take blocks from each other") {
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&right, t] {
      for (std::size_t round = 0; round < 2000; ++round) {
        Buffer<Entry, 4> one, two;
        fill(one, round % 37);
        fill(two, round % 211);
        right[t] += holds_numbers_up_to(one, round % 37) && holds_numbers_up_to(two, round % 211) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>(4, 2000));
}
