// The cost of a common decision of ranks: microseconds of a reduction by MpiReducer, of other ways
// to the same decision, and of the cheapest MPI call. Prints a column of a table; with the argument
// `names`, also the first columns.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <headroom/adapters/mpi.hpp>
#include <string>
#include <vector>

namespace {

constexpr int tensors = 100;

struct Way {
  const char* name;
  std::function<void()> decide;
};

// Microseconds for each call on the slowest rank: the median of many rounds, with a barrier between
// them.
double microseconds(const Way& way, int calls) {
  constexpr int rounds = 51;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < calls; ++i) way.decide();
    const double here = (MPI_Wtime() - begin) * 1e6 / calls;
    double slowest = 0.0;
    MPI_Allreduce(&here, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    times.push_back(slowest);
  }
  std::sort(times.begin(), times.end());
  return times[rounds / 2];
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int size = 0, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    const headroom::GradientSums sums{true, 1.0 + rank, 1.0};
    headroom::MpiReducer reducer(MPI_COMM_WORLD);
    std::vector<char> messages(static_cast<std::size_t>(size) * 24);
    const Way ways[] = {
        {"MpiReducer", [&] { (void)reducer(sums, 7); }},
        {"MPI_Allreduce of 4 doubles",
         [] {
           const double here[4] = {};
           double all[4];
           MPI_Allreduce(here, all, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
         }},
        {"MPI_Allgather of 24 bytes",  // all of MpiReducer's work but the sum
         [&] {
           const char here[24] = {};
           MPI_Allgather(here, 24, MPI_BYTE, messages.data(), 24, MPI_BYTE, MPI_COMM_WORLD);
         }},
        {"MPI_Allreduce for each of 100 tensors",
         [] {
           for (int tensor = 0; tensor < tensors; ++tensor) {
             const float here = 0.0F;
             float all = 0.0F;
             MPI_Allreduce(&here, &all, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
           }
         }},
    };
    // %.0s prints nothing.
    const bool prints_names = argc > 1 && std::strcmp(argv[1], "names") == 0;
    if (rank == 0)
      std::printf(prints_names ? "%-40s%11d\n" : "%.0s%11d\n",
                  "Microseconds of a decision, by ranks", size);
    for (const Way& way : ways) {
      const double time = microseconds(way, std::strstr(way.name, "100") != nullptr ? 5 : 200);
      if (rank == 0) std::printf(prints_names ? "  %-38s%11.1f\n" : "%.0s%11.1f\n", way.name, time);
    }
  }
  MPI_Finalize();
}
