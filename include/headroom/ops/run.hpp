#pragma once

#include <headroom/dtype/scale_range.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/plan.hpp>
#include <headroom/report.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

// A pass runs one op over a plan, in one thread or several. The number of threads changes no bit of the result: a maximum does
// not depend on the order, squares are summed as kernel/measure.inl says, and these sums are added in the order of the tree.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

// ---- what a pass is and what it finds ----

/// One op for all pieces of a plan.
struct Pass {
  std::size_t op;  ///< its index in the Ops of the plan
  double factor = 1.0;
  bool adds = false;       ///< the op reads its destination as well
  bool may_stop = false;   ///< stops at the first chunk that is not finite
  bool streaming = false;  ///< uses stores that bypass the caches
};

[[nodiscard]] inline bool is_finite(const Found& found) noexcept { return found.largest < binary64::infinity_bits; }
[[nodiscard]] inline GradientReport report_of(const Found& found) noexcept {
  return {is_finite(found), bit_cast<double>(found.largest)};
}
/// The report of gradients that are not finite.
[[nodiscard]] constexpr GradientNorm overflow() noexcept { return {{false, infinity}, infinity}; }
[[nodiscard]] inline GradientNorm norm_of(const Found& found) noexcept {
  const GradientReport report = report_of(found);
  return {report, report.finite ? __builtin_sqrt(found.sum_of_squares) : report.max_abs};
}

// ---- leaves with strides ----

/// Iterates over the sources or the destinations of a strided leaf, in the order of its loop nest.
class StridedElements {
 public:
  /// `stride` selects sources or destinations. `first` is the address of element 0. The first element copied is number `begin`.
  StridedElements(const Plan& plan, const Plan::Run& run, std::ptrdiff_t Dimension::*stride, const void* first,
                  std::size_t begin) noexcept
      : dimensions_(plan.dimensions(run)),
        inner_(run.depth - 1),
        stride_(stride),
        bytes_(static_cast<std::ptrdiff_t>(stride == &Dimension::source_stride ? run.kind->source_bytes
                                                                               : run.kind->destination_bytes)),
        at_(static_cast<unsigned char*>(const_cast<void*>(first))) {
    auto rest = static_cast<std::ptrdiff_t>(begin);
    for (int i = inner_; i >= 0; rest /= dimensions_[i--].size) {
      index_[i] = 0;
      move(i, rest % dimensions_[i].size);
    }
  }
  /// Copies the next `n` elements into a contiguous buffer, or out of it if `gathers` is false.
  void copy(unsigned char* buffer, std::size_t n, bool gathers) noexcept {
    const std::ptrdiff_t stride = dimensions_[inner_].*stride_ * bytes_;
    for (auto left = static_cast<std::ptrdiff_t>(n); left > 0;) {
      const std::ptrdiff_t stretch = dimensions_[inner_].size - index_[inner_], count = left < stretch ? left : stretch;
      if (gathers) copy_stretch(buffer, bytes_, at_, stride, count);
      if (!gathers) copy_stretch(at_, stride, buffer, bytes_, count);
      buffer += count * bytes_;
      left -= count;
      int i = inner_;
      move(i, count);
      while (i > 0 && index_[i] == dimensions_[i].size) {  // carry into the next dimension
        move(i, -index_[i]);
        move(--i, 1);
      }
    }
  }

 private:
  void move(int i, std::ptrdiff_t n) noexcept {
    index_[i] += n;
    at_ += n * dimensions_[i].*stride_ * bytes_;
  }
  /// Elements of 1, 2, 4 or 8 bytes.
  void copy_stretch(unsigned char* to, std::ptrdiff_t to_step, const unsigned char* from, std::ptrdiff_t from_step,
                    std::ptrdiff_t count) const noexcept {
    if (to_step == from_step) {
      std::memcpy(to, from, static_cast<std::size_t>(count * bytes_));
      return;
    }
    const auto copy_each = [&](auto bytes) {
      for (; count > 0; --count, to += to_step, from += from_step) std::memcpy(to, from, sizeof bytes);
    };
    if (bytes_ == 1) return copy_each(std::uint8_t{});
    if (bytes_ == 2) return copy_each(std::uint16_t{});
    if (bytes_ == 4) return copy_each(std::uint32_t{});
    copy_each(std::uint64_t{});
  }

