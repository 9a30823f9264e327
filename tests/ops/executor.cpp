// Work shared out: every verb gives the same bits on any number of threads.
#include <headroom/headroom.hpp>

#include <sys/wait.h>
#include <unistd.h>
#include <chrono>

#include <atomic>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::half;
using headroom::parallel;
using support::bits_of;

namespace {

// More than a MiB, for less is left to one thread; sizes that are no multiple of a piece; and a strided leaf.
struct Big {
  std::vector<std::vector<half>> leaves;
  std::vector<float> store;
  support::Strided<float> strided;
  std::vector<double> last;
  half end = half(3.0F);  // in the two bytes that are left over where the bytes are divided among three threads
  HEADROOM_TREE(Big, leaves, strided, last, end)

  Big() : store(200003 * 2) {
    std::mt19937 random(support::seed);
    for (const std::size_t size : {1U, 65536U, 65537U, 0U, 300001U, 17U}) {
      leaves.emplace_back();
      for (std::size_t i = 0; i < size; ++i) {
        leaves.back().push_back(half::from_bits(support::random_finite_bits<headroom::binary16>(random)));
      }
    }
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (float& element : store) element = uniform(random);
    strided = {store.data(), {200003}, {2}};
    for (int i = 0; i < 1000; ++i) last.push_back(static_cast<double>(uniform(random)));
  }
  Big(const Big&) = delete;
  Big& operator=(const Big&) = delete;

  [[nodiscard]] auto bits() const {
    std::vector<std::vector<std::uint16_t>> halves;
    for (const auto& leaf : leaves) halves.push_back(bits_of(leaf));
    return std::make_tuple(halves, bits_of(store), bits_of(last), bits_of(end));
  }
};

const headroom::ConstantLossScale policy(3.0F);

bool same(const headroom::GradientReport& a, const headroom::GradientReport& b) {
  return a.finite == b.finite && bits_of(a.max_abs) == bits_of(b.max_abs);
}

}  // namespace

