// With the headers in shim/, and NVIDIA's nccl.h if the compiler finds it. NCCL is replaced by two
// ranks in this process.

#include <headroom/gpu/nccl.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "support/catch.hpp"

namespace {
std::vector<void*> reduced;  // in the group of the first rank
int open_groups = 0;
ncclResult_t next_result = ncclSuccess;
}  // namespace

struct ncclComm {};
extern "C" {
ncclResult_t ncclGroupStart() { return ++open_groups, ncclSuccess; }
ncclResult_t ncclGroupEnd() { return --open_groups, ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t) { return "unhandled system error"; }
/// The second rank's call writes the result to both.
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t, cudaStream_t) {
  if (from != to || n != 1 || open_groups != 1 || next_result != ncclSuccess)
    return ncclSystemError;
  reduced.push_back(to);
  if (reduced.size() <= 2) return ncclSuccess;
  void* const other = reduced[reduced.size() - 3];
  if (type == ncclDouble && op == ncclSum) {
    auto *const a = static_cast<double*>(other), *const b = static_cast<double*>(to);
    *a = *b = *a + *b;
  }
  if (type == ncclUint64 && op == ncclMax) {
    auto *const a = static_cast<unsigned long long*>(other), *const b =
                                                                 static_cast<unsigned long long*>(
                                                                     to);
    *a = *b = std::max(*a, *b);
  }
  if (reduced.size() == 4) reduced.clear();
  return ncclSuccess;
}
}

namespace gpu = headroom::gpu;

TEST_CASE("gpu::all_reduce: two ranks decide alike, by the norm of both") {
  std::vector<float> grads[] = {std::vector<float>(1000), std::vector<float>(70)};
  const gpu::Gradients lists[] = {gpu::Gradients({{grads[0].data(), 1000}}),
                                  gpu::Gradients({{grads[1].data(), 70}})};
  const headroom::DynamicLossScale policy({1024.0F, 3});
  gpu::Scaler<> ranks[] = {gpu::Scaler<>(policy), gpu::Scaler<>(policy)};
  headroom::DynamicLossScale expected = policy;
  for (int step = 0; step < 20; ++step) {
    const int replicas = 1 + step % 2;
    const bool overflows = step % 7 >= 4;  // on one of the ranks
    const float scale = expected.loss_scale();
    for (std::size_t rank : {0U, 1U})
      std::fill(grads[rank].begin(), grads[rank].end(), scale * static_cast<float>(rank + 1));
    if (step % 7 == 6) *ranks[step % 2].inf_elsewhere() = 1.0F;
    if (overflows && step % 7 != 6) grads[step % 2][3] = std::numeric_limits<float>::infinity();
    for (std::size_t rank : {0U, 1U}) {
      ranks[rank].measure(lists[rank], nullptr);
      gpu::all_reduce(ranks[rank], nullptr, nullptr, replicas);
    }
    expected = expected.adjust(!overflows);
    for (gpu::Scaler<>& rank : ranks) {
      rank.update(nullptr);
      const auto last = rank.read(nullptr);
      CHECK((last.policy == expected && last.skipped == overflows));
      if (!last.skipped)
        CHECK((last.report.norm == std::sqrt((1000.0 + 4 * 70) / replicas) &&
               last.report.max_abs == 2.0));
    }
  }
  next_result = ncclSystemError;
  CHECK_THROWS_WITH(gpu::all_reduce(ranks[0], nullptr, nullptr),
                    "headroom: ncclAllReduce: unhandled system error");
  CHECK(open_groups == 0);
}
