#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/training/rank_report.hpp>
#include <headroom/training/reducer.hpp>

// The C++ bindings, which MPI 3 removed, and which compile only with warnings.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What adapters/mpi.hpp says to MPI.

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A call of MPI failed; what() is its name and MPI's own text.
class MpiError : public std::runtime_error {
 public:
  MpiError(const char* call, int code, const std::string& text)
      : std::runtime_error(std::string("headroom: ") + call + ": " + text), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

namespace detail::mpi {

inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  (void)MPI_Error_string(code, text, &size);
#if HEADROOM_EXCEPTIONS
  throw MpiError(call, code, std::string(text, static_cast<std::size_t>(size)));
#else
  throw_logic_error({call, ": ", text});
#endif
}

[[nodiscard]] inline bool is_running() noexcept {
  int is_initialized = 0, is_finalized = 0;
  return MPI_Initialized(&is_initialized) == MPI_SUCCESS && is_initialized != 0 &&
         MPI_Finalized(&is_finalized) == MPI_SUCCESS && is_finalized == 0;
}
/// Throws std::logic_error unless MPI is running, and std::invalid_argument for what is no group of ranks.
inline void check_communicator(MPI_Comm comm) {
  if (!is_running()) throw_logic_error({"MPI is not running: call MPI_Init_thread before, and this before MPI_Finalize"});
  if (comm == MPI_COMM_NULL) throw_invalid_argument({"the communicator is MPI_COMM_NULL, which has no ranks"});
  int is_inter = 0;
  check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0) throw_invalid_argument({"an intercommunicator, where two groups of ranks see each other's results"});
}

/// While it lives the errors of a communicator come back to the caller.
class ErrorsReturned {
 public:
  explicit ErrorsReturned(MPI_Comm comm) : comm_(comm) {
    check(MPI_Comm_get_errhandler(comm_, &before_), "MPI_Comm_get_errhandler");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  ErrorsReturned(const ErrorsReturned&) = delete;
  ErrorsReturned& operator=(const ErrorsReturned&) = delete;
  ~ErrorsReturned() {
    (void)MPI_Comm_set_errhandler(comm_, before_);
    (void)MPI_Errhandler_free(&before_);
  }

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

/// MPI's buffers need not be aligned.
inline void combine(void* from, void* into, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    const std::size_t offset = static_cast<std::size_t>(i) * sizeof(RankReport);
    RankReport report, sum;
    std::memcpy(&report, static_cast<const char*>(from) + offset, sizeof report);
    std::memcpy(&sum, static_cast<const char*>(into) + offset, sizeof sum);
    sum.combine(report);
    std::memcpy(static_cast<char*>(into) + offset, &sum, sizeof sum);
  }
}
/// RankReport and its `combine`, as MPI knows them. MPI_Finalize, which first of all deletes the attributes of MPI_COMM_SELF,
/// frees them.
struct Operation {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;

  Operation() {
    check(MPI_Type_contiguous(sizeof(RankReport) / sizeof(std::uint64_t), MPI_UINT64_T, &type), "MPI_Type_contiguous");
    check(MPI_Type_commit(&type), "MPI_Type_commit");
    check(MPI_Op_create(&combine, 1, &op), "MPI_Op_create");
    int key = MPI_KEYVAL_INVALID;
    check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &free, &key, nullptr), "MPI_Comm_create_keyval");
    check(MPI_Comm_set_attr(MPI_COMM_SELF, key, this), "MPI_Comm_set_attr");
    check(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
  }

 private:
  static int free(MPI_Comm, int, void* self, void*) {
    auto* const operation = static_cast<Operation*>(self);
    (void)MPI_Op_free(&operation->op);
    return MPI_Type_free(&operation->type);
  }
};
[[nodiscard]] inline const Operation& operation() {
  static Operation the_operation;
  return the_operation;
}

/// Whether this thread may call MPI now.
[[nodiscard]] inline bool may_call() noexcept {
  int level = MPI_THREAD_SINGLE, is_main = 1;
  if (!is_running() || MPI_Query_thread(&level) != MPI_SUCCESS) return false;
  return level >= MPI_THREAD_SERIALIZED || (MPI_Is_thread_main(&is_main) == MPI_SUCCESS && is_main != 0);
}
/// Throws std::logic_error where it may not.
inline void check_thread() {
  if (may_call()) return;
  throw_logic_error(
      {"MPI may be called only while it is running, and only by the thread that began it: call MPI_Init_thread with "
       "MPI_THREAD_MULTIPLE, or with MPI_THREAD_SERIALIZED if no two threads call MPI at the same time"});
}

/// A reduction that has been started. MPI knows the addresses of the reports until it has ended.
struct Reduction {
  Testimony here;
  RankReport all;
  MPI_Request request = MPI_REQUEST_NULL;
  bool is_complete = false;
};

