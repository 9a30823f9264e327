#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headroom/observe/simulate.hpp>

#include "networks.hpp"

namespace evidence {

/// The elements of each leaf of a tree of floats, in the order of the tree.
template <class Model>
std::vector<Eigen::Map<const Eigen::ArrayXf>> leaves(const Model& model) {
  std::vector<Eigen::Map<const Eigen::ArrayXf>> leaves;
  headroom::for_each_leaf(model,
                          [&](const auto& leaf) { leaves.emplace_back(leaf.data(), leaf.size()); });
  return leaves;
}

/// Adam over the float master weights of the leaves [begin, end) of a tree; by default of all.
class Adam {
 public:
  explicit Adam(float epsilon, std::size_t begin = 0,
                std::size_t end = std::numeric_limits<std::size_t>::max())
      : epsilon_(epsilon), begin_(begin), end_(end) {}

  template <class Model>
  void step(Model& weights, const Model& grads, float rate) {
    ++steps_;
    const float step_rate = rate / static_cast<float>(1.0 - std::pow(0.9, steps_));
    const auto square_factor = static_cast<float>(1.0 / (1.0 - std::pow(0.999, steps_)));
    const auto sources = leaves(grads);
    moments_.resize(sources.size());
    std::size_t next = 0;
    headroom::for_each_leaf(weights, [&](auto& leaf) {
      const std::size_t i = next++;
      if (i < begin_ || i >= end_) return;
      auto& [mean, square] = moments_[i];
      if (mean.size() == 0) mean = square = Eigen::ArrayXf::Zero(sources[i].size());
      mean = 0.9F * mean + 0.1F * sources[i];
      square = 0.999F * square + 0.001F * sources[i].square();
      Eigen::Map<Eigen::ArrayXf>(leaf.data(), sources[i].size()) -=
          step_rate * mean / ((square * square_factor).sqrt() + epsilon_);
    });
  }

 private:
  struct Moments {
    Eigen::ArrayXf mean, square;
  };
  std::vector<Moments> moments_;
  float epsilon_;
  std::size_t begin_, end_;
  int steps_ = 0;
};

/// All steps, the faulty ones too, clip the gradients to this L2 norm.
constexpr double max_norm = 1.0;

/// A correct step: unscale, check, clip, Adam, adjust. `gradients(loss_scale)` computes the
/// gradients of the scaled loss.
class Step {
 public:
  Step(headroom::AnyLossScale loss_scale, const Schedule& schedule)
      : loss_scale_(std::move(loss_scale)),
        adam_(schedule.epsilon),
        micro_batches_(schedule.micro_batches) {}

  [[nodiscard]] float loss_scale() const { return loss_scale_.loss_scale(); }

  template <class Model, class Gradients>
  headroom::GradientReport operator()(Model& weights, const Gradients& gradients, float rate) {
    // Of a micro-batch's mean loss
    const float scale = loss_scale_.scale(1.0F) / static_cast<float>(micro_batches_);
    auto [grads, report] = loss_scale_.unscale(gradients(scale, 0, micro_batches_));
    for (int i = 1; i < micro_batches_; ++i) {
      const auto next = loss_scale_.accumulate_into(gradients(scale, i, micro_batches_), grads);
      report = {report.finite && next.finite, std::max(report.max_abs, next.max_abs)};
    }
    if (report.finite) {
      headroom::clip_by_global_norm(grads, max_norm);
      adam_.step(weights, grads, rate);
    }
    loss_scale_ = loss_scale_.adjust(report);
    return report;
  }

 private:
  headroom::AnyLossScale loss_scale_;
  Adam adam_;
  int micro_batches_;
};

/// The results of a training.
struct Result {
  double quality = 0.0;  ///< Inf if the test loss is NaN
  int skipped = 0;
  /// See lost_share(); mean over the steps that were counted, NaN if none were
  double lost_share = 0.0;
  /// As in headroom::GradientSimulation; NaN if not in fp16, or no step was taken
  double wasted_bits = 0.0;
  /// By step; max_abs is unscaled, and Inf if the step overflowed
  std::vector<double> losses, scales, max_abs;
};

/// The share of the gradients not zero in `exact` that is zero in `grads`.
template <class Model, class Exact>
double lost_share(const Model& grads, const Exact& exact) {
  const Exact widened = headroom::cast<float>(grads);
  const auto found = leaves(widened), wanted = leaves(exact);
  Eigen::Index lost = 0, present = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    present += (wanted[i] != 0.0F).count();
    lost += (wanted[i] != 0.0F && found[i] == 0.0F).count();
  }
  return present == 0 ? 0.0 : static_cast<double>(lost) / static_cast<double>(present);
}

/// One training with parameters, activations and gradients in Scalar and float master weights.
/// Every `lost_every` steps the gradients of the batch, or of its first micro-batch, are compared
/// with those in float at the same weights; 0 is never.
template <class Scalar, class Network, class Step>
Result train(Network network, Step step, int lost_every) {
  auto weights = network.initial();
  Result result;
  double wasted = 0.0, lost = 0.0;
  int measured = 0, counted = 0;
  for (int i = 0; i < network.schedule().steps; ++i) {
    const auto batch = network.next_batch();
    const auto params = headroom::cast<Scalar>(weights);
    double loss = 0.0, share = 0.0;
    const bool counts = lost_every > 0 && i % lost_every == 0;
    const auto gradients = [&](float loss_scale, int part = 0, int parts = 1) {
      const auto examples = parts == 1 ? batch : Network::part(batch, part, parts);
      auto found = network.gradients(params, examples, loss_scale);
      if (counts && part == 0)
        share = lost_share(found.grads, network.gradients(weights, examples, 1.0F).grads);
      loss += found.loss / parts;
      return std::move(found.grads);
    };
    const float scale = step.loss_scale();
    const headroom::GradientReport report = step(weights, gradients, network.schedule().rate(i));
    result.losses.push_back(loss);
    result.scales.push_back(static_cast<double>(scale));
    result.max_abs.push_back(report.max_abs);
    result.skipped += report.finite ? 0 : 1;
    if (report.finite && counts) {
      lost += share;
      ++counted;
    }
    if (report.finite && report.max_abs > 0.0) {
      wasted +=
          headroom::simulate(headroom::ConstantLossScale(scale), {report.max_abs}).wasted_bits;
      ++measured;
    }
  }
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  result.lost_share = counted == 0 ? unknown : lost / counted;
  result.wasted_bits =
      measured == 0 || !std::is_same_v<Scalar, Eigen::half> ? unknown : wasted / measured;
  result.quality = network.template quality<Scalar>(weights);
  if (std::isnan(result.quality)) result.quality = std::numeric_limits<double>::infinity();
  return result;
}

/// The largest |gradient| of each step of a training in float, for headroom::simulate.
template <class Network>
std::vector<double> record(Network network) {
  Step step(headroom::NoOpLossScale(), network.schedule());
  return train<float>(std::move(network), std::move(step), 0).max_abs;
}

}  // namespace evidence
