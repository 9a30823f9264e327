#pragma once

#include <headroom/adapters/mpi/group.hpp>
#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/report.hpp>
#include <headroom/training/rank_report.hpp>
#include <headroom/training/reducer.hpp>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

// MPI, version 3 or later: one all-reduce of 32 bytes a decision. docs/distributed.md says what goes before and after it.

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A reduction that has been started; `wait` for its result on every rank. Destroyed before, it waits, without a result.
class MpiReduction {
 public:
  MpiReduction(MpiReduction&&) = default;
  MpiReduction& operator=(MpiReduction&&) = delete;
  ~MpiReduction() {
    if (messages_ != nullptr && is_under_way() && detail::mpi::is_running())
      (void)MPI_Wait(&messages_->request, MPI_STATUS_IGNORE);
  }

  /// Whether `wait` will return at once. Lets MPI go on with its work, so call it now and then. Throws MpiError.
  [[nodiscard]] bool test() {
    int is_done = 1;
    if (messages_ != nullptr && is_under_way()) end(MPI_Test(&messages_->request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    return is_done != 0;
  }
  /// The sums of all ranks. Throws ReductionError on every rank if they are out of step, MpiError if MPI fails, and
  /// std::logic_error the second time.
  GradientSums wait() {
    if (messages_ == nullptr) detail::throw_logic_error("wait: this reduction has been waited for already");
    if (is_under_way()) end(MPI_Wait(&messages_->request, MPI_STATUS_IGNORE), "MPI_Wait");
    const std::unique_ptr<Messages> messages = std::move(messages_);
    if (!messages->all.agree()) {
      group_->is_over = true;
      detail::mpi::throw_out_of_step(group_->comm, {messages->here}, group_->size);
    }
    return messages->all.sums(group_->replicas);
  }

 private:
  friend class MpiReducer;
  struct Messages {
    RankReport here, all;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  MpiReduction(std::shared_ptr<detail::mpi::Group> group, const RankReport& here)
      : group_(std::move(group)), messages_(new Messages{here, {}}) {
    const auto& [type, op] = detail::mpi::operation();
    end(MPI_Iallreduce(&messages_->here, &messages_->all, 1, type, op, group_->comm, &messages_->request), "MPI_Iallreduce");
  }
  [[nodiscard]] bool is_under_way() const noexcept { return messages_->request != MPI_REQUEST_NULL; }
  void end(int code, const char* call) {
    if (code != MPI_SUCCESS) group_->is_over = true;
    detail::mpi::check(code, call);
  }

  std::shared_ptr<detail::mpi::Group> group_;
  std::unique_ptr<Messages> messages_;  // null once it has been waited for; MPI knows their addresses
};

/// Combines what the ranks of a communicator found, by one all-reduce of 32 bytes a call:
///
///     headroom::MpiReducer reducer(MPI_COMM_WORLD);
///     scaler.set_reducer(reducer);                                      // or, with a policy:
///     loss_scale = loss_scale.adjust(all_reduce(report, reducer));
///
/// All ranks get the same answer, and call it as often as each other. Copies share one communicator of their own, which is
/// freed with the last of them. Errors of MPI are exceptions. A rank that throws something else before its reduction has to say
/// so by `fail`, or the others wait for it for ever. For an AsyncGradScaler, which calls it in a thread of its own, MPI needs
/// MPI_THREAD_MULTIPLE; MPI_THREAD_SERIALIZED will do if the other threads leave MPI alone meanwhile.
class MpiReducer {
 public:
  /// Every rank of the communicator has to call this. `replicas`: how many ranks hold the same gradient. 1 if each rank has
  /// gradients of its own (a shard of the model, or a part of the batch that is not summed over ranks), the size of the
  /// communicator if all have the same ones (after an all-reduce of the gradients, say), or something in between. It matters to
  /// the norm alone. Throws std::invalid_argument if it does not divide the size, or the communicator has no ranks;
  /// std::logic_error if MPI is not running; MpiError.
  explicit MpiReducer(MPI_Comm comm, int replicas = 1) : group_(std::make_shared<detail::mpi::Group>()) {
    using detail::mpi::check;
    detail::mpi::check_communicator(comm);
    check(MPI_Comm_dup(comm, &group_->comm), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(group_->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_size(group_->comm, &group_->size), "MPI_Comm_size");
    detail::check_replicas(replicas, group_->size);
    group_->replicas = replicas;
    int level = MPI_THREAD_SINGLE;
    check(MPI_Query_thread(&level), "MPI_Query_thread");
    group_->is_threaded = level >= MPI_THREAD_SERIALIZED;
  }

  /// The sums of all ranks. If their digests differ, every rank throws ReductionError, which names those that differ.
  GradientSums operator()(const GradientSums& here, std::uint64_t digest = 0) { return start(here, digest).wait(); }
  /// Begins it, so that other work can be done before its `wait`. Reductions of a group end in the order they are started in.
  [[nodiscard]] MpiReduction start(const GradientSums& here, std::uint64_t digest = 0) {
    group_->check_usable();
    return {group_, RankReport(here, digest)};
  }

  /// Where a rank cannot go on: takes part in the reduction that the others are in, or will get to, so that each of them throws
  /// ReductionError with the rank and (of up to 223 characters) the reason. Does nothing after a reduction has thrown, for then
  /// the others know. Call it in a catch block around the training loop.
  void fail(std::string_view why) noexcept {
    if (group_->is_over || !detail::mpi::is_running()) return;
#if HEADROOM_EXCEPTIONS
    try {
#endif
      group_->check_usable();
      const detail::Testimony here(RankReport::failed(), why);
      MpiReduction reduction(group_, here.report);
      reduction.end(MPI_Wait(&reduction.messages_->request, MPI_STATUS_IGNORE), "MPI_Wait");
      group_->is_over = true;
      detail::mpi::throw_out_of_step(group_->comm, here, group_->size);
#if HEADROOM_EXCEPTIONS
    } catch (...) {  // whatever it is, the caller has a better reason
    }
#endif
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
  const detail::mpi::ErrorsReturned errors_returned(comm);
  const detail::Testimony own(RankReport(here, digest));
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
