#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "numbers.hpp"

// A small decoder-only transformer: root-mean-square norms before attention and perceptron, residual connections around them,
// learned positions, and one table of words for the input and the logits.
namespace evidence {

struct TransformerShape {
  int vocabulary = 8192;
  int width = 16;
  int heads = 2;
  int blocks = 2;
  int context = 32;              // words of a sequence
  float word_deviation = 0.02F;  // standard deviation of the initial table
};

template <class Scalar>
struct Block {
  Vector<Scalar> attention_gain;  // width
  Matrix<Scalar> qkv;             // 3 width × width: queries, keys, values
  Matrix<Scalar> projection;      // width × width
  Vector<Scalar> perceptron_gain;
  Matrix<Scalar> up, down;  // 4 width × width, width × 4 width

  HEADROOM_TREE(Block, attention_gain, qkv, projection, perceptron_gain, up, down)
};

template <class Scalar>
struct Transformer {
  Matrix<Scalar> words;      // width × vocabulary
  Matrix<Scalar> positions;  // width × context
  std::vector<Block<Scalar>> blocks;
  Vector<Scalar> gain;  // width

  HEADROOM_TREE(Transformer, words, positions, blocks, gain)
};

/// context + 1 successive words. The network predicts each from the second on.
using Sequence = std::vector<int>;

inline Transformer<float> random_transformer(const TransformerShape& shape, Random& random) {
  const int width = shape.width;
  const float deviation = 1.0F / std::sqrt(static_cast<float>(width));
  Transformer<float> model;
  model.words = random_matrix(width, shape.vocabulary, shape.word_deviation, random);
  model.positions = random_matrix(width, shape.context, shape.word_deviation, random);
  model.gain = Vector<float>::Ones(width);
  for (int i = 0; i < shape.blocks; ++i) {
    model.blocks.push_back({model.gain, random_matrix(3 * width, width, deviation, random),
                            random_matrix(width, width, deviation, random), model.gain,
                            random_matrix(4 * width, width, deviation, random),
                            random_matrix(width, 4 * width, 0.5F * deviation, random)});
  }
  return model;
}

/// Forward and backward. The table of words is input and output, so its gradient has two parts, which are added in float.
class TransformerPass {
 public:
  /// Attention has `heads` heads and stays within a sequence of `context` words.
  TransformerPass(int heads, int context) : heads_(heads), context_(context) {}

  template <class Scalar>
  struct Result {
    double loss = 0.0;          // cross-entropy per word, in nats
    Transformer<Scalar> grads;  // of the loss times the loss scale
  };

