#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/prefetch.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/ops/run.hpp>

#include <cstddef>
#include <string>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Scales into float, whatever is read.
struct BlockOps {
  template <class In>
  static constexpr const Kernel* list[] = {kernels<Op::scale, In, binary32>};
  template <class In, class>
  static constexpr PieceKind kind = {list<In>, sizeof(typename In::bits_type), sizeof(float)};
};

/// Floats of a block. 4 KiB: small beside a first cache, which the other streams of an optimizer go through as well, and large
/// beside the call of a kernel.
inline constexpr std::size_t floats_per_block = 1024;

/// The elements of a leaf, to be read a block at a time.
class BlockSource {
 public:
  BlockSource(const Plan& plan, const Plan::Run& run, const Piece& piece, double factor)
      : dimensions_(plan.dimensions(run)),
        depth_(run.depth),
        elements_(static_cast<const unsigned char*>(piece.source)),
        bytes_(run.kind->source_bytes),
        kernel_(run.kind->kernels[0][isa_index()]),
        factor_(factor) {}

  void read(std::size_t begin, std::size_t n, float* block) const noexcept {
    if (depth_ == 0) {
      const unsigned char* const from = elements_ + begin * bytes_;
      // The next block comes from memory while somebody works on this one.
      for (std::size_t i = n * bytes_; i < 2 * n * bytes_; i += cache_line) prefetch(from, i);
      return scale(from, n, block);
    }
    StridedCursor cursor(dimensions_, depth_, begin);
    for (std::size_t done = 0; done < n; done += gather_size) {
      const std::size_t count = n - done < gather_size ? n - done : gather_size;
      alignas(64) unsigned char gathered[gather_size * sizeof(double)];
      gather(cursor, count, gathered);
      scale(gathered, count, block + done);
    }
  }

 private:
  static constexpr std::size_t gather_size = 256;

  void scale(const void* source, std::size_t n, float* block) const noexcept {
    const Piece piece{source, block, n};
    Found unused{0, 0.0};
    kernel_(&piece, &piece + 1, factor_, unused);
  }
  void gather(StridedCursor& cursor, std::size_t n, unsigned char* to) const noexcept {
    for (std::size_t count = 0; n > 0; n -= count, to += count * bytes_, cursor.advance(count)) {
      count = n < cursor.stretch() ? n : cursor.stretch();
      const unsigned char* const from = elements_ + cursor.source * static_cast<std::ptrdiff_t>(bytes_);
      copy_elements(bytes_, to, 1, from, cursor.inner().source_stride, count);
    }
  }

  const Dimension* dimensions_;
  int depth_;
  const unsigned char* elements_;
  std::size_t bytes_;
  Kernel kernel_;
  double factor_;
};

/// Calls `f` for the blocks that begin at elements [begin, end) of the plan.
template <class F>
void run_blocks(const Plan& plan, double factor, std::size_t begin, std::size_t end, F& f) {
  alignas(64) float block[floats_per_block];
  std::size_t position = 0, leaf = 0;
  for (const Plan::Run& run : plan.runs()) {
    for (const Piece* piece = plan.begin(run); piece != plan.end(run); ++piece, ++leaf) {
      const BlockSource source(plan, run, *piece, factor);
      for (std::size_t offset = 0, n = 0; offset < piece->size; offset += n, position += n) {
        n = piece->size - offset < floats_per_block ? piece->size - offset : floats_per_block;
        if (position < begin || position >= end) continue;
        source.read(offset, n, block);
        (void)f(leaf, offset, span<const float>(block, n));
      }
    }
  }
}

/// A tensor that repeats elements, as a broadcast one does, has them in no order that an offset could mean.
template <class Tree>
void check_has_offsets(const Plan& plan, const Tree& tree) {
  for (const Plan::Run& run : plan.runs()) {
    Layout layout;
    for (int i = 0; i < run.depth; ++i) layout.push(plan.dimensions(run)[i].size, plan.dimensions(run)[i].source_stride);
    if (!layout.repeats_elements()) continue;
    const std::string path = path_of(tree, static_cast<std::size_t>(plan.begin(run) - plan.pieces().begin()));
    throw_invalid_argument(
        (path.empty() ? "the tree" : path) +
        " repeats elements (its strides lead to some more than once), so they have no offsets: copy it first");
  }
}

