// The tests fork a process for each rank. Ranks talk by Gloo over the loopback interface. The
// parent starts no thread of libtorch, because a process with threads cannot be forked safely.

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO 1
#endif
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
// libtorch defines CHECK too.
#undef CHECK

#include <headroom/adapters/c10d.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"

using headroom::C10dReducer;

namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// A check inside a rank, whose process does not run Catch2.
void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("not so: " + what);
}
void require_contains(const std::string& text, const std::string& part) {
  require(text.find(part) != std::string::npos, "\"" + text + "\" contains \"" + part + "\"");
}

Group join(const std::string& folder, int rank, int size) {
  const auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface("lo"));
  const auto store = c10::make_intrusive<c10d::FileStore>(folder + "/store", size);
  auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  // A rank that leaves early would close connections that others are still opening
  group->barrier()->wait();
  return group;
}
int run_rank(const std::function<void(Group, int)>& run, const std::string& folder, int rank,
             int size) {
  // Else a write of Gloo to a rank that has ended kills this process
  std::signal(SIGPIPE, SIG_IGN);
  try {
    run(join(folder, rank, size), rank);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

/// Runs `run` in `size` processes. Returns the number of processes that failed.
int failed_ranks(int size, const std::function<void(Group, int)>& run) {
  std::string folder = "/tmp/headroom_c10d_XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t process = fork();
    if (process == 0) _exit(run_rank(run, folder, rank, size));
    REQUIRE(process > 0);
    processes.push_back(process);
  }
  int failed = 0;
  for (const pid_t process : processes) {
    int status = 0;
    REQUIRE(waitpid(process, &status, 0) == process);
    failed += status == 0 ? 0 : 1;
  }
  (void)std::remove((folder + "/store").c_str());
  (void)std::remove(folder.c_str());
  return failed;
}

}  // namespace

TEST_CASE("all ranks get the same sums") {
  for (const int size : {1, 2, 4}) {
    for (const int replicas : {1, size}) {
      CAPTURE(size, replicas);
      CHECK(failed_ranks(size, [&](const Group& group, int rank) {
              C10dReducer reducer(group, replicas);
              for (int step = 0; step < 50; ++step) {
                // The rank that overflows; none if it is `size`
                const int overflows = step % (size + 1);
                const headroom::GradientSums all =
                    reducer({rank != overflows, 1.0 * step + rank, 2.0 * rank}, 5);
                require(all.finite == (overflows == size), "whether all are finite");
                if (!all.finite) continue;
                require(all.max_abs == step + size - 1, "the largest magnitude");
                require(all.sum_of_squares == 1.0 * size * (size - 1) / replicas,
                        "the sum of squares");
              }
            }) == 0);
    }
  }
}

TEST_CASE("the largest of each amax over all ranks") {
  for (const int size : {1, 2, 4}) {
    CAPTURE(size);
    CHECK(failed_ranks(size, [&](const Group& group, int rank) {
            C10dReducer reducer(group);
            for (const std::size_t count : {0U, 1U, 1000U}) {
              std::vector<float> largest(count);
              // On one rank Inf, on the others a subnormal number
              for (std::size_t i = 0; i < count; ++i) {
                const bool is_largest = static_cast<int>(i) % size == rank;
                largest[i] = i % 3 == 0 && is_largest
                                 ? support::infinity()
                                 : static_cast<float>(i + (is_largest ? 1 : 0)) * 0x1p-149F;
              }
              reducer(largest);
              for (std::size_t i = 0; i < count; ++i) {
                require(largest[i] == (i % 3 == 0 ? support::infinity()
                                                  : static_cast<float>(i + 1) * 0x1p-149F),
                        "the largest");
              }
            }
          }) == 0);
  }
}

TEST_CASE("if a rank's digest differs, all ranks throw an error that names the rank") {
  CHECK(failed_ranks(3, [](const Group& group, int rank) {
          C10dReducer reducer(group), other_replicas(group, rank == 2 ? 3 : 1);
          const auto error_of = [](C10dReducer& of, std::uint64_t digest) -> std::string {
            try {
              return of(headroom::GradientSums(), digest).finite ? "" : "overflow";
            } catch (const headroom::ReductionError& error) {
              return error.what();
            }
          };
          require_contains(error_of(reducer, rank == 2 ? 8 : 7),
                           "1 of 3 differ from rank 0, the first is rank 2");
          require_contains(error_of(other_replicas, 7),
                           "1 of 3 differ from rank 0, the first is rank 2");
          require_contains(error_of(reducer, rank == 0 ? 8 : 7),
                           "2 of 3 differ from rank 0, the first is rank 1");
          require(error_of(reducer, 7).empty(), "they may go on");
        }) == 0);
}

TEST_CASE("a policy and a GradScaler use the report of all ranks") {
  CHECK(failed_ranks(2, [](const Group& group, int rank) {
          C10dReducer reducer(group);
          const headroom::GradientReport here{rank != 0, rank != 0 ? 2.0 : support::infinity()};
          const headroom::DynamicLossScale policy;
          require(!all_reduce(here, reducer, policy).finite, "one rank's overflow");
          const auto norm =
              all_reduce(headroom::GradientNorm{{true, 3.0 + rank}, 3.0 + rank}, reducer, policy);
          require(norm.finite && norm.max_abs == 4.0 && norm.norm == 5.0, "the norm of both");
          headroom::GradScaler<> scaler;
          scaler.set_reducer(reducer);
          support::Sgd optimizer{{0.0F}, {static_cast<float>(3 + rank) * scaler.scale(1.0F)}};
          require(scaler.unscale_and_clip_(optimizer, 1.0).norm == 5.0, "the norm of both");
        }) == 0);
}

TEST_CASE("a null group and a bad number of replicas are refused") {
  CHECK_THAT(support::message_of([] { C10dReducer reducer((Group())); }),
             Catch::Matchers::ContainsSubstring("null"));
  CHECK(failed_ranks(3, [](const Group& group, int) {
          for (const int replicas : {0, 2, -3, 4}) {
            require_contains(support::message_of([&] { C10dReducer reducer(group, replicas); }),
                             "must divide");
          }
        }) == 0);
}
