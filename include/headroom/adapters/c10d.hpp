#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/training/reducer.hpp>

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// A reducer for a process group of libtorch's c10d (1.13 or 2), for GradScaler::set_reducer, all_reduce and TensorScales: see
/// docs/distributed.md. Each call is one all-gather of 32 bytes; for TensorScales, of 4 bytes for each tensor.
///
/// All ranks get the same result. They must make the same calls in the same order, including all other calls on the group. Give
/// each AsyncGradScaler its own group. If a rank ends, the others get an exception of c10d. With Gloo they may get the signal
/// SIGPIPE: ignore it.
class C10dReducer {
 public:
  /// `group` may also be a single backend, such as ProcessGroupGloo. `replicas`: see MpiReducer. `device`: that of the tensors
  /// that the group sends; a GPU for NCCL. Throws std::invalid_argument if `group` is null or `replicas` does not divide its
  /// size.
  template <class ProcessGroup>
  explicit C10dReducer(c10::intrusive_ptr<ProcessGroup> group, int replicas = 1, at::Device device = at::kCPU)
      : replicas_(replicas), device_(device) {
    if (!group) detail::throw_invalid_argument({"C10dReducer: the process group is null"});
    detail::check_replicas(replicas, group->getSize());
    all_gather_ = [group = std::move(group)](const at::Tensor& own) {
      std::vector<at::Tensor> from = {own};
      std::vector<std::vector<at::Tensor>> into(1);
      for (int rank = 0; rank < group->getSize(); ++rank) into[0].push_back(at::empty_like(own));
      if (!group->allgather(into, from)->wait()) detail::throw_error<ReductionError>({"c10d: the all-gather was aborted"});
      return into[0];
    };
  }

  /// The sums over all ranks. Every rank throws ReductionError if the digests differ.
  GradientSums operator()(const GradientSums& here, std::uint64_t digest = 0) {
    const detail::RankMessage own(here, digest, replicas_);
    const at::Tensor message = at::empty({sizeof own / sizeof(std::int64_t)}, at::kLong);
    std::memcpy(message.data_ptr(), &own, sizeof own);
    detail::RankMessage all;
    std::vector<std::uint64_t> digests;
    for (const at::Tensor& sent : all_gather_(message.to(device_))) {  // in the order of ranks, so that all get the same bits
      detail::RankMessage rank;
      std::memcpy(&rank, sent.to(at::kCPU).data_ptr(), sizeof rank);
      all.combine(rank);
      digests.push_back(rank.digest);
    }
    if (!all.agree()) detail::throw_out_of_step(digests);
    return all.sums(replicas_);
  }
  /// Replaces each number by the largest of all ranks. It is at least 0, and not NaN. All ranks pass equally many numbers.
  void operator()(span<float> largest) {
    if (largest.empty()) return;
    const auto size = static_cast<std::int64_t>(largest.size());
    at::Tensor all = at::empty({size}, at::kInt);  // for the bits, which order like the numbers
    std::memcpy(all.data_ptr(), largest.data(), largest.size() * sizeof(float));
    for (const at::Tensor& sent : all_gather_(all.to(device_))) all = at::maximum(all, sent.to(at::kCPU));
    std::memcpy(largest.data(), all.data_ptr(), largest.size() * sizeof(float));
  }

 private:
  int replicas_;
  at::Device device_;
  std::function<std::vector<at::Tensor>(const at::Tensor&)> all_gather_;
};

HEADROOM_DETAIL_END_NAMESPACE