  const Dimension* dimensions_;
  int inner_;
  std::ptrdiff_t Dimension::*stride_;
  std::ptrdiff_t bytes_;
  unsigned char* at_;
  std::ptrdiff_t index_[Layout::max_rank];
};

/// A pass over elements [begin, end) of a strided leaf. The kernel works in a buffer that elements are copied to and from.
[[gnu::noinline]] inline void run_strided(const Plan& plan, const Plan::Run& run, const Piece& piece, const Pass& pass,
                                          Kernel kernel, std::size_t begin, std::size_t end, Found& found) noexcept {
  constexpr std::size_t elements = 256;
  alignas(64) unsigned char source[elements * 8], other[elements * 8];
  unsigned char* const destination = piece.source == piece.destination ? source : other;
  const void* const there = piece.destination == nullptr ? piece.source : piece.destination;
  StridedElements from(plan, run, &Dimension::source_stride, piece.source, begin);
  StridedElements to(plan, run, &Dimension::destination_stride, there, begin), old = to;
  for (std::size_t n = 0; begin < end; begin += n) {
    n = end - begin < elements ? end - begin : elements;
    from.copy(source, n, true);
    if (pass.adds) old.copy(destination, n, true);
    const Piece gathered{source, destination, n};
    kernel(&gathered, &gathered + 1, pass.factor, false, found);
    if (piece.destination != nullptr) to.copy(destination, n, false);
  }
}
/// A pass over elements [begin, end) of a leaf.
inline void run_part(const Plan& plan, const Plan::Run& run, const Piece& piece, const Pass& pass, Kernel kernel,
                     std::size_t begin, std::size_t end, Found& found) noexcept {
  if (run.depth != 0) return run_strided(plan, run, piece, pass, kernel, begin, end, found);
  const std::size_t in = run.kind->source_bytes, out = run.kind->destination_bytes;
  auto* const destination = static_cast<unsigned char*>(piece.destination);
  const Piece part{static_cast<const unsigned char*>(piece.source) + begin * in,
                   destination == nullptr ? nullptr : destination + begin * out, end - begin};
  kernel(&part, &part + 1, pass.factor, pass.streaming, found);
}

// ---- a thread's share ----

/// Sums of squares, one for each group. Not a std::vector<double>, because units with different flags would share its code.
using Sums = Buffer<double, 32>;

/// What one thread runs: the groups that begin at elements [begin, end) of a plan. A group has one sum of squares. It consists
/// of pieces of a run with at most `chunk_size` elements together, or of a chunk of a longer piece. If there are several
/// threads, `sums` receives the sum of each group; otherwise it is null.
class Share {
 public:
  Share(const Plan& plan, const Pass& pass, std::size_t begin, std::size_t end, Sums* sums)
      : plan_(plan), pass_(pass), isa_(isa_index()), begin_(begin), end_(end), sums_(sums) {}

  [[nodiscard]] Found run() {
    for (const Plan::Run& run : plan_.runs()) {
      const Kernel kernel = run.kind->kernels[pass_.op][isa_];
      const Piece* const last = plan_.end(run);
      if (sums_ == nullptr && run.depth == 0 && !run.kind->may_sum && !pass_.may_stop) {  // groups are not needed
        kernel(plan_.begin(run), last, pass_.factor, pass_.streaming, found_);
        continue;
      }
      for (const Piece* piece = plan_.begin(run); piece != last && position_ < end_ && !is_done();) {
        const Piece* const first = piece;
        std::size_t elements = 0;
        for (; run.depth == 0 && piece != last && elements + piece->size <= chunk_size; ++piece) elements += piece->size;
        if (piece == first) {
          add_chunks(run, *piece++, kernel);
        } else {
          add_group(elements, [&](Found& found) { kernel(first, piece, pass_.factor, pass_.streaming, found); });
        }
      }
    }
    return found_;
  }

 private:
  [[nodiscard]] bool is_done() const noexcept { return pass_.may_stop && !is_finite(found_); }
  void add_chunks(const Plan::Run& run, const Piece& piece, Kernel kernel) {
    for (std::size_t begin = 0; begin < piece.size; begin += chunk_size) {
      const std::size_t n = piece.size - begin < chunk_size ? piece.size - begin : chunk_size;
      add_group(n, [&](Found& found) { run_part(plan_, run, piece, pass_, kernel, begin, begin + n, found); });
    }
  }
  /// Runs the next group, which has `elements` elements, if it begins in this share.
  template <class RunGroup>
  void add_group(std::size_t elements, const RunGroup& run_group) {
    const bool is_ours = begin_ <= position_ && position_ < end_ && !is_done();
    position_ += elements;
    if (!is_ours) return;
    Found group{0, 0.0};
    run_group(group);
    add_largest(found_, group.largest);
    if (sums_ == nullptr) return add_to_sum(found_, group.sum_of_squares);
    if (group.sum_of_squares != 0.0) sums_->push_back(group.sum_of_squares);  // may throw; passes that write have no sums
  }

