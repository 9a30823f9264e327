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
///     loss_scale = loss_scale.adjust(all_reduce(report, reducer));
///
/// All ranks get the same answer, and call it as often as each other. Copies share one communicator of their own, which is
/// freed with the last of them. Errors of MPI are exceptions. A rank that throws something else before its reduction has to say
/// so by `fail`, or the others wait for it for ever; hence `finish` behind the last one. For an AsyncGradScaler, which calls it
/// in a thread of its own, MPI needs MPI_THREAD_MULTIPLE; MPI_THREAD_SERIALIZED will do if the other threads leave MPI alone
/// meanwhile. Give each AsyncGradScaler a reducer of its own, for their threads keep no common order.
class MpiReducer {
 public:
  /// Every rank of the communicator has to call this, with the same `replicas`: how many ranks hold the same gradient. 1 if
  /// each rank has gradients of its own (a shard of the model), the size of the communicator if all have the same ones (after
  /// an all-reduce of the gradients, say), or something in between. It matters to the norm alone. Throws std::invalid_argument
  /// if it does not divide the size, or the communicator has no ranks; std::logic_error if MPI is not running, or this thread
  /// must not call it; MpiError.
  explicit MpiReducer(MPI_Comm comm, int replicas = 1) : group_(std::make_shared<detail::mpi::Group>(comm, replicas)) {}

  /// The sums of all ranks. If their digests differ, every rank throws ReductionError, which names those that differ.
  GradientSums operator()(const GradientSums& here, std::uint64_t digest = 0) { return start(here, digest).wait(); }
  /// Begins it, so that other work can be done before its `wait`. All ranks start the reductions of a reducer in one order.
  [[nodiscard]] MpiReduction start(const GradientSums& here, std::uint64_t digest = 0) {
    return {group_, group_->start(here, digest)};
  }
  /// Call it behind the last decision: returns when all ranks have come as far. A rank that is still to decide, or that has
  /// failed, is a ReductionError on all.
  void finish() { (void)(*this)(GradientSums(), detail::digest_with(detail::first_digest, "finish")); }

  /// Where a rank cannot go on: takes part in the reduction that the others are in, or will get to, so that each of them throws
  /// ReductionError with the rank and (of up to 223 characters) the reason. Does nothing after a reduction has thrown, for then
  /// the others know. Call it in a catch block around the training loop.
  void fail(std::string_view why) noexcept {
    if (detail::mpi::is_running()) group_->fail(why);
  }

 private:
  std::shared_ptr<detail::mpi::Group> group_;
};

/// What all ranks found, for a policy: `loss_scale.adjust(all_reduce(report, reducer))`.
[[nodiscard]] inline GradientReport all_reduce(const GradientReport& here, MpiReducer& reducer, std::uint64_t digest = 0) {
  return detail::norm_of_all({here}, reducer(gradient_sums(here), digest));
}
[[nodiscard]] inline GradientNorm all_reduce(const GradientNorm& here, MpiReducer& reducer, std::uint64_t digest = 0) {
  return detail::norm_of_all(here, reducer(gradient_sums(here), digest));
}

/// The same without a reducer, over a communicator of the caller's, which nobody else may use meanwhile. Throws as MpiReducer
/// does.
[[nodiscard]] inline GradientSums all_reduce(const GradientSums& here, MPI_Comm comm, int replicas = 1,
                                             std::uint64_t digest = 0) {
  detail::mpi::check_communicator(comm);
  detail::mpi::check_thread();
  const detail::mpi::ErrorsReturned errors_returned(comm);
  const detail::Testimony own(RankReport(here, detail::digest_with(digest, static_cast<std::uint64_t>(replicas))));
  RankReport all;
  const auto& [type, op] = detail::mpi::operation();
  int size = 1;
  detail::mpi::check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  detail::check_replicas(replicas, size);
  detail::mpi::check(MPI_Allreduce(&own.report, &all, 1, type, op, comm), "MPI_Allreduce");
  if (!all.agree()) detail::mpi::throw_out_of_step(comm, own, size);
  return all.sums(replicas);
}
[[nodiscard]] inline GradientReport all_reduce(const GradientReport& here, MPI_Comm comm) {
  return detail::norm_of_all({here}, all_reduce(gradient_sums(here), comm));
}
[[nodiscard]] inline GradientNorm all_reduce(const GradientNorm& here, MPI_Comm comm, int replicas = 1) {
  return detail::norm_of_all(here, all_reduce(gradient_sums(here), comm, replicas));
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
