// mpirun starts this with 4 ranks. Each rank runs all test cases in the same order. The tests also
// pass with one rank. The ranks sleep while they wait: see support/sleeping_yield.cpp.
// build/mpich.sh runs this with MPICH.

#include <headroom/adapters/mpi.hpp>
#include <headroom/dtype/float8.hpp>
#include <headroom/policy/amax.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/quantize/rules.hpp>
#include <headroom/quantize/tensor_scales.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

namespace {

/// Counts the calls of MPI and the bytes of this rank. Makes them fail if `breaks`.
struct Wire {
  int reductions = 0, gathers = 0, bytes = 0;
  bool breaks = false;
} wire;
void note(int& calls, int count, MPI_Datatype type) {
  int size = 0;
  MPI_Type_size(type, &size);
  ++calls;
  wire.bytes += count * size;
}

/// Lives from the first test to the end of the program.
struct World {
  int rank = 0, size = 1;
  World() {
    int level = std::getenv("HEADROOM_TEST_SERIALIZED") != nullptr ? MPI_THREAD_SERIALIZED
                                                                   : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(nullptr, nullptr, level, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    // Otherwise each rank could be alone, and compare nothing
    const char* const launched = std::getenv("HEADROOM_TEST_RANKS");
    if (launched != nullptr && std::to_string(size) != launched) {
      std::fprintf(stderr, "%s ranks were launched, but this is one of %d\n", launched, size);
      std::exit(1);
    }
    std::atexit([] { MPI_Finalize(); });
  }
};
const World& world() {
  static const World the_world;
  return the_world;
}

std::shared_ptr<headroom::MpiReducer> outlives_mpi;

}  // namespace

extern "C" {
int MPI_Allreduce(const void* from, void* into, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  note(wire.reductions, count, type);
  return wire.breaks ? MPI_ERR_INTERN : PMPI_Allreduce(from, into, count, type, op, comm);
}
int MPI_Allgather(const void* from, int n, MPI_Datatype type, void* into, int m, MPI_Datatype t,
                  MPI_Comm comm) {
  note(wire.gathers, n, type);
  return wire.breaks ? MPI_ERR_INTERN : PMPI_Allgather(from, n, type, into, m, t, comm);
}
}

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using namespace headroom;
using support::bits_of;

namespace {

GradientSums sums_of_rank(int rank, std::mt19937 random) {
  random.discard(static_cast<unsigned>(rank) * 4ULL);
  if (random() % 5 == 0) return headroom::gradient_sums(headroom::detail::overflow());
  return {true, static_cast<double>(random() % 1000), static_cast<double>(random() % 1000)};
}
template <class F>
std::string reduction_error_of(const F& f) {
  try {
    f();
  } catch (const ReductionError& error) {
    return error.what();
  }
  return "";
}

using Shard = support::Owner<std::vector<support::Weights>>;

}  // namespace

TEST_CASE("all ranks get the same sums, from one all-gather of 24 bytes") {
  std::mt19937 random(support::seed);
  MpiReducer reducer((world(), MPI_COMM_WORLD));
  outlives_mpi = std::make_shared<MpiReducer>(reducer);
  for (int run = 0; run < 50; ++run, random()) {
    GradientSums expected;
    for (int rank = 0; rank < world().size; ++rank) {
      const GradientSums there = sums_of_rank(rank, random);
      expected.finite = expected.finite && there.finite;
      expected.max_abs = std::max(expected.max_abs, there.max_abs);
      expected.sum_of_squares += there.sum_of_squares;
    }
    wire = {};
    const GradientSums all = reducer(sums_of_rank(world().rank, random), 5);
    REQUIRE(all.finite == expected.finite);
    REQUIRE(bits_of(all.max_abs) == bits_of(expected.max_abs));
    REQUIRE(bits_of(all.sum_of_squares) == bits_of(expected.sum_of_squares));
    REQUIRE((wire.gathers == 1 && wire.bytes == 24 && wire.reductions == 0));
  }
}

TEST_CASE("a reducer adds in the order of ranks, so a resumed training gets the same norm") {
  std::mt19937 random(support::seed);
  MpiReducer old((world(), MPI_COMM_WORLD));
  int faults = 0;
  for (int run = 0; run < 400; ++run) {
    double expected = 0.0, own = 0.0;
    for (int rank = 0; rank < world().size; ++rank) {
      const double there = static_cast<double>(random()) / 3.0;
      expected += there;
      if (rank == world().rank) own = there;
    }
    MpiReducer fresh(MPI_COMM_WORLD);
    for (MpiReducer* reducer : {&old, &fresh}) {
      faults += bits_of((*reducer)({true, 1.0, own}).sum_of_squares) == bits_of(expected) ? 0 : 1;
    }
  }
  CHECK(faults == 0);
}

TEST_CASE("the largest of each amax over all ranks, from one all-reduce") {
  std::mt19937 random(support::seed);
  MpiReducer reducer((world(), MPI_COMM_WORLD));
  constexpr std::uint32_t infinity = headroom::binary32::infinity_bits;
  for (const std::size_t count : {0U, 1U, 7U, 1000U}) {
    std::vector<std::uint32_t> expected(count, 0), own;
    for (int rank = 0; rank < world().size; ++rank) {
      std::vector<std::uint32_t> there(count);  // a third is 0, Inf or subnormal
      for (std::uint32_t& bits : there) {
        bits = static_cast<std::uint32_t>(random() % (infinity + 1ULL));
        if (random() % 3 == 0) bits = random() % 2 == 0 ? bits % 5 : bits % 2 * infinity;
      }
      for (std::size_t i = 0; i < count; ++i) expected[i] = std::max(expected[i], there[i]);
      if (rank == world().rank) own = there;
    }
    auto largest = support::values_with<float>(own);
    wire = {};
    reducer(largest);
    CHECK(bits_of(largest) == expected);
    CHECK((wire.reductions == 1 && wire.bytes == static_cast<int>(4 * count)));
  }
}

TEST_CASE("replicas divide the number of ranks") {
  for (const int replicas : {0, -1, world().size + 1}) {
    const std::string expected = "replicas is " + std::to_string(replicas);
    CHECK_THAT(support::message_of([&] { MpiReducer reducer(MPI_COMM_WORLD, replicas); }),
               ContainsSubstring(expected));
  }
}

TEST_CASE("gradients that several ranks hold are counted once, in a policy and in a clip") {
  // Ranks as a grid: each column holds a shard, in as many replicas as there are rows.
  const int size = world().size, rows = size % 2 == 0 ? 2 : 1, columns = size / rows;
  const double own = 1.0 + world().rank % columns;  // the norm of a shard
  double squares = 0.0;
  for (int i = 1; i <= columns; ++i) squares += i * i;
  MpiReducer reducer(MPI_COMM_WORLD, rows);
  const DynamicLossScale policy;
  const GradientNorm norm = all_reduce(GradientNorm{{true, own}, own}, reducer, policy);
  CHECK((norm.finite && norm.max_abs == columns));
  CHECK(norm.norm == Approx(std::sqrt(squares)));
  const GradientReport report =
      all_reduce(GradientReport{world().rank != size - 1, own}, reducer, policy);
  CHECK((!report.finite && bits_of(report.max_abs) == headroom::binary64::infinity_bits));

  GradScaler<> scaler;
  scaler.set_reducer(reducer);
  Shard optimizer{{{static_cast<float>(own) * scaler.scale(1.0F)}}};
  CHECK(scaler.unscale_and_clip_(optimizer, 0.5).norm == norm.norm);
  CHECK(optimizer.grads[0][0] == Approx(own * 0.5 / norm.norm));
}

TEST_CASE("a rank in another state is an error on all ranks, which names it") {
  if (world().size < 2) return;
  const bool is_odd_one = world().rank == 1;
  const std::string size = std::to_string(world().size);
  const auto says_so =
      ContainsSubstring("out of step: 1 of " + size + " differ from rank 0, the first is rank 1;");
  MpiReducer reducer(MPI_COMM_WORLD);
  CHECK_THAT(reduction_error_of([&] { (void)reducer(GradientSums(), is_odd_one ? 8 : 7); }),
             says_so);
  CHECK(reducer(GradientSums(), 7).finite);  // the communicator still works
  MpiReducer other_replicas(MPI_COMM_WORLD, is_odd_one ? world().size : 1);
  CHECK_THAT(reduction_error_of([&] { (void)other_replicas(GradientSums()); }), says_so);
  const DynamicLossScale policy;
  const auto reduce = [&] {
    (void)all_reduce(GradientReport(), reducer, is_odd_one ? policy.adjust(true) : policy);
  };
  CHECK_THAT(reduction_error_of(reduce), says_so);

  GradScaler<> scaler;
  scaler.set_reducer(reducer);
  Shard one{{{scaler.scale(1.0F)}}}, two = one;
  (void)scaler.step(one);
  scaler.update();
  // An older checkpoint
  if (is_odd_one) scaler.load_state_dict(GradScaler<>().state_dict());
  one.grads = two.grads = {{scaler.scale(1.0F)}};
  CHECK_THAT(reduction_error_of([&] { (void)scaler.step(one); }), says_so);
  scaler.load_state_dict(GradScaler<>().state_dict());
  one.grads = {{scaler.scale(1.0F)}};
  (void)scaler.step(one);
  const auto go_on = [&] {
    if (!is_odd_one) (void)scaler.step(two);  // the odd one steps it one iteration later
    scaler.update();
    one.grads = {{scaler.scale(1.0F)}};
    (void)scaler.step(one);
  };
  CHECK_THAT(reduction_error_of(go_on), says_so);
}

TEST_CASE("an error that MPI returns is thrown") {
  MpiReducer reducer((world(), MPI_COMM_WORLD));
  wire.breaks = true;
  CHECK(reduction_error_of([&] { (void)reducer(GradientSums()); }) ==
        "headroom: MPI_Allgather failed");
  std::vector<float> amaxes{1.0F};
  CHECK(reduction_error_of([&] { reducer(amaxes); }) == "headroom: MPI_Allreduce failed");
  wire.breaks = false;
}

namespace {

/// Runs a policy on ranks that have gradients of their own, sometimes none, and sometimes with Inf.
/// Each rank also runs it alone with the gradients of all. Returns the number of differences.
template <class Policy>
int differences_in_run(const MpiReducer& reducer, const Policy& policy, std::uint32_t seed) {
  std::mt19937 random(seed);
  int faults = 0;
  GradScaler<Policy> alone(policy), scaler(policy);
  scaler.set_reducer(reducer);
  // It, too, steps without gradients
  alone.set_reducer([](const GradientSums& sums) { return sums; });
  const std::size_t optimizers = 1 + random() % 2;
  const double max_norm = random() % 2 == 0 ? 10.0 : 1e30;
  for (int step = 0; step < 8; ++step) {
    const float scale = alone.scale(1.0F);
    (void)scaler.scale(1.0F);
    std::vector<Shard> whole(optimizers), own = whole;
    for (std::size_t o = 0; o < optimizers; ++o) {
      for (int rank = 0; rank < world().size; ++rank) {
        for (std::size_t leaf = random() % 3; leaf > 0; --leaf) {
          support::Weights grads(random() % 4);
          for (float& grad : grads)
            grad = static_cast<float>(static_cast<int>(random() % 17) - 8) * scale;
          if (random() % 40 == 0 && !grads.empty()) grads[0] = support::infinity();
          whole[o].grads.push_back(grads);
          if (rank == world().rank) own[o].grads.push_back(std::move(grads));
        }
      }
      const GradientNorm expected = alone.unscale_and_clip_(whole[o], max_norm);
      const GradientNorm found = scaler.unscale_and_clip_(own[o], max_norm);
      const bool skips = alone.step(whole[o]).skipped, skipped = scaler.step(own[o]).skipped;
      const bool same_norm = expected.finite
                                 ? std::abs(found.norm - expected.norm) <= 1e-12 * expected.norm
                                 : !found.finite;
      faults += skipped == skips && same_norm && bits_of(found.max_abs) == bits_of(expected.max_abs)
                    ? 0
                    : 1;
      faults += own[o].steps == (skips ? 0 : 1) ? 0 : 1;
    }
    alone.update();
    scaler.update();
    faults += bits_of(scaler.get_scale()) == bits_of(alone.get_scale()) ? 0 : 1;
  }
  return faults;
}

}  // namespace

TEST_CASE("ranks decide alike: the scales are those of one process that sees all gradients") {
  std::mt19937 random(support::seed);
  const DynamicLossScale dynamic(LossScaleConfig{32768.0F, 3});
  const MpiReducer reducer((world(), MPI_COMM_WORLD));
  for (int run = 0; run < (support::is_exhaustive ? 1000 : 10); ++run) {
    CAPTURE(run);
    const auto seed = static_cast<std::uint32_t>(random());
    REQUIRE(differences_in_run(reducer, dynamic, seed) == 0);
    // Uses the magnitudes
    REQUIRE(differences_in_run(reducer, AmaxLossScale(), seed) == 0);
  }
}

TEST_CASE("ranks decide alike with the optimizers in other threads") {
  const int size = world().size;
  AsyncGradScaler<> scaler;
  scaler.configure([&](auto& settings) { settings.set_reducer(MpiReducer(MPI_COMM_WORLD)); });
  support::Stateless optimizer{{1.0F}};
  for (int step = 0; step < 20; ++step) {
    const bool overflows = step % 7 == 3, here = world().rank == step % size;
    const float gradient = scaler.scale(1.0F);
    support::Weights gradients{overflows && here ? support::infinity() : gradient};
    const bool skipped = scaler.submit_gradients(optimizer, std::move(gradients)).get().skipped;
    CHECK(skipped == overflows);
    scaler.update(false);
  }
  CHECK(optimizer.steps == 17);
  CHECK(scaler.get_scale() == DynamicLossScale().loss_scale() / 8.0F);
}

namespace {

/// Quantizes in several steps what this rank has of two tensors, and what all ranks have. Returns
/// the number of differences between their scales.
template <class Rule>
int differences_in_scales(MPI_Comm comm) {
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  using Tree = std::vector<std::vector<float>>;
  TensorScales<headroom::float8_e4m3, Rule> scales(Tree(2)), alone(Tree(2));
  scales.set_reducer(MpiReducer(comm));
  std::mt19937 random(support::seed);
  int faults = 0;
  for (int step = 0; step < 20; ++step) {
    Tree own(2), whole(2);
    for (int from = 0; from < size; ++from) {
      for (std::size_t leaf = 0; leaf < 2; ++leaf) {
        for (std::size_t left = random() % 3; left > 0; --left) {
          const float value =
              random() % 20 == 0 ? support::infinity() : static_cast<float>(random() % 1000);
          whole[leaf].push_back(value);
          if (from == rank) own[leaf].push_back(value);
        }
      }
    }
    (void)scales.quantize(own);
    (void)alone.quantize(whole);
    scales.update();
    alone.update();
    for (std::size_t leaf = 0; leaf < 2; ++leaf) {
      faults += bits_of(scales.scales()[leaf]) == bits_of(alone.scales()[leaf]) ? 0 : 1;
    }
  }
  return faults;
}

}  // namespace

TEST_CASE("the scales of tensors are those of one process that has all elements") {
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split((world(), MPI_COMM_WORLD), world().rank / 2, world().rank, &pair);
  for (const MPI_Comm comm : {MPI_COMM_WORLD, pair}) {
    wire = {};
    CHECK(differences_in_scales<DelayedScaling>(comm) == 0);
    CHECK(differences_in_scales<CurrentScaling>(comm) == 0);
    CHECK(wire.reductions == 2 * 20);
  }
  MPI_Comm_free(&pair);
}
