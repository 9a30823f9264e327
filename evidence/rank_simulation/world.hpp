#pragma once

#include <algorithm>
#include <cstdint>
#include <headroom/policy/any.hpp>
#include <headroom/state/state_dict.hpp>
#include <headroom/training/reducer.hpp>

#include "wire.hpp"

namespace simulation {

using headroom::AnyLossScale;

// The message of a rank in an all-reduce. The default value is neutral.
struct Report {
  bool finite = true;
  double max_abs = 0.0, sum_of_squares = 0.0;
  std::uint64_t digest = 0, complement = 0;

  Report() = default;
  Report(const headroom::GradientSums& here, std::uint64_t of_state)
      : finite(here.finite),
        max_abs(here.max_abs),
        sum_of_squares(here.sum_of_squares),
        digest(of_state),
        complement(~of_state) {}
  void combine(const Report& other) {
    finite = finite && other.finite;
    max_abs = std::max(max_abs, other.max_abs);
    sum_of_squares += other.sum_of_squares;
    digest = std::max(digest, other.digest);
    complement = std::max(complement, other.complement);
  }
  [[nodiscard]] bool agree() const { return digest == ~complement; }
};

// What happens on the ranks. The same call always returns the same value.
struct World {
  std::uint64_t seed;
  std::uint32_t ranks;

  // The largest gradient of a rank, unscaled. Every thirtieth step it is Inf on one rank, whatever
  // the scale.
  [[nodiscard]] double max_abs(std::uint32_t step, std::uint32_t rank) const {
    Random of_step(seed, 1, step);
    if (of_step.uniform() < 1.0 / 30.0 && of_step.below(ranks) == rank) return 1e300;
    return 0.1 * Random(seed, mixed(step), rank).pareto(4.0);
  }
  // Of fp16 gradients that are scaled by the policy.
  [[nodiscard]] headroom::GradientSums sums(std::uint32_t step, std::uint32_t rank,
                                            const AnyLossScale& policy) const {
    const double magnitude = max_abs(step, rank);
    const bool finite = magnitude * static_cast<double>(policy.loss_scale()) < 65520.0;
    return headroom::gradient_sums(headroom::GradientNorm{{finite, magnitude}, magnitude});
  }
  // Microseconds of forward and backward: 100 ms and a little, and for one rank of a thousand much
  // more.
  [[nodiscard]] double microseconds(std::uint32_t launch, std::uint32_t step,
                                    std::uint32_t rank) const {
    Random random(seed, 2, (std::uint64_t{launch} << 40U) ^ (std::uint64_t{step} << 20U) ^ rank);
    const double usual = 1e5 * (1.0 + 0.02 * random.exponential());
    return random.uniform() < 1e-3 ? usual + 1e5 * random.pareto(1.2) : usual;
  }
};

struct Fault {
  enum Kind : std::uint8_t {
    killed,  // its process ends, and the launcher notices
    lost,    // its node falls silent, and the launcher misses its heartbeat
    aborts,  // throws and calls MPI_Abort
    leaves,  // throws and does not call MPI_Abort; its process lives on
  };
  Kind kind;
  std::uint32_t rank, step;
  int move;  // killed and lost: before this move of the reduction, or while it computes if -1
};
constexpr double until_end_is_noticed = 1e4, until_heartbeat_is_missed = 3e7;  // microseconds

struct Checkpoint {
  std::uint32_t step;
  headroom::StateDict state;
};

}  // namespace simulation
