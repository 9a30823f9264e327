#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/action.hpp>
#include <headroom/kernel/streaming.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/make_plan.hpp>
#include <headroom/ops/strided.hpp>

#include <cstddef>
#include <limits>

// A pass of a kernel over a plan, by one thread or several, with the same bits as result: magnitudes do not depend on the
// order, and squares are summed as `measure` in kernel/measure.inl says, and the sums in the order of the tree.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

inline void add_to(Found& all, const Found& found) noexcept {
  add_largest(all, found.largest);
  add_to_sum(all, found.sum_of_squares);
}

// ---- a thread's share ----

/// The sums of squares of chunks.
using Sums = Buffer<double, 32>;

/// The chunks that begin at bytes [begin, end) of the plan; with `sums`, the sum of each goes there by itself.
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
      for (const Piece* piece = plan_.begin(run); piece != last && position_ < end_ && !is_done();) {
        const Piece* const behind = run.depth == 0 ? end_of_group(run, piece, last) : piece;
        if (behind == piece) {
          run_piece(run, *piece++, kernel);
        } else if (pass_.measures && end_ != everything) {
          run_sum(run, piece, behind, kernel);
          piece = behind;
        } else {
          kernel(piece, behind, pass_.factor, found_);
          piece = behind;
        }
      }
    }
    return found_;
  }

 private:
  [[nodiscard]] bool is_done() const noexcept { return pass_.may_stop && !is_finite(found_); }
  /// How many pieces one call of the kernel takes: of one thread all of them, or no more than a chunk if the pass may stop
  /// early; of several those of its share that are one chunk each, or those whose squares are one sum.
  [[nodiscard]] const Piece* end_of_group(const Plan::Run& run, const Piece* piece, const Piece* last) noexcept {
    if (end_ == everything && !pass_.may_stop) return last;
    if (end_ == everything || pass_.measures) {
      for (std::size_t n = 0; piece != last && n + piece->size <= chunk_size; ++piece) n += piece->size;
    } else if (!pass_.may_stop) {
      for (; piece != last && piece->size <= chunk_size && begin_ <= position_ && position_ < end_; ++piece) {
        position_ += piece->size * Plan::bytes_each(run, *piece);
      }
    }
    return piece;
  }

  [[gnu::noinline]] void run_sum(const Plan::Run& run, const Piece* piece, const Piece* last, Kernel kernel) {
    const bool ours = begin_ <= position_ && position_ < end_;
    for (const Piece* each = piece; each != last; ++each) position_ += each->size * Plan::bytes_each(run, *each);
    if (!ours) return;
    Found sum{0, 0.0};
    kernel(piece, last, pass_.factor, sum);
    add(sum);
  }
  [[gnu::noinline]] void run_piece(const Plan::Run& run, const Piece& piece, Kernel kernel) {
    for (std::size_t begin = 0; begin < piece.size; begin += chunk_size) {
      const std::size_t n = piece.size - begin < chunk_size ? piece.size - begin : chunk_size;
      const bool ours = begin_ <= position_ && position_ < end_ && !is_done();
      position_ += n * Plan::bytes_each(run, piece);
      if (!ours) continue;
      Found chunk{0, 0.0};
      run_part(plan_, run, piece, pass_, kernel, begin, begin + n, chunk);
      add(chunk);
    }
  }
  void add(const Found& chunk) {
    if (sums_ == nullptr) return add_to(found_, chunk);
    add_largest(found_, chunk.largest);
    sums_->push_back(chunk.sum_of_squares);
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

/// The shares of several threads, and what they have found.
class Shares {
 public:
  Shares(const Plan& plan, const Pass& pass, std::size_t count)
      : plan_(plan), pass_(pass), count_(count), share_(plan.bytes() / count), results_(nullptr) {
    (void)isa_index();  // chosen here, where an error can be thrown
    results_ = new Result[count];
  }
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;
  ~Shares() { delete[] results_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  void run(std::size_t i) {
    const std::size_t end = i + 1 == count_ ? Share::everything - 1 : share_ * (i + 1);
    results_[i].found = Share(plan_, pass_, share_ * i, end, &results_[i].sums).run();
  }
  [[nodiscard]] Found found() const noexcept {
    Found all{0, 0.0};
    for (std::size_t i = 0; i < count_; ++i) {
      add_largest(all, results_[i].found.largest);
      for (const double sum : results_[i].sums) add_to_sum(all, sum);
    }
    return all;
  }

 private:
  struct alignas(64) Result {  // several threads write to them, each to a cache line of its own
    Found found{0, 0.0};
    Sums sums;
  };
  const Plan& plan_;
  const Pass& pass_;
  std::size_t count_, share_;
  Result* results_;
};

template <class Executor>
[[nodiscard]] Found run(const Executor& executor, const Plan& plan, const Pass& pass) {
  if constexpr (check_is_executor<Executor>()) {
    const std::size_t count = detail::count_shares(executor, plan.bytes());
    if (count > 1) {
      Shares shares(plan, pass, count);
      executor.run(shares.count(), [&shares](std::size_t i) { shares.run(i); });
      return shares.found();
    }
  }
  return Share(plan, pass, 0, Share::everything, nullptr).run();
}

/// Takes the place of a plan for a single small piece.
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
  if constexpr (Is == DestinationIs::the_users && leaves_may_meet_v<Destination>) {
    // Where several sources go to one destination, they go there in their order.
    if (executor.concurrency() > 1 && destinations_meet(plan)) return run(sequential, plan, pass);
  }
  if (VerbOps::streaming == 0 || !is_worth_streaming(plan.bytes())) return detail::run(executor, plan, pass);
  Pass streaming = pass;
  streaming.streaming = VerbOps::streaming;
  return detail::run(executor, plan, streaming);
}

/// A verb that reads one tree or works on it in place (How: whether it writes), or from one into another (DestinationIs).
template <class VerbOps, auto How, class Executor, class... Trees>
Found plan_and_run(const Executor& executor, const Pass& pass, Trees&... trees) {
  if constexpr ((is_lone_piece_v<Trees> && ...) && check_is_executor<Executor>()) {
    if (((detail::size_of(trees) <= chunk_size) && ...)) {
      LonePiece lone;
      (void)detail::walk_trees<VerbOps, How>(lone, trees...);
      return lone.run(pass);
    }
  }
  return detail::plan_then_run<VerbOps, How>(executor, pass, trees...);
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
