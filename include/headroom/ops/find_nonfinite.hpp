#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/detail/prefetch.hpp>
#include <headroom/dtype/convert.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/ops/buffer.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/report.hpp>

#include <cstddef>
#include <cstring>
#include <optional>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// Whether a finite magnitude is still finite once it is multiplied as for_each_block does it: in float, and doubles in double.
template <class Format>
[[nodiscard]] bool is_finite_times(double magnitude, double factor) noexcept {
  if constexpr (std::is_same_v<Format, binary64>) {
    return bit_cast<std::uint64_t>(launder(magnitude * factor)) < binary64::infinity_bits;
  } else {
    return magnitude * static_cast<double>(rounded_to_float(factor)) < rounds_to_infinity;  // exact: both have a float's digits
  }
}

/// The largest magnitude that is finite once it is multiplied.
template <class Format>
[[nodiscard]] typename Format::bits_type largest_finite_times(double factor) noexcept {
  using Bits = typename Format::bits_type;
  const auto fits = [factor](Bits bits) {
    return is_finite_times<Format>(bit_cast<double>(convert_bits<Format, binary64>(bits)), factor);
  };
  // Within a few units, for the quotient is rounded, and so will the product be.
  const double about = launder((std::is_same_v<Format, binary64> ? largest_double : largest_float) / factor);
  Bits bits = convert_bits<binary64, Format>(bit_cast<std::uint64_t>(about));
  if (bits > Format::largest_finite_bits) bits = Format::largest_finite_bits;
  while (!fits(bits)) --bits;
  while (bits < Format::largest_finite_bits && fits(static_cast<Bits>(bits + 1))) ++bits;
  return bits;
}

/// What is counted in leaves: by a kernel of its own, after the factor.
struct NonFiniteCounts : Found {
  std::size_t leaf = 0, position = 0;  // of the next element
  std::size_t first_leaf = 0, first = 0, nan_count = 0, inf_count = 0;
  NonFiniteKind kind{};

  [[nodiscard]] bool empty() const noexcept { return nan_count + inf_count == 0; }

  template <class Format>
  static void count(const Piece* piece, const Piece* last, double factor, Found& found) noexcept {
    using Bits = typename Format::bits_type;
    // Of a fixed length, so that compilers count with vectors at -O2; and so short that a counter of the elements' size will
    // do.
    constexpr std::size_t block = sizeof(Bits) == 1 ? 128 : 512;
    auto& self = static_cast<NonFiniteCounts&>(found);
    const Bits limit = largest_finite_times<Format>(factor);
    for (; piece != last; ++piece) {
      const auto* elements = static_cast<const unsigned char*>(piece->source);
      std::size_t rest = piece->size;
      for (; rest >= block; rest -= block, elements += block * sizeof(Bits)) {
        // From memory while this block is counted: counting keeps the processor too busy to look ahead.
        for (std::size_t byte = 0; byte < block * sizeof(Bits); byte += cache_line) prefetch(elements, 2048 + byte);
        const Bits bad = count_above<Format>(elements, std::integral_constant<std::size_t, block>(), limit);
        if (bad != 0) self.add<Format>(elements, std::integral_constant<std::size_t, block>(), limit, bad);
        self.position += block;
      }
      const Bits bad = count_above<Format>(elements, rest, limit);
      if (bad != 0) self.add<Format>(elements, rest, limit, bad);
      self.position += rest;
    }
  }

 private:
  template <class Format>
  static auto magnitude_at(const unsigned char* elements, std::size_t i) noexcept {
    typename Format::bits_type bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    return static_cast<typename Format::bits_type>(bits & Format::abs_mask);
  }
  template <class Format, class Size, class Bits>
  static Bits count_above(const unsigned char* elements, Size n, Bits limit) noexcept {
    Bits count = 0;
    for (std::size_t i = 0; i < n; ++i) {
      count = static_cast<Bits>(count + (magnitude_at<Format>(elements, i) > limit ? 1 : 0));
    }
    return count;
  }
  template <class Format, class Size, class Bits>
  void add(const unsigned char* elements, Size n, Bits limit, Bits bad) noexcept {
    if (empty()) {
      std::size_t i = 0;
      while (magnitude_at<Format>(elements, i) <= limit) ++i;
      first_leaf = leaf;
      first = position + i;
      kind = magnitude_at<Format>(elements, i) >= Format::smallest_nan_bits ? NonFiniteKind::nan : NonFiniteKind::inf;
    }
    const Bits nans = count_above<Format>(elements, n, static_cast<Bits>(Format::smallest_nan_bits - 1));
    nan_count += nans;
    inf_count += static_cast<std::size_t>(bad - nans);
  }
};

/// The count, by instruction set.
struct FindOps {
  template <class In>
  static constexpr auto count = detail::on_every_isa(&NonFiniteCounts::count<In>);
  template <class In, class>
  static constexpr const Kernel* list[] = {count<In>.data()};
  template <class In, class>
  static constexpr PieceKind kind = {list<In, In>, sizeof(typename In::bits_type), sizeof(typename In::bits_type)};
};

/// Of the elements [begin, end) of a plan, numbered through all leaves.
[[nodiscard]] inline NonFiniteCounts count_nonfinite(const Plan& plan, double factor, std::size_t begin, std::size_t end) {
  const Pass pass{0, factor};
  NonFiniteCounts counts;
  for_each_part(plan, begin, end, [&](const Plan::Run& run, const Piece& piece, std::size_t from, std::size_t to) {
    counts.leaf = plan.place_of(piece);
    counts.position = from;
    run_part(plan, run, piece, pass, run.kind->kernels[0][0], from, to, counts);  // the same on every instruction set
  });
  return counts;
}

/// Where the first element of a tree is that is not finite, or will not be once it is multiplied by `factor`.
template <class Executor, class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite_times(const Executor& executor, const Tree& tree, double factor) {
  Plan plan;
  detail::plan_one<FindOps, false>(plan, tree);
  // As if there were one share more: two threads from least_share bytes on.
  const std::size_t bytes = plan.bytes() + least_share;
  const std::size_t count = check_is_executor<Executor>() ? detail::count_shares(executor, bytes) : 1;
  Buffer<NonFiniteCounts, 1> shares;
  while (shares.size() < count) shares.push_back(NonFiniteCounts());
  detail::share_elements(executor, plan, count, [&](std::size_t i, std::size_t begin, std::size_t end) {
    shares.begin()[i] = count_nonfinite(plan, factor, begin, end);
  });
  std::optional<NonFinite> found;
  for (const NonFiniteCounts& share : shares) {
    if (share.empty()) continue;
    if (!found) found = NonFinite{detail::path_of(tree, share.first_leaf), share.first, share.kind, 0, 0};
    found->nan_count += share.nan_count;
    found->inf_count += share.inf_count;
  }
  return found;
}

}  // namespace detail

/// Where the first Inf or NaN of a tree is, and how many there are; nothing if all elements are finite. One pass that reads
/// every element, so that all are counted: beyond the caches it takes about as long as all_finite where all are finite, within
/// them several times as long.
template <class Executor, class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Executor& executor, const Tree& tree) {
  return detail::find_nonfinite_times(executor, tree, 1.0);
}
template <class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Tree& tree) {
  return headroom::find_nonfinite(sequential, tree);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
