#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/run.hpp>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

namespace headroom {
inline namespace HEADROOM_BUILD {

enum class NonFiniteKind { inf, nan };

/// The non-finite elements of a tree.
struct NonFinite {
  std::string path;           ///< of the first leaf that has one, as for_each_leaf_with_path gives it
  std::size_t index = 0;      ///< of the first one there, in the order its elements lie in: data()[index] where it has no gaps
  NonFiniteKind kind{};       ///< of that one
  std::size_t nan_count = 0;  ///< in the whole tree
  std::size_t inf_count = 0;
};

namespace detail {

/// What is counted in a leaf: as a kernel of its own, element by element.
struct NonFiniteCounts : Found {
  std::size_t position = 0, first = 0, nan_count = 0, inf_count = 0;
  NonFiniteKind kind{};

  template <class Format>
  static void count(const Piece* piece, const Piece* last, double, Found& found) noexcept {
    auto& self = static_cast<NonFiniteCounts&>(found);
    for (; piece != last; ++piece) {
      for (std::size_t i = 0; i < piece->size; ++i, ++self.position) {
        typename Format::bits_type bits;
        std::memcpy(&bits, static_cast<const unsigned char*>(piece->source) + i * sizeof bits, sizeof bits);
        const auto magnitude = static_cast<typename Format::bits_type>(bits & Format::abs_mask);
        if (magnitude > Format::largest_finite_bits) self.add(magnitude >= Format::smallest_nan_bits);
      }
    }
  }

 private:
  void add(bool is_nan) noexcept {
    if (nan_count + inf_count == 0) {
      first = position;
      kind = is_nan ? NonFiniteKind::nan : NonFiniteKind::inf;
    }
    ++(is_nan ? nan_count : inf_count);
  }
};

/// max_abs by instruction set, and the count.
struct FindOps {
  template <class In>
  static constexpr auto count = on_every_isa(&NonFiniteCounts::count<In>);
  template <class In, class>
  static constexpr const Kernel* list[] = {kernels<Op::max_abs, In>, count<In>.data()};
  template <class In, class>
  static constexpr PieceKind kind = {list<In, In>, sizeof(typename In::bits_type), sizeof(typename In::bits_type)};
};

}  // namespace detail

/// Where the first Inf or NaN of a tree is, and how many there are; nothing if all elements are finite. For the cold path after
/// a skipped step: finite leaves are read once at the speed of all_finite, the others a second time, element by element.
template <class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Tree& tree) {
  detail::Plan plan;
  detail::plan_one<detail::FindOps, false>(plan, tree);
  std::optional<NonFinite> found;
  for (std::size_t leaf = 0; leaf < plan.pieces().size(); ++leaf) {
    if (detail::is_finite(detail::run_leaf(plan, leaf, {0}, detail::Found{0, 0.0}))) continue;
    const auto counts = detail::run_leaf(plan, leaf, {1}, detail::NonFiniteCounts{});
    if (!found) found = NonFinite{detail::path_of(tree, leaf), counts.first, counts.kind, 0, 0};
    found->nan_count += counts.nan_count;
    found->inf_count += counts.inf_count;
  }
  return found;
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
