#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/dtype/convert.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/report.hpp>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// The largest magnitude that is finite after it has been divided by `scale`, at most 1, in the arithmetic of its dtype: 16
/// bits are multiplied in float.
template <class Format>
[[nodiscard]] typename Format::bits_type largest_for(double scale) noexcept {
  const double bound = (std::is_same_v<Format, binary64> ? largest_double : largest_float) * scale;
  auto bits = convert_bits<binary64, Format>(bit_cast<std::uint64_t>(bound));
  if (bits > Format::largest_finite_bits) return Format::largest_finite_bits;
  if (convert_bits<Format, binary64>(bits) > bit_cast<std::uint64_t>(bound)) --bits;  // it was rounded up
  return bits;
}

/// What is counted in a leaf: as a kernel of its own, element by element, that takes a scale in place of the factor.
struct NonFiniteCounts : Found {
  std::size_t position = 0, first = 0, nan_count = 0, inf_count = 0;
  NonFiniteKind kind{};

  template <class Format>
  static void count(const Piece* piece, const Piece* last, double scale, Found& found) noexcept {
    auto& self = static_cast<NonFiniteCounts&>(found);
    const auto largest = largest_for<Format>(scale);
    for (; piece != last; ++piece) {
      for (std::size_t i = 0; i < piece->size; ++i, ++self.position) {
        typename Format::bits_type bits;
        std::memcpy(&bits, static_cast<const unsigned char*>(piece->source) + i * sizeof bits, sizeof bits);
        const auto magnitude = static_cast<typename Format::bits_type>(bits & Format::abs_mask);
        if (magnitude > largest) self.add(magnitude >= Format::smallest_nan_bits);
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

/// Where the first element of a tree is that is not finite, or will not be when it is divided by `scale`, at most 1.
template <class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite_divided(const Tree& tree, double scale) {
  Plan plan;
  plan_one<FindOps, false>(plan, tree);
  std::optional<NonFinite> found;
  for (std::size_t leaf = 0; leaf < plan.pieces().size(); ++leaf) {
    if (scale == 1.0 && is_finite(run_leaf(plan, leaf, {0}, Found{0, 0.0}))) continue;
    const auto counts = run_leaf(plan, leaf, {1, scale}, NonFiniteCounts{});
    if (counts.nan_count + counts.inf_count == 0) continue;
    if (!found) found = NonFinite{path_of(tree, leaf), counts.first, counts.kind, 0, 0};
    found->nan_count += counts.nan_count;
    found->inf_count += counts.inf_count;
  }
  return found;
}

}  // namespace detail

/// Where the first Inf or NaN of a tree is, and how many there are; nothing if all elements are finite. For the cold path after
/// a skipped step: finite leaves are read once at the speed of all_finite, the others a second time, element by element.
template <class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Tree& tree) {
  return detail::find_nonfinite_divided(tree, 1.0);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
