#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/kernel/table.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/report.hpp>
#include <headroom/tree/make_like.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Verbs with a factor for each leaf.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

using QuantizeOps = Ops<Op::quantize, Op::max_abs>;
using DequantizeOps = Ops<Op::scale>;

/// What a pass has found in each leaf: the largest magnitude, as the bits of a double.
using LeafMaxima = std::vector<std::uint64_t>;

/// Elements [begin, end) of a leaf.
struct LeafPart {
  const Plan& plan;
  const Plan::Run& group;
  const Piece& piece;
  std::size_t begin, end;

  /// Runs the first op of the plan, or another one that only reads. Returns the largest magnitude.
  [[nodiscard]] std::uint64_t run(const float& factor, bool streaming, std::size_t op = 0) const {
    Pass pass{op, static_cast<double>(factor)};
    pass.streaming = streaming;
    Found found{0, 0.0};
    const Piece part{piece.source, op == 0 ? piece.destination : nullptr, piece.size};
    run_part(plan, group, part, pass, group.kind->kernels[op][isa_index()], begin, end, found);
    return found.largest;
  }
  /// The largest magnitude of the source, by the second op.
  [[nodiscard]] std::uint64_t max_abs() const { return run(1.0F, false, 1); }
};

/// Runs `largest = run_part(leaf, part)` for all leaves, in as many threads as are worth it.
template <class Executor, class RunPart>
[[nodiscard]] LeafMaxima run_leaves(const Executor& executor, const Plan& plan, const RunPart& run_part) {
  static_assert(check_is_executor<Executor>());
  const std::size_t elements = plan.elements(), shares = detail::count_shares(executor, elements);
  std::vector<LeafMaxima> maxima(shares, LeafMaxima(plan.pieces().size()));
  const auto run_share = [&](std::size_t share) {
    const std::size_t begin = elements / shares * share, end = share + 1 == shares ? elements : begin + elements / shares;
    std::size_t position = 0;  // of the leaf's first element
    for (const Plan::Run& run : plan.runs()) {
      for (const Piece* piece = plan.begin(run); piece != plan.end(run) && position < end; position += piece++->size) {
        const std::size_t first = begin > position ? begin - position : 0, leaf = plan.place_of(*piece);
        const std::size_t last = end - position < piece->size ? end - position : piece->size;
        if (first < last) maxima[share][leaf] = run_part(leaf, LeafPart{plan, run, *piece, first, last});
      }
    }
  };
  (void)isa_index();  // chooses the instruction set, which may throw
  if (shares == 1) run_share(0);
  if (shares > 1) executor.run(shares, run_share);
  for (const LeafMaxima& share : maxima) {
    for (std::size_t leaf = 0; leaf < share.size(); ++leaf) maxima[0][leaf] = std::max(maxima[0][leaf], share[leaf]);
  }
  return std::move(maxima[0]);
}

/// Runs the first op with a factor for each leaf.
template <class Executor>
LeafMaxima run_with_factors(const Executor& executor, const Plan& plan, span<const float> factors) {
  const bool streaming = plan.bytes() >= least_streamed_pass;
  return detail::run_leaves(executor, plan,
                            [&](std::size_t leaf, const LeafPart& part) { return part.run(factors[leaf], streaming); });
}

/// The largest magnitude of a leaf as a float; Inf for a double beyond its range.
[[nodiscard]] inline float leaf_max_abs(std::uint64_t largest) noexcept {
  return bit_cast<float>(convert_bits<binary64, binary32>(largest));
}
[[nodiscard]] inline GradientReport report_of_leaves(const LeafMaxima& maxima) noexcept {
  Found all{0, 0.0};
  for (const std::uint64_t largest : maxima) add_largest(all, largest);
  return report_of(all);
}

