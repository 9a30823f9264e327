#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/action.hpp>
#include <headroom/kernel/streaming.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/make_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

// A pass of a kernel over a plan, by one thread or several, with the same bits as result: magnitudes do not depend on the
// order, and squares are summed chunk by chunk and the sums in the order of the tree.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// What is done in a pass.
struct Pass {
  std::size_t op;  ///< its place among the Ops of the plan
  double factor = 1.0;
  bool adds = false;      ///< the op reads its destination as well
  bool may_stop = false;  ///< at the first chunk that is not finite
};

inline void add_to(Found& all, const Found& found) noexcept {
  add_largest(all, found.largest);
  add_to_sum(all, found.sum_of_squares);
}

// ---- strides ----

/// Copies elements of 1, 2, 4 or 8 bytes; strides are in elements.
inline void copy_elements(std::size_t bytes, unsigned char* to, std::ptrdiff_t to_stride, const unsigned char* from,
                          std::ptrdiff_t from_stride, std::size_t n) noexcept {
  to_stride *= static_cast<std::ptrdiff_t>(bytes);
  from_stride *= static_cast<std::ptrdiff_t>(bytes);
  const auto copy = [&](auto size) {
    for (std::size_t i = 0; i < n; ++i, to += to_stride, from += from_stride) std::memcpy(to, from, size);
  };
  using std::integral_constant;
  switch (bytes) {
    case 1:
      return copy(integral_constant<std::size_t, 1>());
    case 2:
      return copy(integral_constant<std::size_t, 2>());
    case 4:
      return copy(integral_constant<std::size_t, 4>());
    default:
      return copy(integral_constant<std::size_t, 8>());
  }
}

/// Goes through the elements of a leaf with strides, in the order of its loop nest, a stretch of the innermost loop at a time.
class StridedCursor {
 public:
  StridedCursor(const Dimension* dimensions, int depth, std::size_t begin) noexcept
      : dimensions_(dimensions), inner_(depth - 1) {
    auto rest = static_cast<std::ptrdiff_t>(begin);
    for (int i = inner_; i >= 0; --i) {
      index_[i] = rest % dimensions[i].size;
      rest /= dimensions[i].size;
      source += index_[i] * dimensions[i].source_stride;
      destination += index_[i] * dimensions[i].destination_stride;
    }
  }
  /// Elements up to the end of the innermost loop.
  [[nodiscard]] std::size_t stretch() const noexcept { return static_cast<std::size_t>(inner().size - index_[inner_]); }
  [[nodiscard]] const Dimension& inner() const noexcept { return dimensions_[inner_]; }
  void advance(std::size_t n) noexcept {
    int i = inner_;
    move(i, static_cast<std::ptrdiff_t>(n));
    while (i > 0 && index_[i] == dimensions_[i].size) {  // as on a mileage counter
      move(i, -index_[i]);
      move(--i, 1);
    }
  }

  std::ptrdiff_t source = 0, destination = 0;  // offsets of the element

 private:
  void move(int i, std::ptrdiff_t n) noexcept {
    index_[i] += n;
    source += n * dimensions_[i].source_stride;
    destination += n * dimensions_[i].destination_stride;
  }

  const Dimension* dimensions_;
  int inner_;
  std::ptrdiff_t index_[Layout::max_rank];
};

/// Elements [begin, end) of a piece with strides: gathered into a buffer, worked on there, and scattered.
class StridedRun {
 public:
  StridedRun(const Plan& plan, const Plan::Run& run, const Piece& piece, const Pass& pass, Kernel kernel) noexcept
      : piece_(piece),
        dimensions_(plan.dimensions(run)),
        depth_(run.depth),
        kind_(*run.kind),
        pass_(pass),
        kernel_(kernel),
        in_place_(piece.source == piece.destination) {}

  void operator()(std::size_t begin, std::size_t end, Found& found) const noexcept {
    alignas(64) unsigned char source[buffer_size * 8], other[buffer_size * 8];
    unsigned char* const destination = in_place_ ? source : other;
    StridedCursor from(dimensions_, depth_, begin), to = from;
    while (begin < end) {
      const std::size_t n = end - begin < buffer_size ? end - begin : buffer_size;
      copy(n, from, source, destination, true);
      const Piece gathered{source, destination, n};
      kernel_(&gathered, &gathered + 1, pass_.factor, found);
      if (piece_.destination != nullptr) copy(n, to, source, destination, false);
      begin += n;
    }
  }

