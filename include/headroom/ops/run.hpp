#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/action.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/plan.hpp>
#include <headroom/ops/strided.hpp>

#include <cstddef>
#include <limits>
#include <memory>

// A pass of a kernel over a plan, by one thread or several, with the same bits as result: magnitudes do not depend on the
// order, and squares are summed as `measure` in kernel/measure.inl says, and the sums in the order of the tree.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

// ---- a thread's share ----

/// The sums of squares of groups.
using Sums = Buffer<double, 32>;

/// The groups that begin at bytes [begin, end) of a plan. A group is as many pieces of a run as have no more than `chunk_size`
/// elements together, or a chunk of a longer piece: what has one sum of squares. With `sums`, the sum of each group goes there.
class Share {
 public:
  static constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();

  Share(const Plan& plan, const Pass& pass, std::size_t begin, std::size_t end, Sums* sums)
      : plan_(plan), pass_(pass), isa_(isa_index()), begin_(begin), end_(end), sums_(sums) {}

  [[nodiscard]] Found run() {
    for (const Plan::Run& run : plan_.runs()) {
      const std::size_t op = run.depth == 0 ? pass_.op + pass_.streaming : pass_.op;  // else from and to a small buffer
      const Kernel kernel = run.kind->kernels[op][isa_];
      const Piece* const last = plan_.end(run);
      for (const Piece *piece = plan_.begin(run), *behind; piece != last && position_ < end_ && !is_done(); piece = behind) {
        behind = run.depth == 0 ? end_of_group(piece, last) : piece;
        if (behind == piece) {
          add_chunks(run, *behind++, kernel);
        } else if (end_ == everything) {
          kernel(piece, behind, pass_.factor, found_);
        } else {
          add_group(run, piece, behind, kernel);
        }
      }
    }
    return found_;
  }

 private:
  [[nodiscard]] bool is_done() const noexcept { return pass_.may_stop && !is_finite(found_); }
  /// Whether the next so many bytes are of this share.
  [[nodiscard]] bool takes(std::size_t bytes) noexcept {
    const bool takes = begin_ <= position_ && position_ < end_;
    position_ += bytes;
    return takes;
  }
  /// One thread that must not stop early takes all pieces in one call.
  [[nodiscard]] const Piece* end_of_group(const Piece* piece, const Piece* last) const noexcept {
    if (end_ == everything && !pass_.may_stop) return last;
    for (std::size_t n = 0; piece != last && n + piece->size <= chunk_size; ++piece) n += piece->size;
    return piece;
  }
  void add_group(const Plan::Run& run, const Piece* piece, const Piece* last, Kernel kernel) {
    std::size_t bytes = 0;
    for (const Piece* each = piece; each != last; ++each) bytes += each->size * run.bytes_each(*each);
    if (!takes(bytes)) return;
    Found group{0, 0.0};
    kernel(piece, last, pass_.factor, group);
    add(group);
  }
  void add_chunks(const Plan::Run& run, const Piece& piece, Kernel kernel) {
    for (std::size_t begin = 0; begin < piece.size; begin += chunk_size) {
      const std::size_t n = piece.size - begin < chunk_size ? piece.size - begin : chunk_size;
      if (!takes(n * run.bytes_each(piece)) || is_done()) continue;
      Found chunk{0, 0.0};
      run_part(plan_, run, piece, pass_, kernel, begin, begin + n, chunk);
      add(chunk);
    }
  }
  void add(const Found& group) {
    add_largest(found_, group.largest);
    if (sums_ == nullptr) return add_to_sum(found_, group.sum_of_squares);
    sums_->push_back(group.sum_of_squares);
  }

  const Plan& plan_;
  const Pass& pass_;
  std::size_t isa_, begin_, end_;
  Sums* sums_;
  std::size_t position_ = 0;
  Found found_{0, 0.0};
};

// ---- several threads ----

/// With fewer bytes than this, a thread is not worth waking up.
inline constexpr std::size_t least_share = std::size_t{1} << 19;

/// How many shares so many bytes are worth: 1, or up to one for each thread.
template <class Executor>
[[nodiscard]] std::size_t count_shares(const Executor& executor, std::size_t bytes) {
  const std::size_t threads = executor.concurrency(), worth_it = bytes / least_share;
  const std::size_t count = threads < worth_it ? threads : worth_it;
  return count > 1 ? count : 1;
}

template <class Executor>
[[nodiscard]] Found run_shares(const Executor& executor, const Plan& plan, const Pass& pass, std::size_t bytes,
                               std::size_t count) {
  struct alignas(64) Result {  // several threads write to them, each to a cache line of its own
    Found found{0, 0.0};
    Sums sums;
  };
  (void)isa_index();  // chosen here, where an error can be thrown
  const std::unique_ptr<Result[]> results(new Result[count]);
  executor.run(count, [&, share = bytes / count](std::size_t i) {
    const std::size_t end = i + 1 == count ? Share::everything - 1 : share * (i + 1);
    results[i].found = Share(plan, pass, share * i, end, &results[i].sums).run();
  });
  Found all{0, 0.0};
  for (std::size_t i = 0; i < count; ++i) {
    add_largest(all, results[i].found.largest);
    for (const double sum : results[i].sums) add_to_sum(all, sum);
  }
  return all;
}

