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
#include <type_traits>
#include <vector>

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

/// What is counted in leaves: by a kernel of its own that takes a scale in place of the factor.
struct NonFiniteCounts : Found {
  std::size_t leaf = 0, position = 0;  // of the next element
  std::size_t first_leaf = 0, first = 0, nan_count = 0, inf_count = 0;
  NonFiniteKind kind{};

  [[nodiscard]] bool empty() const noexcept { return nan_count + inf_count == 0; }

  template <class Format>
  static void count(const Piece* piece, const Piece* last, double scale, Found& found) noexcept {
    using Bits = typename Format::bits_type;
    // Of a fixed length, so that compilers count with vectors at -O2; and so short that a counter of the elements' size will
    // do.
    constexpr std::size_t block = sizeof(Bits) == 1 ? 128 : 512;
    auto& self = static_cast<NonFiniteCounts&>(found);
    const Bits limit = largest_for<Format>(scale);
    for (; piece != last; ++piece) {
      const auto* elements = static_cast<const unsigned char*>(piece->source);
      std::size_t rest = piece->size;
      for (; rest >= block; rest -= block, elements += block * sizeof(Bits)) {
        // From memory while this block is counted, as in kernel/count_exponents.hpp.
        for (std::size_t byte = 0; byte < block * sizeof(Bits); byte += 64) __builtin_prefetch(elements + 2048 + byte);
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
  static constexpr auto count = on_every_isa(&NonFiniteCounts::count<In>);
  template <class In, class>
  static constexpr const Kernel* list[] = {count<In>.data()};
  template <class In, class>
  static constexpr PieceKind kind = {list<In, In>, sizeof(typename In::bits_type), sizeof(typename In::bits_type)};
};

/// Of the elements [begin, end) of a plan, numbered through all leaves.
[[nodiscard]] inline NonFiniteCounts count_nonfinite(const Plan& plan, double scale, std::size_t begin, std::size_t end) {
  const Pass pass{0, scale};
  NonFiniteCounts counts;
  std::size_t position = 0;  // of the leaf
  for (const Plan::Run& run : plan.runs()) {
    const Kernel kernel = run.kind->kernels[0][0];  // it is the same one on every instruction set
    for (const Piece* piece = plan.begin(run); piece != plan.end(run); position += piece++->size) {
      const std::size_t from = begin > position ? begin - position : 0;
      const std::size_t to = end - position < piece->size ? end - position : piece->size;
      if (from < to && position < end) {
        counts.leaf = static_cast<std::size_t>(piece - plan.pieces().begin());
        counts.position = from;
        if (run.depth == 0) {
          const auto* const elements = static_cast<const unsigned char*>(piece->source) + from * run.kind->source_bytes;
          const Piece part{elements, nullptr, to - from};
          kernel(&part, &part + 1, scale, counts);
        } else {
          StridedRun(plan, run, *piece, pass, kernel)(from, to, counts);
        }
      }
    }
  }
  return counts;
}

/// Where the first element of a tree is that is not finite, or will not be when it is divided by `scale`, at most 1.
template <class Executor, class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite_divided(const Executor& executor, const Tree& tree, double scale) {
  Plan plan;
  plan_one<FindOps, false>(plan, tree);
  std::size_t elements = 0;
  for (const Piece& piece : plan.pieces()) elements += piece.size;
  const std::size_t worth_it = plan.bytes() / least_share + 1,
                    threads = check_is_executor<Executor>() ? executor.concurrency() : 1;
  const std::size_t count = threads > 1 ? (threads < worth_it ? threads : worth_it) : 1;
  const std::size_t each = elements / count;
  NonFiniteCounts all;  // of a single share, for which nothing is allocated
  std::vector<NonFiniteCounts> several(count > 1 ? count : 0);
  NonFiniteCounts* const shares = count > 1 ? several.data() : &all;
  const auto run = [&](std::size_t i) {
    shares[i] = count_nonfinite(plan, scale, each * i, i + 1 == count ? elements : each * (i + 1));
  };
  count > 1 ? executor.run(count, run) : run(0);
  std::optional<NonFinite> found;
  for (std::size_t i = 0; i < count; ++i) {
    const NonFiniteCounts& share = shares[i];
    if (share.empty()) continue;
    if (!found) found = NonFinite{path_of(tree, share.first_leaf), share.first, share.kind, 0, 0};
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
  return detail::find_nonfinite_divided(executor, tree, 1.0);
}
template <class Tree>
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const Tree& tree) {
  return headroom::find_nonfinite(sequential, tree);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