 private:
  static constexpr std::size_t buffer_size = 256;  // elements

  void copy(std::size_t n, StridedCursor& cursor, unsigned char* source, unsigned char* destination,
            bool gathers) const noexcept {
    const std::size_t in = kind_.source_bytes, out = kind_.destination_bytes;
    const auto* const all_in = static_cast<const unsigned char*>(piece_.source);
    auto* const all_out = static_cast<unsigned char*>(piece_.destination);
    for (std::size_t done = 0, count = 0; done < n; done += count, cursor.advance(count)) {
      count = n - done < cursor.stretch() ? n - done : cursor.stretch();
      const Dimension& inner = cursor.inner();
      auto* const there = all_out + cursor.destination * static_cast<std::ptrdiff_t>(out);
      if (gathers) {
        const auto* const here = all_in + cursor.source * static_cast<std::ptrdiff_t>(in);
        copy_elements(in, source + done * in, 1, here, inner.source_stride, count);
        if (pass_.adds) copy_elements(out, destination + done * out, 1, there, inner.destination_stride, count);
      } else {
        copy_elements(out, there, inner.destination_stride, destination + done * out, 1, count);
      }
    }
  }

  const Piece& piece_;
  const Dimension* dimensions_;
  int depth_;
  const PieceKind& kind_;
  const Pass& pass_;
  Kernel kernel_;
  bool in_place_;
};

// ---- a thread's share ----

/// The chunks that begin at bytes [begin, end) of the plan; with `sums`, the sum of each goes there by itself.
class Share {
 public:
  Share(const Plan& plan, const Pass& pass, std::size_t begin, std::size_t end, std::vector<double>* sums) noexcept
      : plan_(plan), pass_(pass), isa_(isa_index()), begin_(begin), end_(end), sums_(sums) {}

