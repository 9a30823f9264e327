#pragma once

#include <headroom/ops/run.hpp>
#include <headroom/report.hpp>

#include <cstddef>
#include <cstring>
#include <optional>

HEADROOM_DETAIL_BEGIN_NAMESPACE

namespace detail {

/// Counts Inf and NaN leaf by leaf. The elements of a strided leaf come in several parts.
struct NonFiniteCounts : Found {
  NonFinite all{};
  std::size_t seen = 0;  // elements of the leaf so far

  [[nodiscard]] std::size_t count() const noexcept { return all.nan_count + all.inf_count; }

  /// The same loop for every instruction set.
  template <class Format>
  static void add(const Piece* piece, const Piece*, double, bool, Found& found) noexcept {
    auto& self = static_cast<NonFiniteCounts&>(found);
    const auto* elements = static_cast<const unsigned char*>(piece->source);
    for (std::size_t i = 0; i < piece->size; ++i, ++self.seen) {
      typename Format::bits_type bits;
      std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
      bits = static_cast<typename Format::bits_type>(bits & Format::abs_mask);
      if (bits <= Format::largest_finite_bits) continue;
      const bool is_nan = bits >= Format::smallest_nan_bits;
      if (self.count() == 0) {
        self.all.index = self.seen;
        self.all.kind = is_nan ? NonFiniteKind::nan : NonFiniteKind::inf;
      }
      ++(is_nan ? self.all.nan_count : self.all.inf_count);
    }
  }
};

struct FindOps {
  template <class In>
  static constexpr Kernel add[] = {&NonFiniteCounts::add<In>};
  template <class In>
  static constexpr const Kernel* list[] = {add<In>};
  template <class In, class>
  static constexpr PieceKind kind = {list<In>, bytes_each<In>, bytes_each<In>};
};

}  // namespace detail

/// Finds the first Inf or NaN of a tree and counts both: path, index in the leaf, kind, counts. Empty if all elements are
/// finite. Reads every element in the calling thread. Call it after an overflow, not at each step.
template <class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Tree& tree) {
  detail::Plan plan;
  detail::make_plan<detail::FindOps, detail::Access::read>(plan, tree);
  detail::NonFiniteCounts counts{};
  for (const auto& run : plan.runs()) {
    for (const detail::Piece* piece = plan.begin(run); piece != plan.end(run); ++piece) {
      const bool found_before = counts.count() != 0;
      counts.seen = 0;
      detail::run_part(plan, run, *piece, detail::Pass{0}, run.kind->kernels[0][0], 0, piece->size, counts);
      if (found_before || counts.count() == 0) continue;
      counts.all.leaf = plan.place_of(*piece);
      counts.all.path = detail::path_of(tree, counts.all.leaf);
    }
  }
  return counts.count() == 0 ? std::nullopt : std::optional(counts.all);
}
/// Accepts an executor, as all verbs do, but does not use it.
template <class Executor, class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Executor&, const Tree& tree) {
  return detail::check_is_executor<Executor>() ? headroom::find_nonfinite(tree) : std::nullopt;
}

HEADROOM_DETAIL_END_NAMESPACE
