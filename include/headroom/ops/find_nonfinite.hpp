#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/report.hpp>

#include <cstddef>
#include <cstring>
#include <optional>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// What is counted in a chunk, and where its first non-finite element is.
struct NonFiniteCounts : Found {
  std::size_t first = 0, nan_count = 0, inf_count = 0;
  NonFiniteKind kind{};
  std::size_t seen = 0;  // elements: a leaf with strides comes in several parts

  template <class Format>
  static void count(const Piece* piece, const Piece*, double, bool, Found& found) noexcept {
    auto& self = static_cast<NonFiniteCounts&>(found);
    const auto* elements = static_cast<const unsigned char*>(piece->source);
    for (std::size_t i = 0; i < piece->size; ++i, ++self.seen) {
      typename Format::bits_type bits;
      std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
      bits = static_cast<typename Format::bits_type>(bits & Format::abs_mask);
      if (bits <= Format::largest_finite_bits) continue;
      const bool is_nan = bits >= Format::smallest_nan_bits;
      if (self.nan_count + self.inf_count == 0) {
        self.first = self.seen;
        self.kind = is_nan ? NonFiniteKind::nan : NonFiniteKind::inf;
      }
      ++(is_nan ? self.nan_count : self.inf_count);
    }
  }
};

/// The kernel that says whether a chunk is finite, and the loop that counts, which is the same on every instruction set.
struct FindOps {
  template <class In>
  static constexpr auto count = detail::on_every_isa(&NonFiniteCounts::count<In>);
  template <class In>
  static constexpr const Kernel* list[] = {kernels<Op::max_abs, In>, count<In>.data()};
  template <class In, class>
  static constexpr PieceKind kind = {list<In>, sizeof(typename In::bits_type), sizeof(typename In::bits_type)};
};

}  // namespace detail

/// Where the first Inf or NaN of a tree is, and how many there are; nothing if all elements are finite. Reads every element, in
/// the calling thread: it is meant for after an overflow.
template <class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Tree& tree) {
  detail::Plan plan;
  detail::plan_one<detail::FindOps, false>(plan, tree);
  std::optional<NonFinite> all;
  const auto count = [&](const detail::Plan::Run& run, const detail::Piece& piece, std::size_t begin, std::size_t end) {
    const auto isa = detail::isa_index();
    detail::NonFiniteCounts chunk{};
    detail::run_part(plan, run, piece, detail::Pass{0}, run.kind->kernels[0][isa], begin, end, chunk);
    if (detail::is_finite(chunk)) return;
    detail::run_part(plan, run, piece, detail::Pass{1}, run.kind->kernels[1][isa], begin, end, chunk);
    if (!all) all = NonFinite{detail::path_of(tree, plan.place_of(piece)), begin + chunk.first, chunk.kind, 0, 0};
    all->nan_count += chunk.nan_count;
    all->inf_count += chunk.inf_count;
  };
  for (const auto& run : plan.runs()) {
    for (const detail::Piece* piece = plan.begin(run); piece != plan.end(run); ++piece) {
      for (std::size_t begin = 0; begin < piece->size; begin += detail::chunk_size) {
        count(run, *piece, begin, piece->size - begin < detail::chunk_size ? piece->size : begin + detail::chunk_size);
      }
    }
  }
  return all;
}
/// With an executor, as all verbs; it is not needed here.
template <class Executor, class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Executor&, const Tree& tree) {
  return detail::check_is_executor<Executor>() ? headroom::find_nonfinite(tree) : std::nullopt;
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