/// What the reducers and reductions of one communicator share. Reductions are completed in the order they were started in,
/// whoever waits for them, so that all ranks meet again where one of them fails.
class Group {
 public:
  Group(MPI_Comm comm, int replicas) : replicas_(replicas) {
    check_communicator(comm);
    check_thread();
    const ErrorsReturned errors_returned(comm);
    check(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
    check_replicas(replicas, size_);
    for (MPI_Comm* const copy : {&reductions_, &explanations_}) {
      check(MPI_Comm_dup(comm, copy), "MPI_Comm_dup");
      check(MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    complete_all(nullptr);
    if (under_way_.empty() && may_call()) {
      (void)MPI_Comm_free(&reductions_);
      (void)MPI_Comm_free(&explanations_);
    } else {  // MPI has their addresses, and may never be done with them
      (void)new std::deque<std::shared_ptr<Reduction>>(std::move(under_way_));
    }
  }

  [[nodiscard]] std::shared_ptr<Reduction> start(const GradientSums& here, std::uint64_t digest) {
    const std::lock_guard<std::mutex> lock(mutex_);
    check_usable();
    return start({RankReport(here, digest_with(digest, static_cast<std::uint64_t>(replicas_)))});
  }
  /// Whether it is complete, or will be without waiting.
  [[nodiscard]] bool test(const Reduction& reduction) {
    const std::lock_guard<std::mutex> lock(mutex_);
    check_thread();
    while (!reduction.is_complete && !is_broken_) {
      int has_ended = 0;
      end(MPI_Test(&under_way_.front()->request, &has_ended, MPI_STATUS_IGNORE), "MPI_Test");
      if (has_ended == 0) return false;
      if (!under_way_.front()->all.agree()) return true;  // `wait` will say more
      complete_first();
    }
    return true;
  }
  [[nodiscard]] GradientSums wait(const Reduction& reduction) {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!reduction.is_complete) {
      check_usable();
      complete_first();
    }
    return reduction.all.sums(replicas_);
  }
  void fail(std::string_view why) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Testimony here(RankReport::failed(), why);
    complete_all(&here);
  }

 private:
  void check_usable() const {
    if (is_broken_) {
      throw_logic_error(
          {"the ranks of this MpiReducer are out of step: let all of them go on from a checkpoint, with another reducer"});
    }
    check_thread();
  }
  std::shared_ptr<Reduction> start(const Testimony& here) {
    const auto& [type, op] = operation();
    auto reduction = std::make_shared<Reduction>();
    reduction->here = here;
    reduction->here.started = ++started_;
    end(MPI_Iallreduce(&reduction->here.report, &reduction->all, 1, type, op, reductions_, &reduction->request),
        "MPI_Iallreduce");
    under_way_.push_back(reduction);
    return reduction;
  }
  /// Waits for the first reduction that is under way. Throws ReductionError if that finds ranks out of step.
  void complete_first() {
    const std::shared_ptr<Reduction> first = under_way_.front();
    end(MPI_Wait(&first->request, MPI_STATUS_IGNORE), "MPI_Wait");
    under_way_.pop_front();
    if (!first->all.agree()) throw_out_of_step(first->here);
    first->is_complete = true;
  }
  /// All ranks are here, having started the same reduction. Some may have started more: the others join those, so that nothing
  /// is under way in the end.
  void throw_out_of_step(Testimony here) {
    is_broken_ = true;
    here.started = started_;
    std::vector<Testimony> all(static_cast<std::size_t>(size_));
    check(MPI_Allgather(&here, sizeof here, MPI_BYTE, all.data(), sizeof here, MPI_BYTE, explanations_), "MPI_Allgather");
    for (const Testimony& rank : all) {
      while (started_ < rank.started) (void)start({RankReport::failed()});
    }
    for (; !under_way_.empty(); under_way_.pop_front()) {
      check(MPI_Wait(&under_way_.front()->request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    detail::throw_out_of_step(all);
  }
  /// Those that nobody has waited for, for the other ranks may be waiting for what this one says, and then one that says
  /// `failure`, unless it is null. Whatever is thrown, the caller has a better reason.
  void complete_all(const Testimony* failure) noexcept {
#if HEADROOM_EXCEPTIONS
    try {
#endif
      while (!is_broken_ && !under_way_.empty() && may_call()) complete_first();
      if (failure == nullptr || is_broken_ || !may_call()) return;
      (void)start(*failure);
      complete_first();
#if HEADROOM_EXCEPTIONS
    } catch (...) {
    }
#endif
  }
  void end(int code, const char* call) {
    if (code != MPI_SUCCESS) is_broken_ = true;
    check(code, call);
  }

  // Our own, so that nothing of ours meets the messages of others: for reductions, and for what is said if one fails.
  MPI_Comm reductions_ = MPI_COMM_NULL, explanations_ = MPI_COMM_NULL;
  int size_ = 0, replicas_;
  std::mutex mutex_;  // a reducer may be called by a thread of an AsyncGradScaler, and `fail` by another
  std::deque<std::shared_ptr<Reduction>> under_way_;
  std::uint64_t started_ = 0;
  bool is_broken_ = false;  // ranks were out of step, or MPI failed: nobody can say what the others do now
};

}  // namespace detail::mpi

}  // namespace HEADROOM_BUILD
}  // namespace headroom
