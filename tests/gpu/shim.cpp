// What the headers in shim/ notice of a kernel's errors.
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"

namespace {
template <class... Parameters>
void launch(void (*kernel)(Parameters...), unsigned threads, Parameters... arguments) {
  void* addresses[] = {&arguments...};
  cudaLaunchKernel(kernel, 1, threads, addresses, 0, nullptr);
}
/// All copy a number of the first thread, which then clears it.
template <bool waits>
__global__ void copy_kernel(unsigned number, unsigned* copies) {
  __shared__ unsigned shared;
  if (threadIdx.x == 0) shared = number;
  __syncthreads();
  copies[threadIdx.x] = shared;
  if (waits) __syncthreads();
  if (threadIdx.x == 0) shared = 0;
}
/// Launches, of 100, whose copies are not all right.
template <bool waits>
int wrong_launches() {
  int wrong = 0;
  for (unsigned number = 1; number <= 100; ++number) {
    std::vector<unsigned> copies(96);
    launch(copy_kernel<waits>, 96, number, copies.data());
    wrong += copies == std::vector<unsigned>(96, number) ? 0 : 1;
  }
  return wrong;
}
__global__ void vote_kernel(unsigned only, unsigned* counts) {
  if (threadIdx.x % 32 >= 30) return;
  if (__any_sync(0x3FFFFFFFU, threadIdx.x == only) == 0) return;
  atomicAdd(counts, 1U);
  atomicMin(counts + 1, threadIdx.x);
}
}  // namespace

TEST_CASE("shim: a missing barrier shows, a missing thread does not vote") {
  CHECK(wrong_launches<true>() == 0);
  CHECK(wrong_launches<false>() > 20);

  unsigned counts[2] = {0, 1000};
  launch(vote_kernel, 96, 45U, &counts[0]);
  CHECK((counts[0] == 30 && counts[1] == 32));
}
#if !defined(__clang__)  // clang 14 does not check loads of whole structs
namespace {
struct alignas(4) Pair {  // which no CPU needs aligned
  std::uint16_t values[2];
};
__global__ void load_kernel(const std::uint16_t* from, Pair* to) {
  *to = *reinterpret_cast<const Pair*>(from);
}
}  // namespace
TEST_CASE("shim: a misaligned load ends the program") {
  alignas(4) const std::uint16_t values[3] = {};
  const auto status_of_load = [](const std::uint16_t* from) {
    const pid_t child = fork();
    if (child == 0) {
      close(STDERR_FILENO);
      Pair to;
      launch(load_kernel, 1, from, &to);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  };
  CHECK(status_of_load(values) == 0);
  CHECK(status_of_load(values + 1) != 0);
}
#endif
