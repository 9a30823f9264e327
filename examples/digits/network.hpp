#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <vector>

#include <headroom/adapters/eigen.hpp>
#include <headroom/headroom.hpp>

#include "random.hpp"

namespace digits {

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;
template <class Scalar>
using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

template <class Scalar>
struct Layer {
  Matrix<Scalar> weight;  // outputs × inputs
  Vector<Scalar> bias;    // outputs

  HEADROOM_TREE(Layer, weight, bias)
};

// Of the hidden layers
enum class Activation { sigmoid, relu };

// Layers; the last one has no activation function. Parameters and gradients are both a Model, which
// is a tree for headroom.
template <class Scalar>
struct Model {
  std::vector<Layer<Scalar>> layers;

  HEADROOM_TREE(Model, layers)
};

// Weights with variance 1 / fan_in, 2 / fan_in for ReLU (He et al., 2015); biases 0. `widths`:
// inputs, the hidden layers, classes.
inline Model<float> random_model(const std::vector<Eigen::Index>& widths, Random& random,
                                 Activation activation = Activation::sigmoid) {
  const float gain = activation == Activation::relu ? std::sqrt(2.0F) : 1.0F;
  Model<float> model;
  for (std::size_t i = 1; i < widths.size(); ++i) {
    const float deviation = gain / std::sqrt(static_cast<float>(widths[i - 1]));
    Matrix<float> weight(widths[i], widths[i - 1]);
    for (float& value : weight.reshaped()) value = deviation * random.normal();
    model.layers.push_back({weight, Vector<float>::Zero(widths[i])});
  }
  return model;
}

// As on a tensor core: operands are widened to float, and results are summed in float and rounded
// once. With Scalar = float both functions copy.
template <class Scalar, int Columns>
auto widen(const Eigen::Matrix<Scalar, Eigen::Dynamic, Columns>& operand) {
  return headroom::cast<float>(operand);
}
template <class Scalar>
Matrix<Scalar> rounded(const Matrix<float>& result) {
  return headroom::cast<Scalar>(result);
}

inline Matrix<float> activated(const Matrix<float>& x, Activation activation) {
  if (activation == Activation::relu) return x.cwiseMax(0.0F);
  return (1.0F + (-x.array()).exp()).inverse();
}
// The derivative, from the result.
inline Matrix<float> slope_at(const Matrix<float>& y, Activation activation) {
  if (activation == Activation::relu) return (y.array() > 0.0F).cast<float>();
  return y.array() * (1.0F - y.array());
}

// Returns the input of every layer, and the logits as the last element. One column per image.
template <class Scalar>
std::vector<Matrix<Scalar>> forward(const Model<Scalar>& model, const Matrix<float>& images,
                                    Activation activation = Activation::sigmoid) {
  std::vector<Matrix<Scalar>> activations = {rounded<Scalar>(images)};
  for (const auto& layer : model.layers) {
    Matrix<float> sum(layer.weight.rows(), images.cols());
    sum.noalias() = widen(layer.weight) * widen(activations.back());
    sum.colwise() += widen(layer.bias);
    Matrix<Scalar> stored = rounded<Scalar>(sum);
    const bool is_hidden = activations.size() < model.layers.size();
    activations.push_back(is_hidden ? rounded<Scalar>(activated(widen(stored), activation))
                                    : std::move(stored));
  }
  return activations;
}

// `logit_gradient` has been multiplied by the loss scale, so all gradients are scaled.
template <class Scalar>
Model<Scalar> backward(const Model<Scalar>& model, const std::vector<Matrix<Scalar>>& activations,
                       const Matrix<Scalar>& logit_gradient,
                       Activation activation = Activation::sigmoid) {
  Model<Scalar> grads = model;
  Matrix<Scalar> delta = logit_gradient;
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const Matrix<float> delta_f32 = widen(delta);
    const Matrix<float> input_f32 = widen(activations[i]);
    grads.layers[i].weight = rounded<Scalar>(delta_f32 * input_f32.transpose());
    grads.layers[i].bias = rounded<Scalar>(delta_f32.rowwise().sum());
    if (i == 0) break;
    const Matrix<Scalar> input_gradient =
        rounded<Scalar>(widen(model.layers[i].weight).transpose() * delta_f32);
    delta = rounded<Scalar>(widen(input_gradient).cwiseProduct(slope_at(input_f32, activation)));
  }
  return grads;
}

struct Loss {
  double mean = 0.0;             // cross-entropy per image and class
  Matrix<float> logit_gradient;  // of the mean, multiplied by `loss_scale`
};

// Softmax and cross-entropy are computed in float, as usual in mixed precision. The gradient is
// multiplied by the loss scale before it is first rounded to 16 bits.
inline Loss cross_entropy(const Matrix<float>& logits, const std::vector<int>& labels,
                          float loss_scale) {
  Loss loss;
  Matrix<float> shifted = logits.rowwise() - logits.colwise().maxCoeff();
  Matrix<float>& probability = loss.logit_gradient;
  probability = shifted.array().exp();
  const Eigen::RowVectorXf sums = probability.colwise().sum();
  probability.array().rowwise() /= sums.array();
  const float weight = loss_scale / static_cast<float>(logits.size());
  for (Eigen::Index image = 0; image < logits.cols(); ++image) {
    const int label = labels[static_cast<std::size_t>(image)];
    loss.mean += static_cast<double>(std::log(sums(image)) - shifted(label, image));
    probability(label, image) -= 1.0F;
  }
  loss.mean /= static_cast<double>(logits.size());
  loss.logit_gradient *= weight;
  return loss;
}

}  // namespace digits
