#pragma once

#include <headroom/adapters/mpi/group.hpp>
#include <headroom/config.hpp>
#include <headroom/report.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/training/rank_report.hpp>
#include <headroom/training/reducer.hpp>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

// MPI, version 3 or later: one all-reduce of 32 bytes a decision. docs/distributed.md says what goes before and after it.

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A reduction that has been started. Dropped, it is waited for by the next call that has to, or with the last copy of its
/// reducer.
class MpiReduction {
 public:
  /// Whether `wait` will return, or throw, without waiting for a reduction. Lets MPI go on with its work, so call it now and
  /// then. Throws MpiError.
  [[nodiscard]] bool test() const { return group_->test(*reduction_); }
  /// The sums of all ranks, after all reductions that were started before. Throws ReductionError on every rank if they are out
  /// of step, MpiError if MPI fails, and std::logic_error if either has been thrown before.
  GradientSums wait() const { return group_->wait(*reduction_); }

 private:
  friend class MpiReducer;
  MpiReduction(std::shared_ptr<detail::mpi::Group> group, std::shared_ptr<detail::mpi::Reduction> reduction)
      : group_(std::move(group)), reduction_(std::move(reduction)) {}

  std::shared_ptr<detail::mpi::Group> group_;
  std::shared_ptr<const detail::mpi::Reduction> reduction_;
};

/// Combines what the ranks of a communicator found, by one all-reduce of 32 bytes a call:
///
///     headroom::MpiReducer reducer(MPI_COMM_WORLD);                     // each rank has a part of the gradients
///     scaler.set_reducer(reducer);                                      // or, with a policy:
///     loss_scale = loss_scale.adjust(all_reduce(report, reducer, loss_scale));
///
/// All ranks get the same answer. Each has to call it equally often, and to destroy its reducers in the same order. Copies
/// share communicators of their own, which are freed with the last of them. A rank that throws before its reduction has to say
/// so, by `fail` or by MPI_Abort, or the others wait for it for ever; call `finish` after the last one, for the same reason.
/// Each AsyncGradScaler needs a reducer of its own, and MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED if the other threads
/// leave MPI alone meanwhile.
class MpiReducer {
 public:
  /// Every rank of the communicator has to call this, with the same `replicas`: how many ranks hold the same gradient, from 1
  /// (each has a shard of the model) to the size of the communicator (as after an all-reduce of the gradients). It matters to
  /// the norm alone. Throws std::invalid_argument if it does not divide the size, or the communicator has no ranks;
  /// std::logic_error if MPI is not running, or this thread must not call it; MpiError.
  explicit MpiReducer(MPI_Comm comm, int replicas = 1) : group_(std::make_shared<detail::mpi::Group>(comm, replicas)) {}

  /// The sums of all ranks. If their digests differ, or one has failed, every rank throws ReductionError, which names those;
  /// further calls throw std::logic_error. MpiError where MPI fails: the other ranks may not know of it, so call MPI_Abort.
  GradientSums operator()(const GradientSums& here, std::uint64_t digest = 0) { return start(here, digest).wait(); }
  /// Begins it, so that other work can be done before its `wait`. All ranks start the reductions of a reducer in one order.
  [[nodiscard]] MpiReduction start(const GradientSums& here, std::uint64_t digest = 0) {
    return {group_, group_->start(here, digest)};
  }
  /// Call it after the last decision: returns when all ranks have got that far. If one is still to decide, or has failed, every
  /// rank throws ReductionError.
  void finish() { (void)(*this)(GradientSums(), detail::digest_of_the_end); }

  /// Where a rank cannot go on: takes part in the reduction that the others are in or will get to, so that each of them throws
  /// ReductionError with the rank and the reason (of up to 215 characters). It waits for them, so their next common call has to
  /// be a reduction of this reducer. Does nothing once the ranks are known to be out of step.
  void fail(std::string_view why) noexcept { group_->fail(why); }

 private:
  std::shared_ptr<detail::mpi::Group> group_;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
