#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "training.hpp"

// Mistakes that were published in training systems, each as a variant of Step.
namespace evidence {

enum class Fault {
  /// The scale is adjusted first, and the gradients are divided by the new one
  updated_before_unscale,
  unscaled_twice,
  /// The check of the second of two optimizers overwrites that of the first, and both obey it
  one_flag,
  /// Each of two optimizers obeys its own check, but only the second one's adjusts the scale
  flags_not_combined,
  clipped_before_unscale,
  skip_ignored,  ///< after an overflow the scale backs off, and the optimizer steps
  /// Each of two ranks owns half of the parameters, checks those alone, and has a scale of its own
  ranks_apart
};

struct KnownFault {
  Fault fault;
  std::string name, where;  ///< where: a system that had it
};

inline std::vector<KnownFault> known_faults() {
  return {{Fault::updated_before_unscale, "updated before unscale", "DeepSpeed, pull request 8588"},
          {Fault::unscaled_twice, "unscaled twice", "slime, pull request 1842"},
          {Fault::one_flag, "one flag for all optimizers", "Paddle, AmpScaler._found_inf"},
          {Fault::flags_not_combined, "flags not combined", "Paddle, AmpScaler._cache_founf_inf"},
          {Fault::clipped_before_unscale, "clipped before unscale", "Lightning, issue 9599"},
          {Fault::skip_ignored, "skip ignored", "BMTrain up to 0.2.2, at its lowest scale"},
          {Fault::ranks_apart, "ranks apart", "fairscale, pull request 179; torch, issue 136009"}};
}

/// Divides the leaves of a tree between two optimizers or ranks. Some faults lose the check of the
/// first. They show only if the first has the larger gradients, which overflow.
struct Halves {
  std::size_t split = 0;  ///< one half has the leaves before it, the other the rest
  bool last_layers_first = false;
};

class FaultyStep {
 public:
  FaultyStep(Fault fault, const headroom::AnyLossScale& loss_scale, const Schedule& schedule,
             const Halves& halves)
      : fault_(fault),
        halves_{{{loss_scale, schedule.epsilon, {0, halves.split}},
                 {loss_scale, schedule.epsilon, {halves.split}}}} {
    if (halves.last_layers_first) std::swap(halves_[0], halves_[1]);
  }

  [[nodiscard]] float loss_scale() const { return halves_[0].loss_scale.loss_scale(); }

  /// Returns the correct report, also if the fault loses it.
  template <class Model, class Gradients>
  headroom::GradientReport operator()(Model& weights, const Gradients& gradients, float rate) {
    if (fault_ == Fault::ranks_apart) return step_apart(weights, gradients, rate);
    headroom::AnyLossScale& loss_scale = halves_[0].loss_scale;
    auto grads16 = gradients(loss_scale.scale(1.0F));
    const headroom::GradientReport truth = loss_scale.unscale(grads16).report;
    if (fault_ == Fault::clipped_before_unscale) headroom::clip_by_global_norm(grads16, max_norm);
    if (fault_ == Fault::updated_before_unscale) loss_scale = loss_scale.adjust(truth);
    Model grads = loss_scale.unscale(grads16).grads;
    if (fault_ == Fault::unscaled_twice) (void)loss_scale.unscale_in_place(grads);
    if (truth.finite && fault_ != Fault::clipped_before_unscale)
      headroom::clip_by_global_norm(grads, max_norm);

    bool first = truth.finite, second = truth.finite, seen = truth.finite;
    if (fault_ == Fault::skip_ignored) first = second = true;
    if (fault_ == Fault::one_flag || fault_ == Fault::flags_not_combined) {
      seen = second = halves_[1].leaves.are_finite(grads);
      first = fault_ == Fault::one_flag ? second : halves_[0].leaves.are_finite(grads);
    }
    if (first) halves_[0].step(weights, grads, rate);
    if (second) halves_[1].step(weights, grads, rate);
    if (fault_ != Fault::updated_before_unscale)
      loss_scale = loss_scale.adjust({seen, truth.max_abs});
    return truth;
  }

 private:
  struct Leaves {
    std::size_t begin = 0, end = std::numeric_limits<std::size_t>::max();

    [[nodiscard]] bool has(std::size_t i) const { return i >= begin && i < end; }
    template <class Model>
    [[nodiscard]] bool are_finite(const Model& grads) const {
      bool finite = true;
      std::size_t next = 0;
      headroom::for_each_leaf(grads, [&](const auto& leaf) {
        finite = (!has(next++) || headroom::all_finite(leaf)) && finite;
      });
      return finite;
    }
  };
  /// An optimizer, or a rank of a sharded one.
  struct Half {
    headroom::AnyLossScale loss_scale;
    Adam adam;
    Leaves leaves;

    Half(const headroom::AnyLossScale& policy, float epsilon, Leaves which)
        : loss_scale(policy), adam(epsilon, which.begin, which.end), leaves(which) {}
    template <class Model>
    void step(Model& weights, const Model& grads, float rate) {
      adam.step(weights, grads, rate);
    }
  };

  /// Each rank scales the loss of its half of the batch by its own scale. Both get the mean of the
  /// scaled gradients.
  template <class Model, class Gradients>
  headroom::GradientReport step_apart(Model& weights, const Gradients& gradients, float rate) {
    Model mean = headroom::unscale(gradients(halves_[0].loss_scale.scale(1.0F), 0, 2), 2.0F).grads;
    headroom::accumulate_into(gradients(halves_[1].loss_scale.scale(1.0F), 1, 2), mean, 2.0F);
    headroom::GradientReport both{true, 0.0};
    for (Half& rank : halves_) {
      auto [grads, report] = rank.loss_scale.unscale(mean);
      report.finite = rank.leaves.are_finite(mean);
      if (report.finite) {
        if (headroom::all_finite(mean)) headroom::clip_by_global_norm(grads, max_norm);
        rank.step(weights, grads, rate);
      }
      rank.loss_scale = rank.loss_scale.adjust(report);
      both = {both.finite && report.finite, report.max_abs};
    }
    return both;
  }

  Fault fault_;
  std::array<Half, 2> halves_;
};

}  // namespace evidence
