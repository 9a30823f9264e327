// Run by mpirun with up to 8 ranks; each rank goes through all test cases in the same order. With one rank everything holds
// too.

#include <headroom/adapters/mpi.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/any_policies.hpp"
#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

namespace {

/// What goes to MPI is counted, and may be made to fail, on its way there.
struct Wire {
  int reductions = 0, others = 0, waits = 0;
  long bytes = 0;
  bool breaks = false;
  bool is_single = false;  // as if MPI had been begun without threads
} wire;

/// From the first test to the end of the program.
struct Environment {
  int rank = 0, size = 1;
  Environment() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char* const launched = std::getenv("HEADROOM_TEST_RANKS");  // else each could be alone, and see nothing
    if (launched != nullptr && std::to_string(size) != launched) {
      std::fprintf(stderr, "%s ranks were launched, but this is one of %d\n", launched, size);
      std::exit(1);
    }
    std::atexit([] { MPI_Finalize(); });
  }
};
const Environment& world() {
  static const Environment environment;
  return environment;
}

}  // namespace

extern "C" {
int MPI_Iallreduce(const void* from, void* into, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  int size = 0;
  MPI_Type_size(type, &size);
  ++wire.reductions;
  wire.bytes += count * size;
  return wire.breaks ? MPI_ERR_INTERN : PMPI_Iallreduce(from, into, count, type, op, comm, request);
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++wire.waits;
  return PMPI_Wait(request, status);
}
int MPI_Query_thread(int* level) {
  const int code = PMPI_Query_thread(level);
  if (wire.is_single) *level = MPI_THREAD_FUNNELED;
  return code;
}
int MPI_Allgather(const void* from, int n, MPI_Datatype type, void* into, int m, MPI_Datatype t, MPI_Comm comm) {
  ++wire.others;
  return PMPI_Allgather(from, n, type, into, m, t, comm);
}
}

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using headroom::GradientNorm;
using headroom::GradientReport;
using headroom::GradientSums;
using headroom::MpiReducer;
using headroom::ReductionError;
using support::bits_of;

