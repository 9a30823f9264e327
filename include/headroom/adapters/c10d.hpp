#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/report.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/training/rank_report.hpp>
#include <headroom/training/reducer.hpp>

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

// libtorch's c10d, 1.13 or 2, over Gloo (with which it is tested), or whatever else can all-gather: one all-gather of 32 bytes
// of each rank a decision. docs/distributed.md says what goes before and after it.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail::c10d {

/// What reductions over one process group share.
struct Group {
  std::mutex mutex;  // a reducer may be called by a thread of an AsyncGradScaler, and `fail` by another
  std::function<void(std::vector<std::vector<at::Tensor>>&, std::vector<at::Tensor>&)> all_gather;
  int size = 1, replicas = 1;
  at::Device device{at::kCPU};
  bool is_broken = false;  // ranks were out of step, or c10d failed: nobody can say what the others do now

  /// The message of each rank, in their order.
  template <class Message>
  [[nodiscard]] std::vector<Message> gather(const Message& here) {
    constexpr std::size_t words = sizeof(Message) / sizeof(std::int64_t);
    static_assert(sizeof(Message) == words * sizeof(std::int64_t));
    const at::Tensor own = at::empty({static_cast<std::int64_t>(words)}, at::kLong);
    std::memcpy(own.data_ptr(), &here, sizeof here);
    std::vector<at::Tensor> from = {own.to(device)};
    std::vector<std::vector<at::Tensor>> into(1);
    for (int rank = 0; rank < size; ++rank) into[0].push_back(at::empty_like(from[0]));
    is_broken = true;  // if it throws
    all_gather(into, from);
    is_broken = false;
    std::vector<Message> all(into[0].size());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const at::Tensor message = into[0][rank].to(at::kCPU);
      std::memcpy(&all[rank], message.data_ptr(), sizeof(Message));
    }
    return all;
  }
  /// Of all ranks. They are combined in the order of the ranks, so that all get the same bits.
  [[nodiscard]] RankReport reduce(const RankReport& here) {
    RankReport all;
    for (const RankReport& report : gather(here)) all.combine(report);
    return all;
  }
  /// Throws ReductionError. All ranks have to call it.
  void throw_out_of_step(const Testimony& here) {
    const std::vector<Testimony> all = gather(here);
    is_broken = true;
    detail::throw_out_of_step(all);
  }
};

}  // namespace detail::c10d

/// Combines what the ranks of a c10d process group found:
///
///     headroom::C10dReducer reducer(group);                             // a c10::intrusive_ptr<c10d::ProcessGroup>
///     scaler.set_reducer(reducer);                                      // or, with a policy:
///     loss_scale = loss_scale.adjust(all_reduce(report, reducer, loss_scale));
///
/// All ranks get the same answer. Each has to call it equally often, and in the same order as everything else on that group: an
/// AsyncGradScaler needs a group of its own. Copies share one state. c10d's exceptions pass through; over Gloo, ignore SIGPIPE,
/// which may come instead of one where a rank is gone. A rank that throws before its reduction has to say so by `fail`, or the
/// others wait until c10d's own time limit; call `finish` after the last one, for the same reason.
class C10dReducer {
 public:
  /// `group` may also be one of a single backend, as ProcessGroupGloo is since libtorch 2. `replicas`: how many ranks hold the
  /// same gradient, from 1 (each has a shard of the model) to the size of the group (as after an all-reduce of the gradients).
  /// It matters to the norm alone. `device`: of the tensors that the group sends; a GPU for NCCL. Throws std::invalid_argument
  /// if `group` is null, or `replicas` does not divide its size.
  template <class ProcessGroup>
  explicit C10dReducer(c10::intrusive_ptr<ProcessGroup> group, int replicas = 1, at::Device device = at::kCPU)
      : group_(std::make_shared<detail::c10d::Group>()) {
    if (!group) detail::throw_invalid_argument({"C10dReducer: the process group is null"});
    group_->size = group->getSize();
    detail::check_replicas(replicas, group_->size);
    group_->replicas = replicas;
    group_->device = device;
    group_->all_gather = [group = std::move(group)](auto& into, auto& from) {
      if (!group->allgather(into, from)->wait()) detail::throw_reduction_error("c10d: the all-gather was aborted");
    };
  }

  /// The sums of all ranks. If their digests differ, or one has failed, every rank throws ReductionError, which names those;
  /// after that, or an error of c10d, each call throws std::logic_error.
  GradientSums operator()(const GradientSums& here, std::uint64_t digest = 0) {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    if (group_->is_broken) {
      detail::throw_logic_error(
          {"the ranks of this C10dReducer are out of step: let all of them go on from a checkpoint, with another reducer"});
    }
    const RankReport own(here, detail::digest_with(digest, static_cast<std::uint64_t>(group_->replicas)));
    const RankReport all = group_->reduce(own);
    if (!all.agree()) group_->throw_out_of_step({own});
    return all.sums(group_->replicas);
  }

  /// Call it after the last decision: returns when all ranks have got that far. If one is still to decide, or has failed, every
  /// rank throws ReductionError.
  void finish() { (void)(*this)(GradientSums(), detail::digest_of_the_end); }

  /// Where a rank cannot go on: takes part in the reduction that the others are in or will get to, so that each of them throws
  /// ReductionError with the rank and the reason (of up to 215 characters). It waits for them, so their next common call has to
  /// be a reduction of this reducer. Does nothing once the ranks are known to be out of step.
  void fail(std::string_view why) noexcept {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    if (group_->is_broken) return;
    try {
      const detail::Testimony here(RankReport::failed(), why);
      (void)group_->reduce(here.report);
      group_->throw_out_of_step(here);
    } catch (...) {  // whatever it is, the caller has a better reason
    }
  }

 private:
  std::shared_ptr<detail::c10d::Group> group_;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