template <class F>
constexpr bool check_takes_blocks() {
  constexpr bool takes_blocks = std::is_invocable_v<F&, std::size_t, std::size_t, span<const float>>;
  static_assert(takes_blocks,
                "headroom: for_each_block calls f(leaf, offset, block) with two std::size_t and a headroom::span<const float>: "
                "[&](std::size_t leaf, std::size_t offset, headroom::span<const float> block) { … }");
  return takes_blocks;
}

template <class Executor, class F>
void run_blocks(const Executor& executor, const Plan& plan, double factor, F& f) {
  std::size_t elements = 0;
  for (const Piece& piece : plan.pieces()) elements += piece.size;
  const std::size_t threads = executor.concurrency(), worth_it = elements * sizeof(float) / least_share;
  const std::size_t count = threads < worth_it ? threads : worth_it;
  if (count < 2) return run_blocks(plan, factor, 0, elements, f);
  const auto run_share = [&](std::size_t i) {
    run_blocks(plan, factor, elements / count * i, i + 1 == count ? elements : elements / count * (i + 1), f);
  };
  Job<const decltype(run_share)> job(run_share);  // an executor of the user's need not know about errors
  executor.run(count, [&job](std::size_t i) { job.call(&job, i); });
  job.throw_error();
}

}  // namespace detail

/// Calls `f(leaf, offset, block)` for all elements of the tree times the factor, a block at a time: what an optimizer with a
/// loop of its own needs to read scaled 16-bit gradients without a second copy of them.
///
///     headroom::for_each_block(grads16, 1.0 / loss_scale, [&](std::size_t leaf, std::size_t offset, auto block) {
///       for (std::size_t i = 0; i < block.size(); ++i) weights[leaf][offset + i] -= rate * block[i];
///     });
///
/// - `std::size_t leaf` counts the floating-point leaves in the order of for_each_leaf, from 0 up to leaf_count(tree) - 1. One
///   without elements counts, and `f` is not called for it; what is absent (an empty optional, an undefined tensor) does not
///   count. A tensor that the tree reaches twice is two leaves.
/// - `std::size_t offset` is the place in the leaf of the block's first element. Elements are counted in the order they lie in,
///   without gaps between them: the dimension with the longest stride is the outermost one. So they are data()[offset],
///   data()[offset + 1], … where a leaf has no gaps, whether by rows or by columns. A leaf that repeats elements, as a
///   broadcast tensor does, has no such order and is a std::invalid_argument.
/// - `headroom::span<const float> block` has 1 to 1,024 elements, with the same bits as if the tree were scaled into floats:
///   multiplied in float by the factor as a float, or, where the elements are double, in double and rounded once (so that what
///   exceeds float is Inf, although the double may be finite). It begins at a multiple of 64 bytes, and lasts until `f`
///   returns. It is a copy: `f` may overwrite the elements it was made from.
///
/// Blocks of a leaf begin at multiples of 1,024, whatever the executor. Without one they come in order, leaf by leaf. With
/// `parallel(n)` each comes once, in any order, and `f` is called by several threads at the same time, for different blocks:
/// results are the same if a call writes only what belongs to its block.
///
/// What `f` returns is ignored. What it throws is passed on, with several threads the first error, after the others have ended
/// their shares. Throws std::invalid_argument before the first call if the factor is beyond float, or a leaf cannot be walked.
template <class Executor, class Tree, class F>
void for_each_block(const Executor& executor, const Tree& tree, const double& factor, F&& f) {
  if constexpr (detail::check_is_executor<Executor>() && detail::check_takes_blocks<F>()) {
    detail::check_factor(factor);
    detail::Plan plan;
    detail::plan_one<detail::BlockOps, false>(plan, tree);
    detail::check_has_offsets(plan, tree);
    detail::run_blocks(executor, plan, factor, f);
  }
}
template <class Tree, class F>
void for_each_block(const Tree& tree, const double& factor, F&& f) {
  headroom::for_each_block(sequential, tree, factor, f);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
