#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/report.hpp>
#include <headroom/state/state_dict.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

// What ranks combine before they decide. docs/distributed.md shows it in use.

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// What one rank found in the unscaled gradients of an optimizer, or all ranks together: see GradScaler::set_reducer.
struct GradientSums {
  bool finite = true;           ///< combined by AND
  double max_abs = 0.0;         ///< combined by maximum; +Inf if not finite
  double sum_of_squares = 0.0;  ///< combined by sum, if each rank holds a part of the gradients; +Inf if not finite, 0 if
                                ///< the gradients are not clipped
};

[[nodiscard]] inline GradientSums gradient_sums(const GradientReport& here) noexcept {
  return {here.finite, here.max_abs, here.finite ? 0.0 : detail::overflow().norm};
}
/// With the sum of squares, so that all ranks can clip by one norm.
[[nodiscard]] inline GradientSums gradient_sums(const GradientNorm& here) noexcept {
  return {here.finite, here.max_abs, here.finite ? here.norm * here.norm : detail::overflow().norm};
}

/// Thrown by reducers: the ranks are out of step, or their messages did not get through.
struct ReductionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

/// The norm over all ranks. An overflow here is one, whatever the reducer returns; so is a norm that is Inf or NaN, by which
/// gradients cannot be clipped.
[[nodiscard]] inline GradientNorm norm_of_all(const GradientNorm& here, const GradientSums& all) noexcept {
  const double norm = __builtin_sqrt(all.sum_of_squares);
  const bool finite = here.finite && all.finite && bit_cast<std::uint64_t>(norm) < binary64::infinity_bits;
  return finite ? GradientNorm{{true, all.max_abs}, norm} : overflow();
}
[[nodiscard]] inline GradientReport combined(const GradientReport& a, const GradientReport& b) noexcept {
  if (!a.finite) return a;
  return b.finite && b.max_abs < a.max_abs ? a : b;
}

}  // namespace detail

/// What all ranks found, for a policy: `loss_scale = loss_scale.adjust(all_reduce(report, reducer, loss_scale))`. `report`: a
/// GradientReport or GradientNorm; `reducer`: an MpiReducer, a C10dReducer, or any function that takes GradientSums and a
/// digest.
template <class Report, class Reducer, class Policy, std::enable_if_t<is_loss_scale_v<Policy>, int> = 0>
[[nodiscard]] Report all_reduce(const Report& here, Reducer& reducer, const Policy& loss_scale) {
  return detail::norm_of_all(GradientNorm{here}, reducer(gradient_sums(here), detail::state_digest(loss_scale)));
}

// ---- for the reducers in adapters/ ----

namespace detail {

/// The message of a rank: 32 bytes, copied as they are. Default constructed, it changes nothing it is combined with.
struct RankMessage {
  std::uint64_t max_abs = 0;  // bits, whose order is that of the magnitudes; those of Inf and NaN are above all others
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
  /// Whether the digests of all that have been combined are equal: the largest is the smallest.
  [[nodiscard]] bool agree() const noexcept { return digest == ~complement; }
  [[nodiscard]] GradientSums sums(int replicas) const noexcept {
    if (max_abs >= binary64::infinity_bits) return gradient_sums(overflow());
    return {true, bit_cast<double>(max_abs), sum_of_squares / static_cast<double>(replicas)};
  }
};

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_reduction_error(const std::string& message) {
#if HEADROOM_EXCEPTIONS
  throw ReductionError("headroom: " + message);
#else
  throw_logic_error({message});
#endif
}
/// `digests`: of all ranks; not all are equal.
[[noreturn]] inline void throw_out_of_step(const std::vector<std::uint64_t>& digests) {
  const auto differs = [&](std::uint64_t digest) { return digest != digests[0]; };
  const auto count = std::count_if(digests.begin(), digests.end(), differs);
  const auto first = std::find_if(digests.begin(), digests.end(), differs) - digests.begin();
  throw_reduction_error("the ranks are out of step: " + std::to_string(count) + " of " + std::to_string(digests.size()) +
                        " differ from rank 0, the first is rank " + std::to_string(first) +
                        "; compare their policies, checkpoints, loss scales, numbers of optimizers, max_norm and replicas");
}
inline void check_replicas(int replicas, int size) {
  if (replicas >= 1 && size % replicas == 0) return;
  throw_invalid_argument(
      {"replicas is ", std::to_string(replicas), "; it must divide the number of ranks, which is ", std::to_string(size)});
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