TEST_CASE("no more threads work than were asked for, however many tasks there are") {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::size_t calls = 0;
  headroom::parallel(2).run(500, [&](std::size_t) {
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
    ++calls;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  CHECK(calls == 500);
  CHECK(threads.size() <= 2);
}

TEST_CASE("parallel results are those of one thread, bit for bit") {
  Big expected;
  const auto measured = headroom::measure(expected);
  const auto cast_halves = headroom::cast<float>(expected.leaves);
  const auto unscaled_halves = policy.unscale<float>(expected.leaves);
  const auto report = policy.unscale_in_place(expected);
  const auto clipped = policy.unscale_and_clip_in_place(expected, 0.1);
  for (int threads = 1; threads <= 5; ++threads) {
    INFO(threads << " threads");
    Big tree;
    const auto found = headroom::measure(parallel(threads), tree);
    CHECK(same(found, measured));
    CHECK(bits_of(found.norm) == bits_of(measured.norm));
    CHECK(headroom::all_finite(parallel(threads), tree));

    const auto casted = headroom::cast<float>(parallel(threads), tree.leaves);
    const auto unscaled = policy.unscale<float>(parallel(threads), tree.leaves);
    CHECK(same(unscaled.report, unscaled_halves.report));
    for (std::size_t leaf = 0; leaf < casted.size(); ++leaf) {
      CHECK(bits_of(casted[leaf]) == bits_of(cast_halves[leaf]));
      CHECK(bits_of(unscaled.grads[leaf]) == bits_of(unscaled_halves.grads[leaf]));
    }
    CHECK(same(policy.unscale_in_place(parallel(threads), tree), report));
    const auto clip = policy.unscale_and_clip_in_place(parallel(threads), tree, 0.1);
    CHECK(same(clip, clipped));
    CHECK(bits_of(clip.norm) == bits_of(clipped.norm));
    CHECK(tree.bits() == expected.bits());
  }
}

TEST_CASE("one bad element is found by whichever thread meets it, and all the others are unscaled") {
  const std::size_t size = 300000;
  for (const std::size_t where : {std::size_t{0}, size / 4 - 1, size / 4, size / 2, size - 1}) {
    std::vector<float> tree(size, 3.0F);
    support::set_bits(tree[where], headroom::binary32::quiet_nan_bits);
    CHECK_FALSE(headroom::all_finite(parallel(4), tree));
    const auto report = policy.unscale_in_place(parallel(4), tree);
    CHECK_FALSE(report.finite);
    CHECK(bits_of(report.max_abs) == headroom::binary64::infinity_bits);
    tree[where] = 1.0F;
    CHECK(tree == std::vector<float>(size, 1.0F));
  }
}

TEST_CASE("more threads than pieces") {
  std::vector<float> tree(1 << 18, 3.0F);
  CHECK(policy.unscale_in_place(parallel(50), tree).max_abs == 1.0);
  CHECK(tree == std::vector<float>(1 << 18, 1.0F));
}

TEST_CASE("a number of threads below 1 is refused") {
  CHECK_THAT(support::message_of([] { (void)parallel(0); }), ContainsSubstring("n_threads is 0; it must be at least 1"));
  CHECK_THAT(support::message_of([] { (void)parallel(-3); }), ContainsSubstring("n_threads is -3"));
  CHECK_THAT(support::message_of([] { (void)parallel(std::numeric_limits<int>::min()); }),
             ContainsSubstring("n_threads is -2147483648"));
  CHECK(parallel(1).concurrency() == 1);
}

TEST_CASE("an executor runs each task once") {
  const auto check = [](const auto& executor) {
    for (const std::size_t tasks : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
      std::vector<std::atomic<int>> runs(tasks);
      executor.run(tasks, [&](std::size_t task) { ++runs.at(task); });
      for (const auto& count : runs) CHECK(count == 1);
    }
  };
  check(headroom::sequential);
  check(parallel(1));
  check(parallel(3));
}

TEST_CASE("where tasks throw, all are run and one error arrives") {
  for (const std::size_t bad : {std::size_t{0}, std::size_t{2}}) {
    std::atomic<int> runs{0};
    const auto task = [&](std::size_t number) {
      ++runs;
      if (number >= bad) throw std::runtime_error("task");
    };
    CHECK_THROWS_AS(parallel(3).run(3, task), std::runtime_error);
    CHECK(runs == 3);
  }
  std::atomic<int> runs{0};
  parallel(3).run(3, [&](std::size_t) { ++runs; });
  CHECK(runs == 3);
}

TEST_CASE("the first error of several tasks is the one that arrives, and the next call has none") {
  const auto throw_number = [](std::size_t number) { throw number; };
  {
    headroom::detail::Job job(throw_number);
    for (const std::size_t number : {4U, 2U, 9U}) decltype(job)::call(&job, number);
    try {
      job.throw_error();
      FAIL("no error");
    } catch (std::size_t number) {
      CHECK(number == 4);
    }
  }
  for (int call = 0; call < 50; ++call) {
    int errors = 0;
    try {
      parallel(4).run(4, throw_number);
    } catch (std::size_t number) {
      ++errors;
      CHECK(number < 4);
    }
    CHECK(errors == 1);
    std::atomic<int> runs{0};
    parallel(4).run(4, [&](std::size_t) { ++runs; });
    CHECK(runs == 4);
  }
}

TEST_CASE("tasks compute with the rounding mode of the caller, whoever started the threads") {
  parallel(4).run(4, [](std::size_t) {});
  for (const int mode : {FE_UPWARD, FE_TONEAREST}) {
    std::fesetround(mode);
    std::atomic<int> others{0};
    for (int call = 0; call < 100; ++call) {
      parallel(4).run(4, [&](std::size_t) { others += std::fegetround() != mode; });
    }
    CHECK(others == 0);
  }
}

TEST_CASE("threads are used again") {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for (int call = 0; call < 200; ++call) {
    parallel(3).run(3, [&](std::size_t) {
      const std::lock_guard<std::mutex> lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  }
  CHECK(seen.size() <= 50);  // of all executors of this program; started anew they would be hundreds
}

TEST_CASE("calls from several threads at once, and from within a task") {
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&runs] {
      for (int call = 0; call < 100; ++call) {
        parallel(4).run(4, [&runs](std::size_t) { parallel(2).run(2, [&runs](std::size_t) { ++runs; }); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(runs == 4 * 100 * 4 * 2);
}

#if !defined(__SANITIZE_THREAD__)  // it takes the child's threads for the parent's
TEST_CASE("a child of fork has threads of its own") {
  for (int round = 0; round < 50; ++round) {  // the parent's workers are caught in all states
    std::atomic<int> runs{0};
    parallel(4).run(4, [&](std::size_t) { ++runs; });
    const pid_t child = fork();
    if (child == 0) {
      parallel(3).run(3, [&](std::size_t) { ++runs; });
      _exit(runs == 7 ? 0 : 1);
    }
    REQUIRE(child > 0);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}
#endif

TEST_CASE("errors come before the threads") {
  std::vector<float> source(1 << 19), destination((1 << 19) - 1, 7.0F);
  CHECK_THAT(support::message_of([&] { headroom::cast_into(parallel(3), source, destination); }),
             ContainsSubstring("the trees differ"));
  CHECK(destination == std::vector<float>(destination.size(), 7.0F));
}