  /// Softmax and cross-entropy are in float, as usual in mixed precision. The gradient of the logits is multiplied by the loss
  /// scale before it is first rounded to 16 bits.
  template <class Scalar>
  Result<Scalar> gradients(const Transformer<Scalar>& model, const std::vector<Sequence>& batch, float loss_scale) const {
    Result<Scalar> result;
    result.grads = model;
    const Activations<Scalar> activations = forward(model, batch);
    Matrix<float> words = Matrix<float>::Zero(model.words.rows(), model.words.cols());
    Matrix<Scalar> delta = head(model, batch, activations.normed, loss_scale, result.loss, &words);
    delta = norm_backward(model.gain, activations.residual.back(), delta, result.grads.gain);
    for (std::size_t i = model.blocks.size(); i-- > 0;) {
      delta = block_backward(model.blocks[i], activations.blocks[i], activations.residual[i], delta, result.grads.blocks[i]);
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
  double loss(const Transformer<Scalar>& model, const std::vector<Sequence>& batch) const {
    double loss = 0.0;
    head(model, batch, forward(model, batch).normed, 1.0F, loss, nullptr);
    return loss;
  }

 private:
  template <class Scalar>
  struct BlockActivations {
    Matrix<Scalar> attention_input, qkv, mixed, middle, perceptron_input, hidden;
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
    return batch[static_cast<std::size_t>(i / context_)][static_cast<std::size_t>(i % context_ + ahead)];
  }

  template <class Scalar>
  Activations<Scalar> forward(const Transformer<Scalar>& model, const std::vector<Sequence>& batch) const {
    Matrix<float> input(model.words.rows(), static_cast<Eigen::Index>(batch.size()) * context_);
    for (Eigen::Index i = 0; i < input.cols(); ++i) {
      input.col(i) = model.words.col(word(batch, i)).template cast<float>();
      input.col(i) += model.positions.col(i % context_).template cast<float>();
    }
    Activations<Scalar> activations;
    activations.residual.push_back(rounded<Scalar>(input));
    for (const Block<Scalar>& block : model.blocks) {
      activations.blocks.emplace_back();
      activations.residual.push_back(block_forward(block, activations.residual.back(), activations.blocks.back()));
    }
    activations.normed = norm(model.gain, activations.residual.back());
    return activations;
  }

  template <class Scalar>
  Matrix<Scalar> block_forward(const Block<Scalar>& block, const Matrix<Scalar>& input, BlockActivations<Scalar>& kept) const {
    kept.attention_input = norm(block.attention_gain, input);
    kept.qkv = product(block.qkv, kept.attention_input);
    kept.mixed = attention_forward(kept.qkv, kept.attention);
    kept.middle = sum(input, product(block.projection, kept.mixed));
    kept.perceptron_input = norm(block.perceptron_gain, kept.middle);
    kept.hidden = rounded<Scalar>(widen(product(block.up, kept.perceptron_input)).cwiseMax(0.0F));
    return sum(kept.middle, product(block.down, kept.hidden));
  }

  template <class Scalar>
  Matrix<Scalar> block_backward(const Block<Scalar>& block, const BlockActivations<Scalar>& kept, const Matrix<Scalar>& input,
                                const Matrix<Scalar>& delta, Block<Scalar>& grads) const {
    Matrix<float> hidden = widen(product_backward(block.down, kept.hidden, delta, grads.down));
    hidden = (widen(kept.hidden).array() > 0.0F).select(hidden, 0.0F);
    Matrix<Scalar> inner = product_backward(block.up, kept.perceptron_input, rounded<Scalar>(hidden), grads.up);
    inner = norm_backward(block.perceptron_gain, kept.middle, inner, grads.perceptron_gain);
    const Matrix<Scalar> middle = sum(delta, inner);
    inner = product_backward(block.projection, kept.mixed, middle, grads.projection);
    inner = attention_backward(kept.qkv, kept.attention, inner);
    inner = product_backward(block.qkv, kept.attention_input, inner, grads.qkv);
    inner = norm_backward(block.attention_gain, input, inner, grads.attention_gain);
    return sum(middle, inner);
  }

  /// Every word attends to itself and to the words before it in its sequence.
  template <class Scalar>
  Matrix<Scalar> attention_forward(const Matrix<Scalar>& qkv, std::vector<Matrix<Scalar>>& kept) const {
    const Matrix<float> all = widen(qkv);
    const Eigen::Index width = qkv.rows() / 3, size = width / heads_;
    Matrix<float> mixed(width, qkv.cols());
    for (Eigen::Index begin = 0; begin < qkv.cols(); begin += context_) {
      for (Eigen::Index row = 0; row < width; row += size) {
        const auto part = [&](Eigen::Index which) { return all.block(which * width + row, begin, size, context_); };
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
  Matrix<Scalar> attention_backward(const Matrix<Scalar>& qkv, const std::vector<Matrix<Scalar>>& kept,
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
        scores = (scores.rowwise() - means).cwiseProduct(weights) / std::sqrt(static_cast<float>(size));
        scores = widen(rounded<Scalar>(scores));
        part(result, 0) = part(all, 1) * scores;
        part(result, 1) = part(all, 0) * scores.transpose();
        part(result, 2) = mixed * weights.transpose();
      }
    }
    return rounded<Scalar>(result);
  }

  /// One sequence at a time, because its logits fit into the cache. Adds the gradient of the table to `words`. If `words` is
  /// null, computes only the loss.
  template <class Scalar>
  Matrix<Scalar> head(const Transformer<Scalar>& model, const std::vector<Sequence>& batch, const Matrix<Scalar>& normed,
                      float loss_scale, double& loss, Matrix<float>* words) const {
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
        loss += static_cast<double>(std::log(total) + largest - right) / static_cast<double>(input.cols());
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
  /// Gradients of weight * input. Returns that of `input`.
  template <class Scalar>
  static Matrix<Scalar> product_backward(const Matrix<Scalar>& weight, const Matrix<Scalar>& input, const Matrix<Scalar>& delta,
                                         Matrix<Scalar>& grad) {
    const Matrix<float> delta_f32 = widen(delta);
    grad = rounded<Scalar>(delta_f32 * widen(input).transpose());
    return rounded<Scalar>(widen(weight).transpose() * delta_f32);
  }
  static Eigen::RowVectorXf inverse_rms(const Matrix<float>& input) {
    return (input.colwise().squaredNorm() / static_cast<float>(input.rows()) +
            Eigen::RowVectorXf::Constant(input.cols(), 1e-6F))
        .cwiseSqrt()
        .cwiseInverse();
  }
  template <class Scalar>
  static Matrix<Scalar> norm(const Vector<Scalar>& gain, const Matrix<Scalar>& input) {
    const Matrix<float> input_f32 = widen(input);
    return rounded<Scalar>(widen(gain).asDiagonal() * input_f32 * inverse_rms(input_f32).asDiagonal());
  }
  template <class Scalar>
  static Matrix<Scalar> norm_backward(const Vector<Scalar>& gain, const Matrix<Scalar>& input, const Matrix<Scalar>& delta,
                                      Vector<Scalar>& grad) {
    const Eigen::RowVectorXf factors = inverse_rms(widen(input));
    const Matrix<float> normed = widen(input) * factors.asDiagonal();
    Matrix<float> inner = widen(delta);
    grad = headroom::cast<Scalar>(Vector<float>(inner.cwiseProduct(normed).rowwise().sum()));
    inner = widen(gain).asDiagonal() * inner;
    const Eigen::RowVectorXf means = inner.cwiseProduct(normed).colwise().sum() / static_cast<float>(input.rows());
    return rounded<Scalar>((inner - normed * means.asDiagonal()) * factors.asDiagonal());
  }

  int heads_;
  Eigen::Index context_;
};

}  // namespace evidence
