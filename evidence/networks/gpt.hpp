#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "numbers.hpp"

// GPT-2 as in llm.c, but small: learned positions, layer norms before attention and perceptron,
// residual connections around them, GELU, biases, and one table of words for the input and the
// logits.
namespace evidence {

struct GptShape {
  int vocabulary, width, heads, blocks;
  int context;              // words of a sequence
  float deviation = 0.02F;  // of the initial weights
};

template <class Scalar>
struct Norm {
  Vector<Scalar> gain, bias;

  HEADROOM_TREE(Norm, gain, bias)
};

template <class Scalar>
struct Block {
  Norm<Scalar> attention_norm;
  Layer<Scalar> qkv;         // 3 width × width: queries, keys, values
  Layer<Scalar> projection;  // width × width
  Norm<Scalar> perceptron_norm;
  Layer<Scalar> up, down;  // 4 width × width, width × 4 width

  HEADROOM_TREE(Block, attention_norm, qkv, projection, perceptron_norm, up, down)
};

template <class Scalar>
struct Gpt {
  Matrix<Scalar> words;      // width × vocabulary
  Matrix<Scalar> positions;  // width × context
  std::vector<Block<Scalar>> blocks;
  Norm<Scalar> norm;

  HEADROOM_TREE(Gpt, words, positions, blocks, norm)
};

/// context + 1 successive words. The network predicts each from the second on.
using Sequence = std::vector<int>;

/// GPT-2's initial weights: those of the layers that add to the residual stream are divided by the
/// root of their number.
inline Gpt<float> random_gpt(const GptShape& shape, Random& random) {
  const int width = shape.width;
  const float residual = shape.deviation / std::sqrt(2.0F * static_cast<float>(shape.blocks));
  const auto layer = [&](int rows, int columns, float deviation) {
    return Layer<float>{random_matrix(rows, columns, deviation, random), Vector<float>::Zero(rows)};
  };
  Gpt<float> model;
  model.words = random_matrix(width, shape.vocabulary, shape.deviation, random);
  model.positions = random_matrix(width, shape.context, shape.deviation, random);
  model.norm = {Vector<float>::Ones(width), Vector<float>::Zero(width)};
  for (int i = 0; i < shape.blocks; ++i) {
    model.blocks.push_back(
        {model.norm, layer(3 * width, width, shape.deviation), layer(width, width, residual),
         model.norm, layer(4 * width, width, shape.deviation), layer(width, 4 * width, residual)});
  }
  return model;
}

/// Forward and backward. The table of words is input and output, so its gradient has two parts,
/// which are added in float.
class GptPass {
 public:
  /// Attention has `heads` heads and stays within a sequence of `context` words.
  GptPass(int heads, int context) : heads_(heads), context_(context) {}

  template <class Scalar>
  struct Result {
    double loss = 0.0;  // cross-entropy per word, in nats
    Gpt<Scalar> grads;  // of the loss times the loss scale
  };

  /// Softmax and cross-entropy are in float, as usual in mixed precision. The gradient of the
  /// logits is multiplied by the loss scale before it is first rounded to 16 bits.
  template <class Scalar>
  Result<Scalar> gradients(const Gpt<Scalar>& model, const std::vector<Sequence>& batch,
                           float loss_scale) const {
    Result<Scalar> result;
    result.grads = model;
    const Activations<Scalar> activations = forward(model, batch);
    Matrix<float> words = Matrix<float>::Zero(model.words.rows(), model.words.cols());
    Matrix<Scalar> delta = head(model, batch, activations.normed, loss_scale, result.loss, &words);
    delta = norm_backward(model.norm, activations.residual.back(), delta, result.grads.norm);
    for (std::size_t i = model.blocks.size(); i-- > 0;) {
      delta = block_backward(model.blocks[i], activations.blocks[i], activations.residual[i], delta,
                             result.grads.blocks[i]);
    }
    const Matrix<float> delta_f32 = widen(delta);
    Matrix<float> positions = Matrix<float>::Zero(model.positions.rows(), model.positions.cols());
    for (Eigen::Index i = 0; i < delta_f32.cols(); ++i) {
      words.col(word(batch, i)) += delta_f32.col(i);
      positions.col(i % context_) += delta_f32.col(i);
    }
    result.grads.words = rounded<Scalar>(words);
    result.grads.positions = rounded<Scalar>(positions);
    return result;
  }