  [[nodiscard]] Found run() {
    for (const Plan::Run& run : plan_.runs()) {
      const Kernel kernel = run.kind->kernels[pass_.op][isa_];
      const Piece* const last = plan_.end(run);
      for (const Piece* piece = plan_.begin(run); piece != last && !is_done();) {
        const Piece* const behind = run.depth == 0 && end_ == everything ? end_of_group(piece, last) : piece;
        if (behind == piece) {
          run_piece(run, *piece++, kernel);
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
  /// Pieces that one call of the kernel takes: all of them, but for a pass that may stop no more than a chunk.
  [[nodiscard]] const Piece* end_of_group(const Piece* piece, const Piece* last) const noexcept {
    if (!pass_.may_stop) return last;
    for (std::size_t n = 0; piece != last && n + piece->size <= chunk_size; ++piece) n += piece->size;
    return piece;
  }

  [[gnu::noinline]] void run_piece(const Plan::Run& run, const Piece& piece, Kernel kernel) {
    const std::size_t in = run.kind->source_bytes, out = run.kind->destination_bytes;
    for (std::size_t begin = 0; begin < piece.size; begin += chunk_size) {
      const std::size_t n = piece.size - begin < chunk_size ? piece.size - begin : chunk_size;
      const bool ours = begin_ <= position_ && position_ < end_ && !is_done();
      position_ += n * Plan::bytes_each(run, piece);
      if (!ours) continue;
      Found chunk{0, 0.0};
      if (run.depth == 0) {
        const Piece part{static_cast<const unsigned char*>(piece.source) + begin * in,
                         piece.destination == nullptr ? nullptr : static_cast<unsigned char*>(piece.destination) + begin * out,
                         n};
        kernel(&part, &part + 1, pass_.factor, chunk);
      } else {
        StridedRun(plan_, run, piece, pass_, kernel)(begin, begin + n, chunk);
      }
      add(chunk);
    }
  }
  void add(const Found& chunk) {
    if (sums_ == nullptr) return add_to(found_, chunk);
    add_largest(found_, chunk.largest);
    sums_->push_back(chunk.sum_of_squares);
  }

 public:
  static constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();

 private:
  const Plan& plan_;
  const Pass& pass_;
  std::size_t isa_, begin_, end_;
  std::vector<double>* sums_;
  std::size_t position_ = 0;
  Found found_{0, 0.0};
};

/// With fewer bytes than this, a thread is not worth waking up.
inline constexpr std::size_t least_share = std::size_t{1} << 19;

/// The shares of several threads, and what they have found.
class Shares {
 public:
  Shares(const Plan& plan, const Pass& pass, std::size_t count)
      : plan_(plan), pass_(pass), share_(plan.bytes() / count), results_(count) {
    (void)isa_index();  // chosen here, where an error can be thrown
  }
  [[nodiscard]] std::size_t count() const noexcept { return results_.size(); }
  void run(std::size_t i) {
    Result result;  // not yet in `results_`, whose cache lines several threads write to
    result.found =
        Share(plan_, pass_, share_ * i, i + 1 == count() ? Share::everything - 1 : share_ * (i + 1), &result.sums).run();
    results_[i] = std::move(result);
  }
  [[nodiscard]] Found found() const noexcept {
    Found all{0, 0.0};
    for (const Result& result : results_) {
      add_largest(all, result.found.largest);
      for (const double sum : result.sums) add_to_sum(all, sum);
    }
    return all;
  }

 private:
  struct Result {
    Found found{0, 0.0};
    std::vector<double> sums;
  };
  const Plan& plan_;
  const Pass& pass_;
  std::size_t share_;
  std::vector<Result> results_;
};

/// A pass over one leaf, by its place in the plan; adds to `found`, which may be of a class derived from Found.
template <class FoundInLeaf>
[[nodiscard]] FoundInLeaf run_leaf(const Plan& plan, std::size_t leaf, const Pass& pass, FoundInLeaf found) {
  const Plan::Run* run = plan.runs().begin();
  while (plan.end(*run) - plan.pieces().begin() <= static_cast<std::ptrdiff_t>(leaf)) ++run;
  const Kernel kernel = run->kind->kernels[pass.op][isa_index()];
  const Piece& piece = plan.pieces().begin()[leaf];
  if (run->depth == 0) {
    kernel(&piece, &piece + 1, pass.factor, found);
  } else {
    StridedRun(plan, *run, piece, pass, kernel)(0, piece.size, found);
  }
  return found;
}

template <class Executor>
[[nodiscard]] Found run(const Executor& executor, const Plan& plan, const Pass& pass) {
  if constexpr (check_is_executor<Executor>()) {
    const std::size_t threads = executor.concurrency();
    const std::size_t shares_worth_it = threads > 1 ? plan.bytes() / least_share : 0;
    if (shares_worth_it > 1) {
      Shares shares(plan, pass, threads < shares_worth_it ? threads : shares_worth_it);
      executor.run(shares.count(), [&shares](std::size_t i) { shares.run(i); });
      return shares.found();
    }
  }
  return Share(plan, pass, 0, Share::everything, nullptr).run();
}

/// Takes the place of a plan where there is but one piece, which is small: it is run at once.
struct RunAtOnce {
  const Pass& pass;
  Found found{0, 0.0};

  void add(const void* source, void* destination, std::size_t size, const PieceKind& kind) {
    const Piece piece{source, destination, size};
    kind.kernels[pass.op][isa_index()](&piece, &piece + 1, pass.factor, found);
  }
};
/// A verb that reads one tree, or works on it in place.
template <class VerbOps, bool Writes, class Executor, class Tree>
Found plan_and_run(const Executor& executor, const Pass& pass, Tree& tree) {
  if constexpr (is_lone_piece_v<Tree> && check_is_executor<Executor>()) {
    if (detail::size_of(tree) <= chunk_size) {
      RunAtOnce at_once{pass};
      plan_one<VerbOps, Writes>(at_once, tree);
      return at_once.found;
    }
  }
  Plan plan;
  plan_one<VerbOps, Writes>(plan, tree);
  return run(executor, plan, pass);
}
/// A verb from one tree into another.
template <class VerbOps, DestinationIs Is, class Executor, class Source, class Destination>
Found plan_and_run(const Executor& executor, const Pass& pass, const Source& source, Destination& destination) {
  if constexpr (is_lone_piece_v<Source> && is_lone_piece_v<Destination> && check_is_executor<Executor>()) {
    if (detail::size_of(source) <= chunk_size) {
      RunAtOnce at_once{pass};
      plan_two<VerbOps, Is>(at_once, source, destination);
      return at_once.found;
    }
  }
  Plan plan;
  plan_two<VerbOps, Is>(plan, source, destination);
  if (VerbOps::streaming == 0 || !is_worth_streaming(plan.bytes())) return run(executor, plan, pass);
  Pass streaming = pass;
  streaming.op += VerbOps::streaming;
  return run(executor, plan, streaming);
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
