#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/training/rank_report.hpp>

// The C++ bindings, which MPI 3 has no more, and which compile only with warnings.
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
#include <stdexcept>
#include <string>
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
  throw_logic_error(std::string(call) + ": " + text);
#endif
}

[[nodiscard]] inline bool is_running() noexcept {
  int is_initialized = 0, is_finalized = 0;
  return MPI_Initialized(&is_initialized) == MPI_SUCCESS && is_initialized != 0 &&
         MPI_Finalized(&is_finalized) == MPI_SUCCESS && is_finalized == 0;
}
/// Throws std::logic_error unless MPI is running, and std::invalid_argument for what is no group of ranks.
inline void check_communicator(MPI_Comm comm) {
  if (!is_running()) throw_logic_error("MPI is not running: call MPI_Init_thread before, and this before MPI_Finalize");
  if (comm == MPI_COMM_NULL) throw_invalid_argument("the communicator is MPI_COMM_NULL, which has no ranks");
  int is_inter = 0;
  check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0) throw_invalid_argument("an intercommunicator, where two groups of ranks see each other's results");
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
/// RankReport and its `combine`, as MPI knows them; until MPI_Finalize.
struct Operation {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;

  Operation() {
    check(MPI_Type_contiguous(sizeof(RankReport) / sizeof(std::uint64_t), MPI_UINT64_T, &type), "MPI_Type_contiguous");
    check(MPI_Type_commit(&type), "MPI_Type_commit");
    check(MPI_Op_create(&combine, 1, &op), "MPI_Op_create");
  }
};
[[nodiscard]] inline const Operation& operation() {
  static const Operation the_operation;
  return the_operation;
}

/// Throws ReductionError. All ranks have to call it.
inline void throw_out_of_step(MPI_Comm comm, const Testimony& here, int size) {
  std::vector<Testimony> all(static_cast<std::size_t>(size));
  check(MPI_Allgather(&here, sizeof here, MPI_BYTE, all.data(), sizeof here, MPI_BYTE, comm), "MPI_Allgather");
  detail::throw_out_of_step(all);
}

/// What reductions over one communicator share.
struct Group {
  MPI_Comm comm = MPI_COMM_NULL;  // our own, so that nothing of ours meets the messages of others
  int size = 1, replicas = 1;
  bool is_threaded = true;  // MPI can be called from other threads than the one that began it
  bool is_over = false;     // ranks were out of step, or MPI failed: nobody can say what the others do now

  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (comm != MPI_COMM_NULL && is_running()) (void)MPI_Comm_free(&comm);
  }

  void check_usable() const {
    if (is_over) throw_logic_error("this MpiReducer has thrown before, so its ranks are not in step: make another one on all");
    int is_main = 1;
    if (!is_threaded) check(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
    if (is_main == 0) {
      throw_logic_error(
          "MPI may be called only by the thread that began it: call MPI_Init_thread with MPI_THREAD_MULTIPLE, or with "
          "MPI_THREAD_SERIALIZED if no two threads call MPI at the same time");
    }
  }
};

}  // namespace detail::mpi

}  // namespace HEADROOM_BUILD
}  // namespace headroom
