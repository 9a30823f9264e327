#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/ops/run.hpp>

#include <cstddef>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// Casts every dtype to float.
struct BlockOps {
  template <class In, class>
  static constexpr PieceKind kind = Ops<Op::cast>::kind<In, binary32>;
};

/// The number of floats in a block, 4 KiB: small beside a first-level cache, which an optimizer's other arrays need as well,
/// and large enough to hide the cost of a kernel call.
inline constexpr std::size_t floats_per_block = 1024;

/// Reads `n` elements of a leaf into `block`, from element `begin` on.
inline void read_block(const Plan& plan, const Plan::Run& run, const Piece& piece, Kernel kernel, std::size_t begin,
                       std::size_t n, float* block) {
  alignas(64) unsigned char gathered[floats_per_block * sizeof(double)];
  const std::size_t bytes = run.kind->source_bytes;
  const unsigned char* from = static_cast<const unsigned char*>(piece.source) + begin * bytes;
  if (run.depth != 0) {
    StridedElements(plan, run, &Dimension::source_stride, piece.source, begin).copy(gathered, n, true);
    from = gathered;
  } else {  // fetch the next block while the caller works on this one
    for (std::size_t i = n * bytes; i < 2 * n * bytes; i += cache_line) prefetch(from, i);
  }
  const Piece part{from, block, n};
  Found unused{0, 0.0};
  kernel(&part, &part + 1, 1.0, false, unused);
}

/// Calls `f` for the blocks that begin at elements [begin, end) of the plan, numbered through all leaves.
template <class F>
void run_blocks(const Plan& plan, std::size_t begin, std::size_t end, F& f) {
  alignas(64) float block[floats_per_block];
  const auto round_up_to_block = [](std::size_t i) { return (i + floats_per_block - 1) / floats_per_block * floats_per_block; };
  std::size_t position = 0;  // of the leaf's first element
  for (const Plan::Run& run : plan.runs()) {
    const Kernel kernel = run.kind->kernels[0][isa_index()];
    const bool is_contiguous_float = run.depth == 0 && run.kind == &BlockOps::kind<binary32, binary32>;
    for (const Piece* piece = plan.begin(run); piece != plan.end(run) && position < end; position += piece++->size) {
      const std::size_t limit = round_up_to_block(end - position), last = limit < piece->size ? limit : piece->size;
      for (std::size_t at = begin > position ? round_up_to_block(begin - position) : 0, n = 0; at < last; at += n) {
        n = is_contiguous_float || last - at < floats_per_block ? last - at : floats_per_block;
        if (!is_contiguous_float) read_block(plan, run, *piece, kernel, at, n, block);
        const float* const elements = is_contiguous_float ? static_cast<const float*>(piece->source) + at : block;
        (void)f(plan.place_of(*piece), at, span<const float>(elements, n));
      }
    }
  }
}

}  // namespace detail

/// Calls `f(leaf, offset, block)` for all elements of the tree, as floats. An optimizer with a loop of its own can read scaled
/// gradients this way, without a second copy of 16-bit ones. docs/recipes.md has such a loop.
///
/// - `leaf` is the index of the floating-point leaf in the order of for_each_leaf. Leaves without elements count.
/// - `offset` is the index of the block's first element in the leaf. If the leaf has no gaps, the elements are data()[offset],
///   data()[offset + 1], …. If it has gaps, elements are counted with the longest stride outermost. Throws
///   std::invalid_argument if a leaf repeats elements, as a broadcast tensor does.
/// - `block` is a headroom::span<const float>. For a float leaf without gaps it is all of the leaf's own memory. Otherwise it
///   is a copy of 1 to 1,024 elements, cast to float, 64-byte aligned, valid until `f` returns. Doubles beyond float become
///   Inf.
///
/// Blocks come in order, leaf by leaf. With `parallel(n)` several threads call `f` at once and in any order, and float leaves
/// may be split at multiples of 1,024. Results are the same if each call writes only what belongs to its block.
///
/// Exceptions of `f` are passed on; with `parallel(n)` the first one, when no task is running. Throws std::invalid_argument
/// before the first call if a leaf cannot be walked.
template <class Executor, class Tree, class F>
void for_each_block(const Executor& executor, const Tree& tree, F&& f) {
  if constexpr (detail::check_is_executor<Executor>()) {
    detail::Plan plan;
    detail::make_plan<detail::BlockOps, detail::Access::read_by_offset>(plan, tree);
    const std::size_t elements = plan.elements(), shares = detail::count_shares(executor, elements);
    if (shares == 1) return detail::run_blocks(plan, 0, elements, f);
    executor.run(shares, [&, each = elements / shares](std::size_t i) {
      detail::run_blocks(plan, each * i, i + 1 == shares ? elements : each * (i + 1), f);
    });
  }
}
template <class Tree, class F>
void for_each_block(const Tree& tree, F&& f) {
  headroom::for_each_block(sequential, tree, f);
}

HEADROOM_DETAIL_END_NAMESPACE