  /// Cross-entropy per word, in nats.
  template <class Scalar>
  double loss(const Gpt<Scalar>& model, const std::vector<Sequence>& batch) const {
    double loss = 0.0;
    head(model, batch, forward(model, batch).normed, 1.0F, loss, nullptr);
    return loss;
  }

 private:
  template <class Scalar>
  struct BlockActivations {
    Matrix<Scalar> attention_input, qkv, mixed, middle, perceptron_input, up, hidden;
    std::vector<Matrix<Scalar>> attention;  // keys × queries, for each sequence and head
  };
  template <class Scalar>
  struct Activations {
    std::vector<Matrix<Scalar>> residual;  // before each block, and after the last
    std::vector<BlockActivations<Scalar>> blocks;
    Matrix<Scalar> normed;
  };

  /// The word of column i. The sequences of a batch are side by side.
  [[nodiscard]] int word(const std::vector<Sequence>& batch, Eigen::Index i, int ahead = 0) const {
    return batch[static_cast<std::size_t>(i / context_)]
                [static_cast<std::size_t>(i % context_ + ahead)];
  }

  template <class Scalar>
  Activations<Scalar> forward(const Gpt<Scalar>& model, const std::vector<Sequence>& batch) const {
    Matrix<float> input(model.words.rows(), static_cast<Eigen::Index>(batch.size()) * context_);
    for (Eigen::Index i = 0; i < input.cols(); ++i) {
      input.col(i) = model.words.col(word(batch, i)).template cast<float>();
      input.col(i) += model.positions.col(i % context_).template cast<float>();
    }
    Activations<Scalar> activations;
    activations.residual.push_back(rounded<Scalar>(input));
    for (const Block<Scalar>& block : model.blocks) {
      activations.blocks.emplace_back();
      activations.residual.push_back(
          block_forward(block, activations.residual.back(), activations.blocks.back()));
    }
    activations.normed = normed(model.norm, activations.residual.back());
    return activations;
  }

  template <class Scalar>
  Matrix<Scalar> block_forward(const Block<Scalar>& block, const Matrix<Scalar>& input,
                               BlockActivations<Scalar>& kept) const {
    kept.attention_input = normed(block.attention_norm, input);
    kept.qkv = product(block.qkv, kept.attention_input);
    kept.mixed = attention_forward(kept.qkv, kept.attention);
    kept.middle = sum(input, product(block.projection, kept.mixed));
    kept.perceptron_input = normed(block.perceptron_norm, kept.middle);
    kept.up = product(block.up, kept.perceptron_input);
    const Matrix<float> up = widen(kept.up);
    kept.hidden = rounded<Scalar>(up.array() * gelu_slope(up));
    return sum(kept.middle, product(block.down, kept.hidden));
  }

  template <class Scalar>
  Matrix<Scalar> block_backward(const Block<Scalar>& block, const BlockActivations<Scalar>& kept,
                                const Matrix<Scalar>& input, const Matrix<Scalar>& delta,
                                Block<Scalar>& grads) const {
    const Matrix<float> up = widen(kept.up),
                        hidden =
                            widen(product_backward(block.down, kept.hidden, delta, grads.down));
    Matrix<Scalar> inner = rounded<Scalar>(hidden.array() * gelu_derivative(up));
    inner = product_backward(block.up, kept.perceptron_input, inner, grads.up);
    inner = norm_backward(block.perceptron_norm, kept.middle, inner, grads.perceptron_norm);
    const Matrix<Scalar> middle = sum(delta, inner);
    inner = product_backward(block.projection, kept.mixed, middle, grads.projection);
    inner = attention_backward(kept.qkv, kept.attention, inner);
    inner = product_backward(block.qkv, kept.attention_input, inner, grads.qkv);
    inner = norm_backward(block.attention_norm, input, inner, grads.attention_norm);
    return sum(middle, inner);
  }