namespace {

GradientSums sums_of_rank(int rank, std::mt19937 random) {
  random.discard(static_cast<unsigned>(rank) * 4ULL);
  if (random() % 5 == 0) return headroom::gradient_sums(headroom::detail::overflow());
  return {true, static_cast<double>(random() % 1000), static_cast<double>(random() % 1000)};
}
GradientSums expected_sums(int size, const std::mt19937& random) {
  headroom::RankReport all;
  for (int rank = 0; rank < size; ++rank) all.combine(headroom::RankReport(sums_of_rank(rank, random)));
  return all.sums();
}
bool equal(const GradientSums& a, const GradientSums& b) {
  return a.finite == b.finite && bits_of(a.max_abs) == bits_of(b.max_abs) &&
         bits_of(a.sum_of_squares) == bits_of(b.sum_of_squares);
}
std::string reduction_error_of(MpiReducer& reducer, std::uint64_t digest) {
  try {
    (void)reducer(GradientSums(), digest);
  } catch (const ReductionError& error) {
    return error.what();
  }
  return "";
}
struct Comm {
  MPI_Comm comm = MPI_COMM_NULL;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  /// Of the ranks with the same color.
  explicit Comm(int color) { MPI_Comm_split(MPI_COMM_WORLD, color, world().rank, &comm); }
  ~Comm() {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
  [[nodiscard]] int size() const {
    int size = 0;
    MPI_Comm_size(comm, &size);
    return size;
  }
};

}  // namespace

TEST_CASE("all ranks get the same sums, from one reduction of 32 bytes") {
  std::mt19937 random(support::seed);
  MpiReducer reducer((world(), MPI_COMM_WORLD));
  for (int run = 0; run < 300; ++run) {
    const GradientSums here = sums_of_rank(world().rank, random), expected = expected_sums(world().size, random);
    wire = {};
    REQUIRE(equal(reducer(here, 5), expected));
    REQUIRE(wire.reductions == 1);
    REQUIRE(wire.bytes == 32);
    REQUIRE(wire.others == 0);
    random();
  }
}

TEST_CASE("MPI may combine several reports in one call, from buffers that are not aligned") {
  using headroom::RankReport;
  const auto report = [](double max_abs) {
    return RankReport(headroom::GradientSums{true, max_abs, max_abs * max_abs}, std::uint64_t{7});
  };
  unsigned char from[1 + 3 * sizeof(RankReport)] = {}, into[1 + 3 * sizeof(RankReport)] = {};
  const RankReport theirs[] = {report(1.0), report(5.0), report(3.0)}, ours[] = {report(4.0), report(2.0), report(6.0)};
  std::memcpy(from + 1, theirs, sizeof theirs);
  std::memcpy(into + 1, ours, sizeof ours);
  int count = 3;
  headroom::detail::mpi::combine(from + 1, into + 1, &count, nullptr);
  RankReport sums[3];
  std::memcpy(sums, into + 1, sizeof sums);
  CHECK((sums[0].sums().max_abs == 4.0 && sums[1].sums().max_abs == 5.0 && sums[2].sums().max_abs == 6.0));
  CHECK((sums[0].sums().sum_of_squares == 17.0 && sums[1].sums().sum_of_squares == 29.0));
  CHECK(sums[2].sums().sum_of_squares == 45.0);
}

TEST_CASE("a reducer says what it cannot be made of") {
  const int size = world().size;
  CHECK_THAT(support::message_of([] { MpiReducer reducer(MPI_COMM_NULL); }), ContainsSubstring("MPI_COMM_NULL"));
  for (const int replicas : {0, -1, size + 1}) {
    const std::string expected = "replicas is " + std::to_string(replicas);
    CHECK_THAT(support::message_of([&] { MpiReducer reducer(MPI_COMM_WORLD, replicas); }), ContainsSubstring(expected));
  }
  if (size < 2) return;
  const Comm half(world().rank % 2);
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Intercomm_create(half.comm, 0, MPI_COMM_WORLD, 1 - world().rank % 2, 3, &between);
  CHECK_THAT(support::message_of([&] { MpiReducer reducer(between); }), ContainsSubstring("intercommunicator"));
  MPI_Comm_free(&between);
}

TEST_CASE("gradients that several ranks hold are counted once, in groups of any kind") {
  // Ranks as a grid: rows of a tensor-parallel group each, columns of replicas.
  const int size = world().size, rows = size % 2 == 0 ? 2 : 1, columns = size / rows;
  const int column = world().rank % columns;
  const Comm row_group(world().rank / columns), column_group(column);
  const auto own = static_cast<double>(column + 1);  // the norm of a shard
  double squares = 0.0;
  for (int i = 1; i <= columns; ++i) squares += static_cast<double>(i * i);
  const GradientNorm here{{true, own}, own};
  MpiReducer everybody(MPI_COMM_WORLD, rows), row(row_group.comm), replicas(column_group.comm, rows);
  const headroom::DynamicLossScale policy;
  for (const GradientNorm& norm : {all_reduce(here, everybody, policy), all_reduce(here, row, policy),
                                   all_reduce(all_reduce(here, row, policy), replicas, policy)}) {
    CHECK(norm.finite);
    CHECK(norm.max_abs == static_cast<double>(columns));
    CHECK(norm.norm == Approx(std::sqrt(squares)));
  }
  const GradientReport report = all_reduce(GradientReport{world().rank != size - 1, own}, everybody, policy);
  CHECK_FALSE(report.finite);
  CHECK(bits_of(report.max_abs) == headroom::binary64::infinity_bits);
}

TEST_CASE("reductions go on while other work is done, and end in their order") {
  std::mt19937 random(support::seed);
  MpiReducer reducer((world(), MPI_COMM_WORLD));
  for (int run = 0; run < 50; ++run) {
    std::vector<headroom::MpiReduction> started;
    std::vector<GradientSums> expected;
    for (int i = 0; i < 4; ++i) {
      started.push_back(reducer.start(sums_of_rank(world().rank, random), 9));
      expected.push_back(expected_sums(world().size, random));
      random();
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const bool tests = (random() & 1U) != 0;
      while (tests && !started[i].test()) {
      }
      if (random() % 8 == 0) continue;  // one that nobody waits for
      REQUIRE(equal(started[i].wait(), expected[i]));
      REQUIRE(started[i].test());
      REQUIRE(equal(started[i].wait(), expected[i]));  // as often as you like
    }
  }
}

TEST_CASE("a rank in another state is named on all ranks, and nobody goes on") {
  if (world().size < 3) return;
  const std::uint64_t digest = world().rank == 1 ? 8 : 7;
  for (const int replicas : {1, world().size}) {
    MpiReducer reducer(MPI_COMM_WORLD, replicas);
    (void)reducer(GradientSums(), 1);
    MpiReducer copy = reducer;
    CHECK_THAT(reduction_error_of(reducer, digest), ContainsSubstring("out of step: rank 1 against the rest"));
    wire = {};
    CHECK_THAT(support::logic_error_of([&] { (void)copy(GradientSums()); }), ContainsSubstring("out of step: let all of them"));
    copy.fail("because of that");  // as a catch block around the loop would
    CHECK(wire.reductions == 0);
  }
  MpiReducer reducer(MPI_COMM_WORLD);
  const headroom::DynamicLossScale policy, other = policy.adjust(true);
  CHECK_THROWS_AS(all_reduce(GradientReport(), reducer, world().rank == 1 ? other : policy), ReductionError);
}

TEST_CASE("a rank that cannot go on does not leave the others waiting") {
  const int rank = world().rank, size = world().size;
  const std::string long_reason(1000, 'x');
  for (int failing = 0; failing < size; ++failing) {
    for (const std::string& why : {std::string("no gradients: disk full"), long_reason, std::string()}) {
      MpiReducer reducer(MPI_COMM_WORLD);
      std::optional<std::string> error;
      if (rank == failing) {
        if (failing % 2 == 0) {  // with a reduction of its own under way
          auto started = reducer.start(GradientSums());
          reducer.fail(why);
        } else {
          (void)reducer(GradientSums());
          reducer.fail(why);
        }
        reducer.fail(why);  // once is enough
      } else {
        (void)reducer(GradientSums());
        error = reduction_error_of(reducer, 0);
      }
      const std::string expected = "rank " + std::to_string(failing) + " failed";
      if (error) CHECK_THAT(*error, ContainsSubstring(why.empty() ? expected : expected + ": " + why.substr(0, 215)));
    }
  }
}

TEST_CASE("what a rank throws before its reduction ends the step of all, in either scaler") {
  if (world().size < 2) return;
  struct Broken {  // the gradients are known only to fail
    std::vector<headroom::span<float>> grads;
    auto gradients() { return grads; }
    void step() {}
  };
  for (const bool is_async : {false, true}) {
    float gradient = 1.0F;
    const bool is_broken = world().rank == 1;
    Broken optimizer{{{is_broken ? nullptr : &gradient, 1}}};
    MpiReducer reducer(MPI_COMM_WORLD);
    std::string error;
    try {
      if (is_async) {
        headroom::AsyncGradScaler<> scaler;
        scaler.configure([&](auto& settings) { settings.set_reducer(reducer); });
        (void)scaler.submit(optimizer);
        scaler.update(false);
      } else {
        headroom::GradScaler<> scaler;
        scaler.set_reducer(reducer);
        (void)scaler.step(optimizer);
      }
    } catch (const std::exception& thrown) {
      error = thrown.what();
      reducer.fail(error);
    }
    CHECK_THAT(error, ContainsSubstring(is_broken ? "null" : "rank 1 failed: headroom: "));
    CHECK_THAT(error, ContainsSubstring("[0]"));  // where: the path of the leaf
    CHECK(gradient == 1.0F / (is_broken ? 1.0F : 32768.0F));
  }
}

TEST_CASE("a thread that must not call MPI is told so") {
  wire.is_single = true;
  MpiReducer funneled((world(), MPI_COMM_WORLD)), threaded(MPI_COMM_WORLD);
  CHECK(funneled(GradientSums()).finite);
  const auto started = funneled.start(GradientSums());
  std::string error;
  std::thread([&] {
    wire.is_single = true;
    error = support::logic_error_of([&] { (void)funneled(GradientSums()); });
    wire.reductions = wire.waits = 0;
    funneled.fail("in the wrong thread");  // neither, and without a word
    {
      MpiReducer copy = funneled;  // nor as it goes
    }
    CHECK(wire.reductions + wire.waits == 0);
    wire.is_single = false;
    CHECK(threaded(GradientSums()).finite);
    wire.is_single = true;
    CHECK(support::logic_error_of([&] { MpiReducer in_this_thread(MPI_COMM_WORLD); }) == error);
    CHECK(support::logic_error_of([&] { (void)started.wait(); }) == error);
    CHECK(support::logic_error_of([&] { (void)started.test(); }) == error);
  }).join();
  wire.is_single = false;
  CHECK_THAT(error, ContainsSubstring("MPI_THREAD_MULTIPLE"));
  CHECK(started.wait().finite);
  CHECK(funneled(GradientSums()).finite);
}

TEST_CASE("behind the last decision all ranks meet once more") {
  const int rank = world().rank, size = world().size;
  MpiReducer reducer((world(), MPI_COMM_WORLD));
  (void)reducer(GradientSums());
  reducer.finish();
  if (size < 3) return;
  std::string error;
  (void)reducer(GradientSums());
  if (rank == 1) reducer.fail("the disk is full");  // behind its last decision
  if (rank != 1) {
    try {
      reducer.finish();
    } catch (const ReductionError& thrown) {
      error = thrown.what();
    }
    CHECK_THAT(error, ContainsSubstring("rank 1 failed: the disk is full"));
  }
  MpiReducer other(MPI_COMM_WORLD);
  try {
    if (rank != 2) (void)other(GradientSums());  // rank 2 has one batch less
    other.finish();
  } catch (const ReductionError& thrown) {
    error = thrown.what();
  }
  CHECK_THAT(error, ContainsSubstring("out of step: rank 2 against the rest"));
}

TEST_CASE("a rank fails while reductions are under way, here or elsewhere") {
  const int rank = world().rank, size = world().size;
  if (size < 3) return;
  for (const bool another_differs : {false, true}) {
    for (const int started_by_failing : {0, 1, 2}) {
      MpiReducer reducer(MPI_COMM_WORLD);
      std::string error;
      std::vector<headroom::MpiReduction> started;
      const int count = rank == 1 ? started_by_failing : 3;
      const std::uint64_t digest = another_differs && rank == 2 ? 1 : 0;
      for (int i = 0; i < count; ++i) started.push_back(reducer.start(GradientSums(), digest));
      try {
        if (rank == 1) throw std::runtime_error("of its own");
        if (rank == 0) started.erase(started.begin());  // the first is dropped
        for (auto& reduction : started) (void)reduction.wait();
      } catch (const std::exception& thrown) {
        error = thrown.what();
        reducer.fail(error);
      }
      const bool differs_first = another_differs && started_by_failing > 0;
      CHECK_THAT(error, ContainsSubstring(rank == 1       ? "of its own"
                                          : differs_first ? "rank 2 against the rest"
                                                          : "rank 1 failed: of its own"));
      CHECK_FALSE(support::logic_error_of([&] { (void)reducer(GradientSums()); }).empty());
      if (rank != 1) CHECK_FALSE(support::logic_error_of([&] { (void)started.back().wait(); }).empty());
    }
  }
}

TEST_CASE("the main thread fails while the optimizers' thread decides") {
  if (world().size < 2) return;
  for (int run = 0; run < 30; ++run) {
    MpiReducer reducer(MPI_COMM_WORLD);
    headroom::AsyncGradScaler<> scaler;
    scaler.configure([&](auto& settings) { settings.set_reducer(reducer); });
    support::Stateless optimizer{{1.0F}};
    std::string error;
    try {
      for (int step = 0; step < 5; ++step) {
        if (world().rank == 1 && step == run % 5) throw std::runtime_error("in backward");
        (void)scaler.submit_gradients(optimizer, support::Weights{scaler.scale(1.0F)});
        scaler.update(run % 2 == 0);
      }
      scaler.synchronize();
      reducer.finish();
    } catch (const std::exception& thrown) {
      error = thrown.what();
      reducer.fail(error);
    }
    CHECK_THAT(error, ContainsSubstring(world().rank == 1 ? "in backward" : "rank 1 failed: in backward"));
  }
}

TEST_CASE("replicas and max_norm have to be the same on all ranks") {
  if (world().size < 2) return;
  const bool is_odd_one = world().rank == 1;
  MpiReducer one(MPI_COMM_WORLD, is_odd_one ? world().size : 1);
  CHECK_THROWS_AS(one(GradientSums()), ReductionError);
  headroom::GradScaler<> scaler;
  scaler.set_reducer(MpiReducer(MPI_COMM_WORLD));
  support::Sgd optimizer{{1.0F}, {1.0F}};
  CHECK_THROWS_AS(scaler.unscale_and_clip_(optimizer, is_odd_one ? 2.0 : 1.0), ReductionError);
}

TEST_CASE("several ranks fail at once") {
  MpiReducer reducer((world(), MPI_COMM_WORLD));
  if (world().rank % 2 == 0) {
    reducer.fail("");
  } else {
    CHECK_THAT(reduction_error_of(reducer, 0), ContainsSubstring(world().size > 2 ? "ranks 0" : "rank 0 failed"));
  }
}

TEST_CASE("an error of MPI is an exception with MPI's own text") {
  MpiReducer reducer((world(), MPI_COMM_WORLD));
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(MPI_ERR_INTERN, text, &length);
  const auto error_of = [&](const auto& call) -> std::string {
    try {
      call();
    } catch (const headroom::MpiError& error) {
      CHECK(error.code() == MPI_ERR_INTERN);
      return error.what();
    }
    return "";
  };
  wire.breaks = true;
  CHECK(error_of([&] { (void)reducer(GradientSums()); }) == std::string("headroom: MPI_Iallreduce: ") + text);
  wire.breaks = false;
  CHECK_FALSE(support::logic_error_of([&] { (void)reducer(GradientSums()); }).empty());
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  CHECK(handler == MPI_ERRORS_ARE_FATAL);  // the caller's, as before
}

namespace {

struct Shard {
  std::vector<support::Weights> grads;
  std::vector<support::Weights>& gradients() { return grads; }
  void step() { ++steps; }
  int steps = 0;
};

/// A run of some ranks with a policy: every rank has its own gradients of every optimizer, now and then none, and some
/// overflow. Each rank also does it all alone, with all gradients, and compares. Returns the number of differences.
int differences_in_run(const Comm& group, const headroom::AnyLossScale& policy, std::uint32_t seed, bool is_async) {
  std::mt19937 random(seed);
  int rank = 0, size = 0, faults = 0;
  MPI_Comm_rank(group.comm, &rank);
  MPI_Comm_size(group.comm, &size);
  headroom::GradScaler<headroom::AnyLossScale> alone(policy), scaler(policy);
  headroom::AsyncGradScaler<headroom::AnyLossScale> async(policy);
  if (is_async) {
    async.configure([&](auto& settings) { settings.set_reducer(MpiReducer(group.comm)); });
  } else {
    scaler.set_reducer(MpiReducer(group.comm));
  }
  const int steps = 12, optimizers = 1 + static_cast<int>(random() % 2);
  const bool clips = random() % 2 == 0;
  for (int step = 0; step < steps; ++step) {
    const float scale = is_async ? async.get_scale() : scaler.get_scale();
    std::vector<Shard> whole(static_cast<std::size_t>(optimizers)), own = whole;
    for (int optimizer = 0; optimizer < optimizers; ++optimizer) {
      const auto o = static_cast<std::size_t>(optimizer);
      for (int r = 0; r < size; ++r) {
        for (std::size_t leaf = random() % 3; leaf > 0; --leaf) {
          support::Weights grads(random() % 4);
          for (float& grad : grads) grad = static_cast<float>(static_cast<int>(random() % 17) - 8) * scale;
          if (random() % 40 == 0 && !grads.empty()) grads[0] = support::infinity();
          whole[o].grads.push_back(grads);
          if (r == rank) own[o].grads.push_back(std::move(grads));
        }
      }
      if (whole[o].grads.empty()) whole[o].grads.emplace_back();
    }
    (void)alone.scale(1.0F);
    (void)(is_async ? async.scale(1.0F) : scaler.scale(1.0F));
    for (std::size_t o = 0; o < own.size(); ++o) {
      const double max_norm = clips ? 10.0 : 1e30;
      const GradientNorm expected = alone.unscale_and_clip_(whole[o], max_norm);
      const bool skips = alone.step(whole[o]).skipped;
      GradientNorm found;
      bool skipped = false;
      if (is_async) {
        const auto result = async.submit_and_clip(own[o], max_norm).get();
        found = {result.report, result.norm};
        skipped = result.skipped;
      } else {
        found = scaler.unscale_and_clip_(own[o], max_norm);
        skipped = scaler.step(own[o]).skipped;
      }
      const bool same_norm = expected.finite ? std::abs(found.norm - expected.norm) <= 1e-12 * expected.norm : !found.finite;
      faults += skipped == skips && same_norm && bits_of(found.max_abs) == bits_of(expected.max_abs) ? 0 : 1;
      faults += own[o].steps == (skips ? 0 : 1) ? 0 : 1;
    }
    alone.update();
    if (is_async) {
      async.update(false);
    } else {
      scaler.update();
    }
    const float next = is_async ? async.get_scale() : scaler.get_scale();
    faults += bits_of(next) == bits_of(alone.get_scale()) ? 0 : 1;
  }
  return faults;
}

/// `runs` random runs of each number of ranks from 2, or of one drawn for each, times every policy.
void check_ranks_stay_in_step(int runs, bool is_every_size, bool is_async) {
  std::mt19937 random(support::seed);
  const std::vector<headroom::AnyLossScale> policies = support::every_policy();
  std::vector<std::unique_ptr<Comm>> groups;  // of the first 1, 2, … ranks, and the rest
  const int most = world().size;
  for (int size = 1; size <= most; ++size) groups.push_back(std::make_unique<Comm>(world().rank < size ? 0 : 1));
  long count = 0;
  for (int run = 0; run < (is_every_size ? runs * most : runs); ++run) {
    const auto drawn = static_cast<int>(random() % 64);
    const int size = is_every_size ? run % most + 1 : most == 1 ? 1 : 2 + drawn % (most - 1);
    const auto seed = static_cast<std::uint32_t>(random());
    if (world().rank >= size) continue;
    for (const auto& policy : policies) {
      INFO("run " << run << ", " << size << " ranks, " << policy.policy_name());
      REQUIRE(differences_in_run(*groups[static_cast<std::size_t>(size) - 1], policy, seed, is_async) == 0);
      ++count;
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (world().rank == 0) CHECK(count == static_cast<long>(policies.size()) * (is_every_size ? runs * most : runs));
}

}  // namespace

TEST_CASE("ranks stay in step: the scales of every policy are those of one process that sees all gradients") {
  check_ranks_stay_in_step(support::is_exhaustive ? 1000 : 100, false, false);
}
TEST_CASE("ranks stay in step with the optimizers in other threads") {
  check_ranks_stay_in_step(support::is_exhaustive ? 50 : 10, false, true);
}
TEST_CASE("ranks stay in step, each number of them", "[.every_size]") {  // takes minutes
  check_ranks_stay_in_step(1000, true, false);
}

TEST_CASE("a rank that continues from an older checkpoint, or has other optimizers, is noticed at the next decision") {
  if (world().size < 3) return;
  for (int fault = 0; fault < 4; ++fault) {
    headroom::GradScaler<> scaler;
    scaler.set_reducer(MpiReducer(MPI_COMM_WORLD));
    Shard one, two;
    one.grads = two.grads = {{1.0F}};
    headroom::StateDict older;
    for (int step = 0; step < 3; ++step) {
      older = scaler.state_dict();
      (void)scaler.scale(1.0F);
      (void)scaler.step(one);
      scaler.update();
    }
    const bool is_odd_one = world().rank == 2;
    if (is_odd_one && fault == 0) scaler.load_state_dict(older);
    if (is_odd_one && fault == 1) scaler.update(2.0F * scaler.get_scale());
    (void)scaler.scale(1.0F);
    if (is_odd_one && fault == 2) (void)scaler.scale(1.0F);  // no fault: another loss
    const auto iteration = [&] {
      (void)scaler.step(one);
      if (!is_odd_one || fault != 3) (void)scaler.step(two);
      scaler.update();
      (void)scaler.scale(1.0F);
      (void)scaler.step(one);
    };
    std::string error;
    try {
      iteration();
    } catch (const ReductionError& thrown) {
      error = thrown.what();
    }
    if (fault == 2) {
      CHECK(error.empty());
    } else {
      CHECK_THAT(error, ContainsSubstring("out of step: rank 2 against the rest"));
    }
  }
}
