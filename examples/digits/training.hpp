#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "data.hpp"
#include "network.hpp"
#include "random.hpp"

namespace digits {

struct Settings {
  std::size_t training_images = 1400;  // of 1797; the rest are the test set
  std::size_t batch = 700;
  int epochs = 400;
  float peak_rate = 0.02F;  // falls to 0 along half a cosine
  int hidden_layers = 6;
  int hidden_width = 64;
  Activation activation = Activation::sigmoid;
  std::uint32_t seed = 8;
  int lost_every = 25;  // steps between two counts of lost gradients

  [[nodiscard]] int steps() const { return epochs * static_cast<int>(training_images / batch); }
  [[nodiscard]] float rate(int step) const {
    return peak_rate * static_cast<float>(0.5 + 0.5 * std::cos(3.14159265358979 * step / steps()));
  }
};

/// The results of a training, for the table and the picture.
struct Result {
  std::string name;
  std::vector<float> losses;  // training loss of every step's batch
  std::vector<float> scales;  // loss scale of every step
  // The largest unscaled |gradient| of every step; Inf if it overflowed
  std::vector<double> max_abs;
  double final_loss = 0.0;  // mean of the last epoch
  int skipped = 0;
  double lost_share = 0.0;     // see lost_share(); mean over the steps that were counted
  double test_accuracy = 0.0;  // in percent
};

/// Adam over float master weights.
class Adam {
 public:
  /// Everything that later steps depend on, for a checkpoint.
  struct State {
    Model<float> mean, square;  // moving averages of the gradients and their squares
    int steps = 0;
  };

  explicit Adam(const Model<float>& model) : state_{zeros_like(model), zeros_like(model)} {}

  [[nodiscard]] const State& state() const { return state_; }
  void set_state(State state) { state_ = std::move(state); }

  void step(Model<float>& model, const Model<float>& grads, float rate) {
    auto& [mean, square, steps] = state_;
    ++steps;
    const float step_rate = rate / static_cast<float>(1.0 - std::pow(0.9, steps));
    const auto square_factor = static_cast<float>(1.0 / (1.0 - std::pow(0.999, steps)));
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      update(model.layers[i].weight, mean.layers[i].weight, square.layers[i].weight,
             grads.layers[i].weight, step_rate, square_factor);
      update(model.layers[i].bias, mean.layers[i].bias, square.layers[i].bias, grads.layers[i].bias,
             step_rate, square_factor);
    }
  }

 private:
  static Model<float> zeros_like(Model<float> model) {
    headroom::for_each_leaf(model, [](auto& leaf) { leaf.setZero(); });
    return model;
  }
  template <class Dense>
  static void update(Dense& weight, Dense& mean, Dense& square, const Dense& grad, float rate,
                     float square_factor) {
    mean = 0.9F * mean + 0.1F * grad;
    square = 0.999F * square + 0.001F * grad.cwiseAbs2();
    weight.array() -= rate * mean.array() / ((square.array() * square_factor).sqrt() + 1e-12F);
  }

  State state_;
};

/// Of the weight gradients that are not zero in float at these weights, the share that is zero in
/// `grads`.
inline double lost_share(const Model<float>& model, const Images& batch, const Model<float>& grads,
                         Activation activation) {
  const auto activations = forward(model, batch.pixels, activation);
  const Loss loss = cross_entropy(activations.back(), batch.labels, 1.0F);
  const auto exact = backward(model, activations, loss.logit_gradient, activation);
  long lost = 0, present = 0;
  for (std::size_t i = 0; i < exact.layers.size(); ++i) {
    const auto is_present = exact.layers[i].weight.array() != 0.0F;
    present += is_present.count();
    lost += (is_present && grads.layers[i].weight.array() == 0.0F).count();
  }
  return present == 0 ? 0.0 : static_cast<double>(lost) / static_cast<double>(present);
}

/// Images classified correctly, in percent. If a logit is NaN or the largest is Inf, softmax is NaN
/// and the image counts as wrong.
template <class Scalar>
double accuracy(const Model<float>& model, const Images& images,
                Activation activation = Activation::sigmoid) {
  const Matrix<float> logits =
      widen(forward(headroom::cast<Scalar>(model), images.pixels, activation).back());
  int right = 0;
  for (Eigen::Index i = 0; i < logits.cols(); ++i) {
    Eigen::Index best = 0;
    const float largest = logits.col(i).maxCoeff<Eigen::PropagateNaN>(&best);
    right += std::isfinite(largest) && best == images.labels[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  return 100.0 * right / static_cast<double>(images.size());
}

/// Trains with parameters, activations and gradients in Scalar. All random numbers depend on the
/// seed alone. Calls `tick` after each step.
template <class Scalar, class Policy>
Result train(const std::string& name, Policy loss_scale, const Images& images,
             const Settings& settings, const std::function<void()>& tick) {
  Random random(settings.seed);
  std::vector<int> order(images.size());
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  const Images test = images.subset(order, settings.training_images, images.size());
  order.resize(settings.training_images);

  std::vector<Eigen::Index> widths(static_cast<std::size_t>(settings.hidden_layers) + 2,
                                   settings.hidden_width);
  widths.front() = pixels;
  widths.back() = classes;
  Model<float> model = random_model(widths, random, settings.activation);
  Adam adam(model);

  Result result;
  result.name = name;
  int counted = 0, step = 0;
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    random.shuffle(order);
    result.final_loss = 0.0;
    for (std::size_t begin = 0; begin + settings.batch <= order.size();
         begin += settings.batch, ++step) {
      const Images batch = images.subset(order, begin, begin + settings.batch);

      const auto params = headroom::cast<Scalar>(model);
      const auto activations = forward(params, batch.pixels, settings.activation);
      const Loss loss =
          cross_entropy(widen(activations.back()), batch.labels, loss_scale.scale(1.0F));
      const auto grads16 =
          backward(params, activations, rounded<Scalar>(loss.logit_gradient), settings.activation);

      const auto [grads, report] = loss_scale.unscale(grads16);
      result.losses.push_back(static_cast<float>(loss.mean));
      result.final_loss +=
          loss.mean / static_cast<double>(settings.training_images / settings.batch);
      result.scales.push_back(loss_scale.loss_scale());
      result.max_abs.push_back(report.max_abs);
      if (report.finite) {
        if (!std::is_same_v<Scalar, float> && step % settings.lost_every == 0) {
          result.lost_share += lost_share(model, batch, grads, settings.activation);
          ++counted;
        }
        adam.step(model, grads, settings.rate(step));
      } else {
        ++result.skipped;
      }
      loss_scale = loss_scale.adjust(report);
      tick();
    }
  }
  if (counted > 0) result.lost_share /= counted;
  result.test_accuracy = accuracy<Scalar>(model, test, settings.activation);
  return result;
}

}  // namespace digits
