#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/report.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/training/reducer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

// What ranks tell each other, for whoever writes a reducer for an engine of their own.

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Ranks have not come to a decision: one failed, or they are not in the same state. All ranks that took part throw it.
struct ReductionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_reduction_error(const std::string& message) {
#if HEADROOM_EXCEPTIONS
  throw ReductionError("headroom: " + message);
#else
  throw_logic_error({message});
#endif
}

}  // namespace detail

/// The message of a rank in a reduction: its GradientSums and a digest of the state that its decisions depend on. 32 bytes that
/// can be copied as they are between machines of one byte order; one all-reduce with `combine` does for any size of model. An
/// engine without operations of one's own can all-gather the messages and combine them here.
class RankReport {
 public:
  /// Of no rank: combined with another report it changes nothing.
  RankReport() = default;
  /// The largest magnitude is Inf if the sums are not finite, whatever it was.
  explicit RankReport(const GradientSums& here, std::uint64_t digest = 0) noexcept
      : largest_(detail::bit_cast<std::uint64_t>(here.max_abs)),
        sum_of_squares_(here.sum_of_squares),
        lowest_(digest),
        highest_(digest) {
    if (!here.finite) largest_ = binary64::infinity_bits;
    if (largest_ == binary64::sign_mask) largest_ = 0;
  }
  /// Of a rank that has nothing to say but that it cannot go on.
  [[nodiscard]] static RankReport failed() noexcept {
    RankReport report;
    report.lowest_ = 0;
    report.highest_ = std::numeric_limits<std::uint64_t>::max();
    return report;
  }

  /// Associative up to the rounding of the sum, and commutative.
  void combine(const RankReport& other) noexcept {
    largest_ = std::max(largest_, other.largest_);
    sum_of_squares_ += other.sum_of_squares_;
    lowest_ = std::min(lowest_, other.lowest_);
    highest_ = std::max(highest_, other.highest_);
  }

  /// Whether all digests are equal, and nobody failed.
  [[nodiscard]] bool agree() const noexcept { return lowest_ >= highest_; }
  [[nodiscard]] bool has_failed() const noexcept { return lowest_ == failed().lowest_ && highest_ == failed().highest_; }
  /// Of one rank that has not failed.
  [[nodiscard]] std::uint64_t digest() const noexcept { return lowest_; }
  /// `replicas`: by how many ranks each gradient is held, for then the sum has each square as often.
  [[nodiscard]] GradientSums sums(int replicas = 1) const noexcept {
    // A NaN is above Inf. So is what has a sign, and that is no magnitude.
    if (largest_ >= binary64::infinity_bits) return gradient_sums(detail::overflow());
    return {true, detail::bit_cast<double>(largest_), sum_of_squares_ / static_cast<double>(replicas)};
  }

 private:
  std::uint64_t largest_ = 0;  // bits of the largest magnitude, which are in the order of magnitudes
  double sum_of_squares_ = 0.0;
  std::uint64_t lowest_ = std::numeric_limits<std::uint64_t>::max(), highest_ = 0;  // digest of all ranks so far
};
static_assert(sizeof(RankReport) == 32 && std::is_trivially_copyable_v<RankReport>);

namespace detail {

/// "rank 3", or "ranks 0, 3 and 5", of those for which is_one(report).
template <class IsOne>
[[nodiscard]] std::string names_of_ranks(const RankReport* ranks, std::size_t size, const IsOne& is_one) {
  constexpr std::size_t most = 8;
  const auto count = static_cast<std::size_t>(std::count_if(ranks, ranks + size, is_one));
  std::size_t named = 0;
  std::string names = count == 1 ? "rank" : "ranks";
  for (std::size_t rank = 0; rank < size && named < most; ++rank) {
    if (!is_one(ranks[rank])) continue;
    ++named;
    names += (named == 1 ? " " : named == count ? " and " : ", ") + std::to_string(rank);
  }
  return count > most ? concat({names, " and ", std::to_string(count - most), " more"}) : names;
}
/// Whether more ranks have this digest than any other; none of them has failed.
[[nodiscard]] inline bool is_of_most(std::uint64_t digest, const RankReport* ranks, std::size_t size) {
  const auto count = [&](std::uint64_t wanted) {
    return std::count_if(ranks, ranks + size, [&](const RankReport& rank) { return rank.digest() == wanted; });
  };
  const auto own = count(digest);
  if (2 * own > static_cast<std::ptrdiff_t>(size)) return true;
  return std::all_of(ranks, ranks + size,
                     [&](const RankReport& rank) { return rank.digest() == digest || count(rank.digest()) < own; });
}

}  // namespace detail

