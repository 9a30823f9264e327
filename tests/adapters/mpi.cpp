// Run by mpirun with up to 8 ranks; each rank goes through all test cases in the same order. With one rank everything holds
// too.

#include <headroom/adapters/mpi.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
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
  int reductions = 0, others = 0;
  long bytes = 0;
  bool breaks = false;
} wire;

/// From the first test to the end of the program.
struct Environment {
  int rank = 0, size = 1;
  Environment() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
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
int MPI_Allreduce(const void* from, void* into, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int size = 0;
  MPI_Type_size(type, &size);
  ++wire.reductions;
  wire.bytes += count * size;
  return wire.breaks ? MPI_ERR_INTERN : PMPI_Allreduce(from, into, count, type, op, comm);
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
}  // namespace

TEST_CASE("all ranks get the same sums, from one reduction of 32 bytes") {
  std::mt19937 random(support::seed);
  MpiReducer reducer(world().size > 0 ? MPI_COMM_WORLD : MPI_COMM_NULL);
  for (int run = 0; run < 300; ++run) {
    const GradientSums here = sums_of_rank(world().rank, random), expected = expected_sums(world().size, random);
    wire = {};
    REQUIRE(equal(reducer(here, 5), expected));
    REQUIRE(equal(headroom::all_reduce(here, MPI_COMM_WORLD), expected));
    REQUIRE(wire.reductions == 2);
    REQUIRE(wire.bytes == 64);
    REQUIRE(wire.others == 0);
    random();
  }
}
