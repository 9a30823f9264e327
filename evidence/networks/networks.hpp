#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../../examples/digits/data.hpp"
#include "../../examples/digits/network.hpp"
#include "../../examples/digits/training.hpp"
#include "gpt.hpp"
#include "recurrent.hpp"
#include "text.hpp"

// The three networks. Each has these members:
//
//     Model<Scalar>                        a tree of parameters or gradients
//     Batch, next_batch()                  the examples of the next step
//     part(batch, i, n)                    the i-th of n equal parts of a batch
//     initial()                            the initial weights; call it once, before next_batch()
//     gradients(model, batch, loss_scale)  {mean loss, gradients of the loss times the loss scale},
//                                          in the model's format
//     quality(model)                       on examples that are in no batch
//
// All random numbers depend on the seed alone.
namespace evidence {

/// Adam's step size: rises over the first `warm_up` steps and falls to 0 along half a cosine.
struct Schedule {
  int steps = 0, warm_up = 0;
  float peak = 0.0F;
  float epsilon = 1e-8F;  // Adam's
  int micro_batches = 1;  // whose gradients a step sums in float

  [[nodiscard]] float rate(int step) const {
    const double rise = step < warm_up ? (step + 1.0) / (warm_up + 1.0) : 1.0;
    return peak *
           static_cast<float>(rise * (0.5 + 0.5 * std::cos(3.14159265358979 * step / steps)));
  }
};

template <class Model>
struct LossAndGradients {
  double loss = 0.0;
  Model grads;
};

/// The network of examples/digits.cpp. Quality: share of digits recognised, in percent.
class Digits {
 public:
  template <class Scalar>
  using Model = digits::Model<Scalar>;
  using Batch = digits::Images;
  struct Settings {
    Schedule schedule{2400, 0, 0.02F, 1e-12F};
    std::size_t training_images = 1400, batch = 700;
    int hidden_layers = 6, hidden_width = 64;
    digits::Activation activation = digits::Activation::sigmoid;
  };

  Digits(const digits::Images& images, const Settings& settings, std::uint32_t seed)
      : images_(images), settings_(settings), random_(seed), order_(images.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    random_.shuffle(order_);
    test_ = images.subset(order_, settings.training_images, images.size());
    order_.resize(settings.training_images);
  }

  [[nodiscard]] const Schedule& schedule() const { return settings_.schedule; }
  Model<float> initial() {
    std::vector<Eigen::Index> widths(static_cast<std::size_t>(settings_.hidden_layers) + 2,
                                     settings_.hidden_width);
    widths.front() = digits::pixels;
    widths.back() = digits::classes;
    return digits::random_model(widths, random_, settings_.activation);
  }
  Batch next_batch() {
    if (next_ + settings_.batch > order_.size()) next_ = 0;
    if (next_ == 0) random_.shuffle(order_);
    next_ += settings_.batch;
    return images_.subset(order_, next_ - settings_.batch, next_);
  }
  static Batch part(const Batch& batch, int i, int n) {
    return batch.part(static_cast<std::size_t>(i), static_cast<std::size_t>(n));
  }
  template <class Scalar>
  LossAndGradients<Model<Scalar>> gradients(const Model<Scalar>& model, const Batch& batch,
                                            float loss_scale) const {
    const auto activations = digits::forward(model, batch.pixels, settings_.activation);
    const digits::Loss loss =
        digits::cross_entropy(widen(activations.back()), batch.labels, loss_scale);
    return {loss.mean, digits::backward(model, activations, rounded<Scalar>(loss.logit_gradient),
                                        settings_.activation)};
  }
  template <class Scalar>
  double quality(const Model<float>& model) const {
    return digits::accuracy<Scalar>(model, test_, settings_.activation);
  }