[[nodiscard]] inline bool is_positive_and_finite(const float& value) noexcept {
  return bit_cast<std::uint32_t>(value) - 1 < binary32::infinity_bits - 1;
}
inline void check_one_for_each_leaf(std::string_view name, std::size_t size, std::size_t leaves) {
  if (size == leaves) return;
  throw_invalid_argument({name, " has ", std::to_string(size), " elements; the tree has ", std::to_string(leaves), " leaves"});
}
template <class Tree>
constexpr void check_leaf_order() {
  static_assert((holds_v<Tree> & Holds::unordered) == 0,
                "headroom: there is a scale for each leaf, in the order of leaves; use std::map, not std::unordered_map, whose "
                "order differs from tree to tree");
}
template <class Tree>
void check_factors(std::string_view name, span<const float> factors, const Plan& plan, const Tree& tree) {
  check_leaf_order<Tree>();
  check_one_for_each_leaf(name, factors.size(), plan.pieces().size());
  for (std::size_t leaf = 0; leaf < factors.size(); ++leaf) {
    if (is_positive_and_finite(factors[leaf])) continue;
    const std::string path = detail::path_of(tree, leaf);
    throw_invalid_argument({name, "[", std::to_string(leaf), "]", path.empty() ? "" : " of ", path, " is ",
                            to_text(static_cast<double>(factors[leaf])), "; it must be positive and finite"});
  }
}

}  // namespace detail

/// Writes `source * scale` as fp8, with a scale for each leaf, in one pass. A product is computed in float (in double if the
/// source is), rounded once to nearest-even, and saturates at the largest fp8 number: so does Inf. NaN stays NaN.
/// - `destination`: the same structure and shapes, with leaves of float8_e4m3 or float8_e5m2. See cast_into for what may
/// differ.
/// - `scales`: one for each floating-point leaf, in the order of for_each_leaf.
/// - `max_abs`: receives the largest magnitude of each leaf of the source, before scaling; +Inf for Inf, NaN, and doubles
///   beyond float.
///
/// The report is that of the whole source. Throws std::invalid_argument, before anything is written, if the trees differ, if a
/// span does not have one element for each leaf, or if a scale is not positive and finite.
template <class Executor, class Source, class Destination>
GradientReport quantize_into(const Executor& executor, const Source& source, Destination&& destination,
                             span<const float> scales, span<float> max_abs) {
  detail::Plan plan;
  detail::make_plan<detail::QuantizeOps, detail::Access::into>(plan, source, destination);
  detail::check_factors("scales", scales, plan, source);
  detail::check_one_for_each_leaf("max_abs", max_abs.size(), scales.size());
  const detail::LeafMaxima maxima = detail::run_with_factors(executor, plan, scales);
  for (std::size_t leaf = 0; leaf < max_abs.size(); ++leaf) max_abs[leaf] = detail::leaf_max_abs(maxima[leaf]);
  return detail::report_of_leaves(maxima);
}
template <class Source, class Destination>
GradientReport quantize_into(const Source& source, Destination&& destination, span<const float> scales, span<float> max_abs) {
  return headroom::quantize_into(sequential, source, destination, scales, max_abs);
}

/// Writes `source * inverse_scale` into a tree of any floating-point dtypes, with an inverse scale for each leaf. A product is
/// computed in float (in double if the destination is) and rounded once. Throws as quantize_into does.
template <class Executor, class Source, class Destination>
void dequantize_into(const Executor& executor, const Source& source, Destination&& destination,
                     span<const float> inverse_scales) {
  detail::Plan plan;
  detail::make_plan<detail::DequantizeOps, detail::Access::into>(plan, source, destination);
  detail::check_factors("inverse_scales", inverse_scales, plan, source);
  (void)detail::run_with_factors(executor, plan, inverse_scales);
}
template <class Source, class Destination>
void dequantize_into(const Source& source, Destination&& destination, span<const float> inverse_scales) {
  headroom::dequantize_into(sequential, source, destination, inverse_scales);
}
/// The same into a new tree with elements of To.
template <class To, class Executor, class Tree>
[[nodiscard]] auto dequantize(const Executor& executor, const Tree& tree, span<const float> inverse_scales) {
  auto result = detail::make_like<To>(tree);
  headroom::dequantize_into(executor, tree, result, inverse_scales);
  return result;
}
template <class To, class Tree>
[[nodiscard]] auto dequantize(const Tree& tree, span<const float> inverse_scales) {
  return headroom::dequantize<To>(sequential, tree, inverse_scales);
}

HEADROOM_DETAIL_END_NAMESPACE