/// Throws ReductionError if not all of these ranks are in the same state, naming those that differ from most others, or that
/// failed. `ranks`: the report of each, in the order of their numbers in the group that reduces.
inline void check_ranks_agree(const RankReport* ranks, std::size_t size) {
  RankReport all;
  for (std::size_t i = 0; i < size; ++i) all.combine(ranks[i]);
  if (all.agree()) return;
  const auto has_failed = [](const RankReport& rank) { return rank.has_failed(); };
  if (std::any_of(ranks, ranks + size, has_failed)) {
    detail::throw_reduction_error(detail::names_of_ranks(ranks, size, has_failed) + " failed before this reduction");
  }
  const RankReport* const usual =
      std::find_if(ranks, ranks + size, [&](const RankReport& rank) { return detail::is_of_most(rank.digest(), ranks, size); });
  const bool all_differ = usual == ranks + size;
  const auto differs = [&](const RankReport& rank) { return all_differ || rank.digest() != usual->digest(); };
  detail::throw_reduction_error("the ranks are out of step: " + detail::names_of_ranks(ranks, size, differs) +
                                (all_differ ? " with each other" : " against the rest") +
                                "; compare their policies, checkpoints, numbers of steps and of optimizers, loss scales, "
                                "max_norm and replicas");
}

/// What all ranks found, for a policy: `loss_scale.adjust(all_reduce(report, reducer, loss_scale))`. Every rank calls it
/// equally often. `reducer`: an MpiReducer, a C10dReducer or any other of those that GradScaler::set_reducer takes with a
/// digest, which is that of the policy. Throws what the reducer throws.
template <class Reducer, class Policy, std::enable_if_t<is_loss_scale_v<Policy>, int> = 0>
[[nodiscard]] GradientReport all_reduce(const GradientReport& here, Reducer& reducer, const Policy& loss_scale) {
  return detail::norm_of_all({here}, reducer(gradient_sums(here), detail::state_digest(loss_scale)));
}
/// The same with the norm. One beyond double is an overflow.
template <class Reducer, class Policy, std::enable_if_t<is_loss_scale_v<Policy>, int> = 0>
[[nodiscard]] GradientNorm all_reduce(const GradientNorm& here, Reducer& reducer, const Policy& loss_scale) {
  return detail::norm_of_all(here, reducer(gradient_sums(here), detail::state_digest(loss_scale)));
}

namespace detail {

inline void check_replicas(int replicas, int size) {
  if (replicas >= 1 && size % replicas == 0) return;
  throw_invalid_argument(
      {"replicas is ", std::to_string(replicas), "; it must divide the number of ranks, which is ", std::to_string(size)});
}

/// While ranks are found to be out of step: what each of them says, and why if it failed. To be copied as it is.
struct Testimony {
  RankReport report;
  std::uint64_t started = 0;  // how many reductions it has begun, where several may be under way
  char why[216] = "";

  Testimony() = default;
  Testimony(const RankReport& own, std::string_view reason = {}) noexcept : report(own) {
    std::size_t size = std::min(reason.size(), sizeof why - 1);
    const auto is_within_character = [&](std::size_t i) { return (static_cast<unsigned char>(reason[i]) & 0xC0U) == 0x80U; };
    while (size > 0 && size < reason.size() && is_within_character(size)) --size;
    reason.copy(why, size);
  }
};
/// Throws ReductionError. `all`: of each rank, in their order; at least one failed or differs from another.
inline void throw_out_of_step(const std::vector<Testimony>& all) {
  std::vector<RankReport> reports;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string why(all[rank].why, strnlen(all[rank].why, sizeof all[rank].why));
    if (!why.empty()) throw_reduction_error("rank " + std::to_string(rank) + " failed: " + why);
    reports.push_back(all[rank].report);
  }
  check_ranks_agree(reports.data(), reports.size());
}

/// The digest of a rank that has taken its last decision.
inline constexpr std::uint64_t digest_of_the_end = digest_with(first_digest, std::string_view("finish"));

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