  /// Every word attends to itself and to the words before it in its sequence.
  template <class Scalar>
  Matrix<Scalar> attention_forward(const Matrix<Scalar>& qkv,
                                   std::vector<Matrix<Scalar>>& kept) const {
    const Matrix<float> all = widen(qkv);
    const Eigen::Index width = qkv.rows() / 3, size = width / heads_;
    Matrix<float> mixed(width, qkv.cols());
    for (Eigen::Index begin = 0; begin < qkv.cols(); begin += context_) {
      for (Eigen::Index row = 0; row < width; row += size) {
        const auto part = [&](Eigen::Index which) {
          return all.block(which * width + row, begin, size, context_);
        };
        Matrix<float> weights = part(1).transpose() * part(0) / std::sqrt(static_cast<float>(size));
        for (Eigen::Index query = 0; query < context_; ++query) {
          auto seen = weights.col(query).head(query + 1);
          seen = (seen.array() - seen.maxCoeff()).exp();
          seen /= seen.sum();
          weights.col(query).tail(context_ - query - 1).setZero();
        }
        kept.push_back(rounded<Scalar>(weights));
        mixed.block(row, begin, size, context_) = part(2) * widen(kept.back());
      }
    }
    return rounded<Scalar>(mixed);
  }

  template <class Scalar>
  Matrix<Scalar> attention_backward(const Matrix<Scalar>& qkv,
                                    const std::vector<Matrix<Scalar>>& kept,
                                    const Matrix<Scalar>& delta) const {
    const Matrix<float> all = widen(qkv), delta_f32 = widen(delta);
    const Eigen::Index width = qkv.rows() / 3, size = width / heads_;
    Matrix<float> result(qkv.rows(), qkv.cols());
    auto next = kept.begin();
    for (Eigen::Index begin = 0; begin < qkv.cols(); begin += context_) {
      for (Eigen::Index row = 0; row < width; row += size) {
        const auto part = [&](auto& matrix, Eigen::Index which) {
          return matrix.block(which * width + row, begin, size, context_);
        };
        const Matrix<float> weights = widen(*next++), mixed = part(delta_f32, 0);
        Matrix<float> scores = widen(rounded<Scalar>(part(all, 2).transpose() * mixed));
        const Eigen::RowVectorXf means = scores.cwiseProduct(weights).colwise().sum();
        scores =
            (scores.rowwise() - means).cwiseProduct(weights) / std::sqrt(static_cast<float>(size));
        scores = widen(rounded<Scalar>(scores));
        part(result, 0) = part(all, 1) * scores;
        part(result, 1) = part(all, 0) * scores.transpose();
        part(result, 2) = mixed * weights.transpose();
      }
    }
    return rounded<Scalar>(result);
  }

  /// One sequence at a time, because its logits fit into the cache. Adds the gradient of the table
  /// to `words`. If `words` is null, computes only the loss.
  template <class Scalar>
  Matrix<Scalar> head(const Gpt<Scalar>& model, const std::vector<Sequence>& batch,
                      const Matrix<Scalar>& normed, float loss_scale, double& loss,
                      Matrix<float>* words) const {
    const Matrix<float> table = widen(model.words), input = widen(normed);
    const float weight = loss_scale / static_cast<float>(input.cols());
    Matrix<float> delta(input.rows(), input.cols());
    for (Eigen::Index begin = 0; begin < input.cols(); begin += context_) {
      const auto part = input.middleCols(begin, context_);
      Matrix<float> logits = widen(rounded<Scalar>(table.transpose() * part));
      for (Eigen::Index i = 0; i < context_; ++i) {
        auto column = logits.col(i);
        const int target = word(batch, begin + i, 1);
        const float largest = column.maxCoeff(), right = column(target);
        column = (column.array() - largest).exp();
        const float total = column.sum();
        loss += static_cast<double>(std::log(total) + largest - right) /
                static_cast<double>(input.cols());
        column *= weight / total;
        column(target) -= weight;
      }
      if (words == nullptr) continue;
      logits = widen(rounded<Scalar>(logits));
      delta.middleCols(begin, context_).noalias() = table * logits;
      words->noalias() += part * logits.transpose();
    }
    return rounded<Scalar>(delta);
  }