  const Plan& plan_;
  const Pass& pass_;
  std::size_t isa_, begin_, end_;
  Sums* sums_;
  std::size_t position_ = 0;
  Found found_{0, 0.0};
};

// ---- several threads ----

/// The fewest elements that are worth waking a thread.
inline constexpr std::size_t least_share = std::size_t{1} << 17;

/// The number of shares to split `elements` into: 1, or at most one for each thread.
template <class Executor>
[[nodiscard]] std::size_t count_shares(const Executor& executor, std::size_t elements) {
  const std::size_t threads = executor.concurrency(), worth_it = elements / least_share;
  const std::size_t count = threads < worth_it ? threads : worth_it;
  return count > 1 ? count : 1;
}

template <class Executor>
[[nodiscard]] Found run_shares(const Executor& executor, const Plan& plan, const Pass& pass, std::size_t count) {
  struct alignas(64) Result {  // aligned, so that each thread writes to a cache line of its own
    Found found{0, 0.0};
    Sums sums;
  };
  (void)isa_index();  // chooses the instruction set, which may throw
  std::vector<Result> results(count);
  executor.run(count, [&, share = plan.elements() / count](std::size_t i) {
    const std::size_t end = i + 1 == count ? plan.elements() : share * (i + 1);
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
    const std::size_t count = detail::count_shares(executor, plan.elements());
    if (count > 1) return detail::run_shares(executor, plan, pass, count);
  }
  return Share(plan, pass, 0, plan.elements(), nullptr).run();
}

// ---- a whole verb ----

/// Replaces the plan if the tree is a single small leaf.
struct LonePiece {
  Piece piece;
  const PieceKind* kind;

  void add(const void* source, void* destination, std::size_t size, const PieceKind& kind_of_piece) noexcept {
    piece = {source, destination, size};
    kind = &kind_of_piece;
  }
  /// Separate from the walk, which saves half a nanosecond for a single vector.
  [[nodiscard]] Found run(const Pass& pass) const {
    Found found{0, 0.0};
    kind->kernels[pass.op][isa_index()](&piece, &piece + 1, pass.factor, false, found);
    return found;
  }
};
/// Whether the type of a tree is that of one leaf without strides.
template <class Tree>
inline constexpr bool is_lone_piece_v = (node_kind_v<Tree> == node_kind::scalar || node_kind_v<Tree> == node_kind::tensor) &&
                                        !has_layout_v<bare<Tree>>;

/// A pass that is not in place streams from this many bytes on, read and written: three quarters of a cache of 32 MiB.
/// Streaming stores bypass the caches. Ordinary stores also load the cache lines that they overwrite.
inline constexpr std::size_t least_streamed_pass = std::size_t{24} << 20;

/// Separate from plan_and_run, whose stack frame stays small.
template <class VerbOps, Access access, class Executor, class... Trees>
[[gnu::noinline]] Found plan_and_run_all(const Executor& executor, const Pass& pass, Trees&... trees) {
  Plan plan;
  detail::make_plan<VerbOps, access>(plan, trees...);
  Pass planned = pass;
  planned.streaming = sizeof...(Trees) == 2 && plan.bytes() >= least_streamed_pass;
  return detail::run(executor, plan, planned);
}
/// Walks one tree, or two side by side, and runs the pass over them.
template <class VerbOps, Access access, class Executor, class... Trees>
Found plan_and_run(const Executor& executor, const Pass& pass, Trees&... trees) {
  if constexpr ((is_lone_piece_v<Trees> && ...) && check_is_executor<Executor>()) {
    if (((detail::size_of(trees) <= chunk_size) && ...)) {
      LonePiece lone;
      detail::walk_trees<VerbOps, access>(lone, trees...);
      return lone.run(pass);
    }
  }
  return detail::plan_and_run_all<VerbOps, access>(executor, pass, trees...);
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
