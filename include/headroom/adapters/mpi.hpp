#pragma once

#include <headroom/dtype/span.hpp>
#include <headroom/training/reducer.hpp>

#define OMPI_SKIP_MPICXX 1   // leaves out the C++ bindings, which MPI 3 removed and
#define MPICH_SKIP_MPICXX 1  // which compile with warnings
#include <mpi.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail::mpi {

inline void combine(void* from, void* into, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<RankMessage*>(into)[i].combine(static_cast<const RankMessage*>(from)[i]);
}

/// Shared by the copies of a reducer.
struct Group {
  MPI_Comm comm = MPI_COMM_NULL;  // a duplicate, so that reductions do not meet the caller's collectives
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  int size = 0, replicas = 1;

  Group(MPI_Comm users, int count) : replicas(count) {
    MPI_Comm_size(users, &size);
    check_replicas(replicas, size);
    MPI_Comm_dup(users, &comm);
    MPI_Type_contiguous(sizeof(RankMessage) / sizeof(std::uint64_t), MPI_UINT64_T, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(&combine, 1, &op);
  }
  Group& operator=(Group&&) = delete;
  ~Group() {
    int is_finalized = 0;  // a scaler may outlive MPI_Finalize
    MPI_Finalized(&is_finalized);
    if (is_finalized != 0) return;
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
  }
};

}  // namespace detail::mpi

/// A reducer for an MPI communicator. Each call is one MPI_Allreduce of 32 bytes:
///
///     scaler.set_reducer(headroom::MpiReducer(MPI_COMM_WORLD));  // each rank has a part of the gradients
///     report = headroom::all_reduce(report, reducer, loss_scale);  // with a policy instead
///
/// For TensorScales it is one MPI_Allreduce of 4 bytes for each tensor.
///
/// All ranks must make the same calls in the same order. `finite` and `max_abs` are equal on all. The sum of squares is equal
/// if MPI adds in the same order on all ranks, which its standard recommends. A rank that cannot go on must call MPI_Abort, or
/// the others wait for it. Give each AsyncGradScaler its own reducer, and initialise MPI with MPI_THREAD_MULTIPLE.
class MpiReducer {
 public:
  /// Call this on every rank of the communicator, after MPI_Init. `replicas`: how many ranks hold the same gradient, from 1
  /// (each has a shard of the model) to the size of the communicator (after an all-reduce of the gradients). Only the norm
  /// depends on it. Throws std::invalid_argument if it does not divide the size.
  explicit MpiReducer(MPI_Comm comm, int replicas = 1) : group_(std::make_shared<detail::mpi::Group>(comm, replicas)) {}

  /// The sums over all ranks. Every rank throws ReductionError if the digests differ.
  GradientSums operator()(const GradientSums& here, std::uint64_t digest = 0) {
    const detail::RankMessage own(here, digest, group_->replicas);
    detail::RankMessage all;
    // A failure ends the job by default, but not if the communicator has MPI_ERRORS_RETURN.
    if (MPI_Allreduce(&own, &all, 1, group_->type, group_->op, group_->comm) != MPI_SUCCESS) {
      detail::throw_error<ReductionError>({"MPI_Allreduce failed"});
    }
    if (!all.agree()) {
      std::vector<std::uint64_t> digests(static_cast<std::size_t>(group_->size));
      MPI_Allgather(&own.digest, 1, MPI_UINT64_T, digests.data(), 1, MPI_UINT64_T, group_->comm);
      detail::throw_out_of_step(digests);
    }
    return all.sums(group_->replicas);
  }
  /// Replaces each number by the largest of all ranks. It is at least 0, and not NaN. All ranks pass equally many numbers.
  void operator()(span<float> largest) {
    // The bits, which order like the numbers. A comparison of floats may flush subnormals.
    if (MPI_Allreduce(MPI_IN_PLACE, largest.data(), static_cast<int>(largest.size()), MPI_INT32_T, MPI_MAX, group_->comm) !=
        MPI_SUCCESS) {
      detail::throw_error<ReductionError>({"MPI_Allreduce failed"});
    }
  }

 private:
  std::shared_ptr<detail::mpi::Group> group_;
};

HEADROOM_DETAIL_END_NAMESPACE