  template <class Scalar>
  static Matrix<Scalar> sum(const Matrix<Scalar>& a, const Matrix<Scalar>& b) {
    return rounded<Scalar>(widen(a) + widen(b));
  }
  template <class Scalar>
  static Matrix<Scalar> product(const Layer<Scalar>& layer, const Matrix<Scalar>& input) {
    return rounded<Scalar>((widen(layer.weight) * widen(input)).colwise() + widen(layer.bias));
  }
  /// Returns the gradient of `input`.
  template <class Scalar>
  static Matrix<Scalar> product_backward(const Layer<Scalar>& layer, const Matrix<Scalar>& input,
                                         const Matrix<Scalar>& delta, Layer<Scalar>& grads) {
    const Matrix<float> delta_f32 = widen(delta);
    grads.weight = rounded<Scalar>(delta_f32 * widen(input).transpose());
    grads.bias = headroom::cast<Scalar>(Vector<float>(delta_f32.rowwise().sum()));
    return rounded<Scalar>(widen(layer.weight).transpose() * delta_f32);
  }
  /// GELU, approximated by tanh, is x times this.
  static Eigen::ArrayXXf gelu_slope(const Matrix<float>& x) {
    return 0.5F + 0.5F * (0.7978846F * (x.array() + 0.044715F * x.array().cube())).tanh();
  }
  static Eigen::ArrayXXf gelu_derivative(const Matrix<float>& x) {
    const Eigen::ArrayXXf slope = gelu_slope(x);
    return slope + x.array() * 2.0F * slope * (1.0F - slope) * 0.7978846F *
                       (1.0F + 0.134145F * x.array().square());
  }
  /// Mean 0 and variance 1 in each column. Returns the factors.
  static Eigen::RowVectorXf normalise(Matrix<float>& input) {
    input.rowwise() -= input.colwise().mean().eval();
    const Eigen::RowVectorXf factors =
        (input.colwise().squaredNorm() / static_cast<float>(input.rows()))
            .array()
            .
            operator+(1e-5F)
            .rsqrt();
    input *= factors.asDiagonal();
    return factors;
  }
  template <class Scalar>
  static Matrix<Scalar> normed(const Norm<Scalar>& norm, const Matrix<Scalar>& input) {
    Matrix<float> result = widen(input);
    normalise(result);
    return rounded<Scalar>((widen(norm.gain).asDiagonal() * result).colwise() + widen(norm.bias));
  }
  template <class Scalar>
  static Matrix<Scalar> norm_backward(const Norm<Scalar>& norm, const Matrix<Scalar>& input,
                                      const Matrix<Scalar>& delta, Norm<Scalar>& grads) {
    Matrix<float> normed = widen(input), inner = widen(delta);
    const Eigen::RowVectorXf factors = normalise(normed);
    grads.gain = headroom::cast<Scalar>(Vector<float>(inner.cwiseProduct(normed).rowwise().sum()));
    grads.bias = headroom::cast<Scalar>(Vector<float>(inner.rowwise().sum()));
    inner = widen(norm.gain).asDiagonal() * inner;
    const Eigen::RowVectorXf slopes = inner.cwiseProduct(normed).colwise().mean();
    inner.rowwise() -= inner.colwise().mean().eval();
    return rounded<Scalar>((inner - normed * slopes.asDiagonal()) * factors.asDiagonal());
  }

  int heads_;
  Eigen::Index context_;
};

}  // namespace evidence