 private:
  const digits::Images& images_;
  Settings settings_;
  Random random_;
  std::vector<int> order_;
  std::size_t next_ = 0;
  digits::Images test_;
};

/// A GPT that predicts the next word. A step has as many words as one of GPT-2 in llm.c. Quality:
/// cross-entropy per word of the test text, in nats.
class Language {
 public:
  template <class Scalar>
  using Model = Gpt<Scalar>;
  using Batch = std::vector<Sequence>;
  struct Settings {
    Schedule schedule{30, 3, 0.02F, 1e-8F, 512};
    GptShape shape{64, 16, 2, 2, 16};
    std::size_t batch = 32768, test_sequences = 512;  // 524,288 words
  };

  /// Throws std::invalid_argument if the text is too short for a sequence.
  Language(const Text& text, const Settings& settings, std::uint32_t seed)
      : text_(text),
        settings_(settings),
        random_(seed),
        pass_(settings.shape.heads, settings.shape.context) {
    if (std::min(text.training.size(), text.test.size()) <
        static_cast<std::size_t>(settings.shape.context) + 2) {
      throw std::invalid_argument("the text is too short");
    }
  }

  [[nodiscard]] const Schedule& schedule() const { return settings_.schedule; }
  Model<float> initial() { return random_gpt(settings_.shape, random_); }
  Batch next_batch() { return draw(text_.training, settings_.batch, random_); }
  static Batch part(const Batch& batch, int i, int n) {
    const auto at = [&](int k) {
      return batch.begin() + static_cast<std::ptrdiff_t>(batch.size()) * k / n;
    };
    return {at(i), at(i + 1)};
  }
  template <class Scalar>
  LossAndGradients<Model<Scalar>> gradients(const Model<Scalar>& model, const Batch& batch,
                                            float loss_scale) const {
    auto [loss, grads] = pass_.gradients(model, batch, loss_scale);
    return {loss, std::move(grads)};
  }
  template <class Scalar>
  double quality(const Model<float>& model) const {
    const auto params = headroom::cast<Scalar>(model);
    Random random(0);  // the same sequences for all networks
    return pass_.loss(params, draw(text_.test, settings_.test_sequences, random));
  }

 private:
  [[nodiscard]] Batch draw(const std::vector<int>& words, std::size_t n, Random& random) const {
    const auto length = static_cast<std::size_t>(settings_.shape.context) + 1;
    Batch batch;
    for (std::size_t i = 0; i < n; ++i) {
      const auto begin =
          words.begin() + static_cast<std::ptrdiff_t>(random.uniform() *
                                                      static_cast<double>(words.size() - length));
      batch.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(length));
    }
    return batch;
  }

  const Text& text_;
  Settings settings_;
  Random random_;
  GptPass pass_;
};

/// A recurrent network that adds two marked numbers of a sequence. Quality: decimal logarithm of
/// the mean squared error.
class Adding {
 public:
  template <class Scalar>
  using Model = Recurrent<Scalar>;
  using Batch = Sequences;
  struct Settings {
    Schedule schedule{3000, 0, 0.01F};
    int length = 40, width = 32, batch = 64, test_examples = 2000;
  };

  Adding(const Settings& settings, std::uint32_t seed) : settings_(settings), random_(seed) {}

  [[nodiscard]] const Schedule& schedule() const { return settings_.schedule; }
  Model<float> initial() { return random_recurrent(2, settings_.width, random_); }
  Batch next_batch() { return adding_problem(settings_.batch, settings_.length, random_); }
  static Batch part(const Batch& batch, int i, int n) { return batch.part(i, n); }
  template <class Scalar>
  LossAndGradients<Model<Scalar>> gradients(const Model<Scalar>& model, const Batch& batch,
                                            float loss_scale) const {
    auto [loss, grads] = RecurrentPass<Scalar>::gradients(model, batch, loss_scale);
    return {loss, std::move(grads)};
  }
  template <class Scalar>
  double quality(const Model<float>& model) const {
    Random random(0);
    return std::log10(RecurrentPass<Scalar>::loss(
        headroom::cast<Scalar>(model),
        adding_problem(settings_.test_examples, settings_.length, random)));
  }

 private:
  Settings settings_;
  Random random_;
};

}  // namespace evidence