template <class Executor>
[[nodiscard]] Found run(const Executor& executor, const Plan& plan, const Pass& pass) {
  if constexpr (check_is_executor<Executor>()) {
    if (executor.concurrency() > 1) {
      const std::size_t bytes = plan.bytes(), count = detail::count_shares(executor, bytes);
      if (count > 1) return detail::run_shares(executor, plan, pass, bytes, count);
    }
  }
  return Share(plan, pass, 0, Share::everything, nullptr).run();
}

/// Calls f(i, begin, end) for that many shares of the elements of a plan, which are numbered through all leaves.
template <class Executor, class F>
void share_elements(const Executor& executor, const Plan& plan, std::size_t shares, const F& f) {
  const std::size_t elements = plan.elements(), each = elements / shares;
  const auto run_share = [&](std::size_t i) { f(i, each * i, i + 1 == shares ? elements : each * (i + 1)); };
  if (shares == 1) return run_share(0);
  Job<const decltype(run_share)> job(run_share);  // an executor of the user's need not know about errors
  executor.run(shares, [&job](std::size_t i) { job.call(&job, i); });
  job.throw_error();
}
/// Calls f(run, piece, from, to) for the elements of each leaf, numbered by themselves, that are among [begin, end) of a plan.
template <class F>
void for_each_part(const Plan& plan, std::size_t begin, std::size_t end, const F& f) {
  std::size_t position = 0;  // of the leaf
  for (const Plan::Run& run : plan.runs()) {
    const Piece* const last = plan.end(run);
    for (const Piece* piece = plan.begin(run); piece != last && position < end; position += piece++->size) {
      const std::size_t from = begin > position ? begin - position : 0;
      const std::size_t to = end - position < piece->size ? end - position : piece->size;
      if (from < to) f(run, *piece, from, to);
    }
  }
}

// ---- a whole verb ----

/// Takes the place of a plan for a single small leaf.
struct LonePiece {
  Piece piece;
  const PieceKind* kind;

  void add(const void* source, void* destination, std::size_t size, const PieceKind& its_kind) noexcept {
    piece = {source, destination, size};
    kind = &its_kind;
  }
  [[nodiscard]] Found run(const Pass& pass) const {
    Found found{0, 0.0};
    kind->kernels[pass.op][isa_index()](&piece, &piece + 1, pass.factor, found);
    return found;
  }
};
/// Whether a tree is, by its type, one leaf whose elements lie side by side.
template <class Tree>
inline constexpr bool is_lone_piece_v = (node_kind_v<Tree> == node_kind::scalar || node_kind_v<Tree> == node_kind::tensor) &&
                                        !has_layout<bare<Tree>>::value;

/// From how many bytes, read and written, stores that bypass the caches pay for a pass that is not in place: as many as a large
/// cache has. Ordinary stores also load what they are about to overwrite.
inline constexpr std::size_t least_streamed_pass = std::size_t{32} << 20;

template <class VerbOps, bool Writes, class Executor, class Tree>
[[gnu::noinline]] Found plan_then_run(const Executor& executor, const Pass& pass, Tree& tree) {
  Plan plan;
  detail::plan_one<VerbOps, Writes>(plan, tree);
  return detail::run(executor, plan, pass);
}
template <class VerbOps, DestinationIs Is, class Executor, class Source, class Destination>
[[gnu::noinline]] Found plan_then_run(const Executor& executor, const Pass& pass, const Source& source,
                                      Destination& destination) {
  Plan plan;
  detail::plan_two<VerbOps, Is>(plan, source, destination);
  if constexpr (Is == DestinationIs::the_users && !owns_elements_v<Destination>) {
    // Sources that go to one destination go there in their order.
    if (executor.concurrency() > 1 && start_of_two(plan) != 0) return detail::run(sequential, plan, pass);
  }
  Pass its_pass = pass;
  if (VerbOps::streaming != 0 && plan.bytes() >= least_streamed_pass) its_pass.streaming = VerbOps::streaming;
  return detail::run(executor, plan, its_pass);
}

/// A verb that reads one tree or works on it in place (How: whether it writes), or from one into another (DestinationIs).
template <class VerbOps, auto How, class Executor, class... Trees>
Found plan_and_run(const Executor& executor, const Pass& pass, Trees&... trees) {
  if constexpr ((is_lone_piece_v<Trees> && ...) && check_is_executor<Executor>()) {
    if (((detail::size_of(trees) <= chunk_size) && ...)) {
      LonePiece lone;
      detail::walk_trees<VerbOps, How>(lone, trees...);
      return lone.run(pass);
    }
  }
  return detail::plan_then_run<VerbOps, How>(executor, pass, trees...);
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
