#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/report.hpp>
#include <headroom/state/state_dict.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

// What ranks combine before they decide on a step: see docs/distributed.md.

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// Measurements of an optimizer's unscaled gradients, on one rank or on all: see GradScaler::set_reducer.
struct GradientSums {
  bool finite = true;           ///< combined by AND
  double max_abs = 0.0;         ///< combined by maximum; +Inf if not finite
  double sum_of_squares = 0.0;  ///< combined by sum if each rank holds a part of the gradients; +Inf if not finite, 0 without
                                ///< clipping
};

/// For ranks that do not clip.
[[nodiscard]] inline GradientSums gradient_sums(const GradientReport& here) noexcept {
  return {here.finite, here.max_abs, here.finite ? 0.0 : detail::overflow().norm};
}
/// Includes the sum of squares, so that all ranks clip by the same norm.
[[nodiscard]] inline GradientSums gradient_sums(const GradientNorm& here) noexcept {
  return {here.finite, here.max_abs, here.finite ? here.norm * here.norm : detail::overflow().norm};
}

/// Thrown by reducers if the ranks are out of step, or if communication failed.
struct ReductionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

/// The norm over all ranks. The result is an overflow if this rank or the reducer reports one, or if the norm is Inf or NaN.
[[nodiscard]] inline GradientNorm norm_of_all(const GradientNorm& here, const GradientSums& all) noexcept {
  const double norm = __builtin_sqrt(all.sum_of_squares);
  const bool finite = here.finite && all.finite && bit_cast<std::uint64_t>(norm) < binary64::infinity_bits;
  return finite ? GradientNorm{{true, all.max_abs}, norm} : overflow();
}
[[nodiscard]] inline GradientReport combined(const GradientReport& a, const GradientReport& b) noexcept {
  if (!a.finite) return a;
  return b.finite && b.max_abs < a.max_abs ? a : b;
}

// ---- for the reducers in adapters/ ----

/// The message of a rank: 32 bytes, sent as they lie in memory. A default-constructed one is neutral in `combine`.
struct RankMessage {
  std::uint64_t max_abs = 0;  // the bits, ordered like the magnitudes; Inf and NaN are above all others
  double sum_of_squares = 0.0;
  std::uint64_t digest = 0, complement = 0;  // of the digest

  RankMessage() = default;
  RankMessage(const GradientSums& here, std::uint64_t digest_here, int replicas) noexcept
      : max_abs(here.finite ? bit_cast<std::uint64_t>(here.max_abs) : binary64::infinity_bits),
        sum_of_squares(here.sum_of_squares),
        digest(digest_with(digest_here, static_cast<std::uint64_t>(replicas))),
        complement(~digest) {}

  void combine(const RankMessage& other) noexcept {
    max_abs = std::max(max_abs, other.max_abs);
    sum_of_squares += other.sum_of_squares;
    digest = std::max(digest, other.digest);
    complement = std::max(complement, other.complement);
  }
  /// Whether all combined digests are equal, which means that the largest is the smallest.
  [[nodiscard]] bool agree() const noexcept { return digest == ~complement; }
  [[nodiscard]] GradientSums sums(int replicas) const noexcept {
    if (max_abs >= binary64::infinity_bits) return gradient_sums(overflow());
    return {true, bit_cast<double>(max_abs), sum_of_squares / static_cast<double>(replicas)};
  }
};

/// `digests` are those of all ranks. They must not all be equal.
[[noreturn]] inline void throw_out_of_step(const std::vector<std::uint64_t>& digests) {
  const auto differs = [&](std::uint64_t digest) { return digest != digests[0]; };
  const auto count = std::count_if(digests.begin(), digests.end(), differs);
  const auto first = std::find_if(digests.begin(), digests.end(), differs) - digests.begin();
  throw_error<ReductionError>(
      {"the ranks are out of step: ", std::to_string(count), " of ", std::to_string(digests.size()),
       " differ from rank 0, the first is rank ", std::to_string(first),
       "; compare their policies, checkpoints, loss scales, numbers of optimizers, max_norm and replicas"});
}
inline void check_replicas(int replicas, int size) {
  if (replicas >= 1 && size % replicas == 0) return;
  throw_invalid_argument(
      {"replicas is ", std::to_string(replicas), "; it must divide the number of ranks, which is ", std::to_string(size)});
}

}  // namespace detail

/// The report over all ranks: `loss_scale = loss_scale.adjust(all_reduce(report, reducer, loss_scale))`. `report` is a
/// GradientReport or GradientNorm. `reducer` is an MpiReducer, a C10dReducer, or a function of GradientSums and a digest.
template <class Report, class Reducer, class Policy, std::enable_if_t<is_loss_scale_v<Policy>, int> = 0>
[[nodiscard]] Report all_reduce(const Report& here, Reducer& reducer, const Policy& loss_scale) {
  return detail::norm_of_all(GradientNorm{here}, reducer(gradient_sums(here), detail::state_digest(loss_scale)));
}

HEADROOM_DETAIL_END_NAMESPACE
