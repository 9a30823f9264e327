#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "numbers.hpp"

// A gated recurrent unit (GRU) that reads a sequence and answers with one number.
namespace evidence {

template <class Scalar>
struct Recurrent {
  // 3 width × inputs, 3 width × width: update gate, reset gate, candidate
  Matrix<Scalar> input, recurrent;
  Vector<Scalar> bias, candidate_bias;  // 3 width; width, added before the reset gate
  Matrix<Scalar> output;                // 1 × width

  HEADROOM_TREE(Recurrent, input, recurrent, bias, candidate_bias, output)
};

/// The numbers of each time step, and the right answers. A column per example.
struct Sequences {
  std::vector<Matrix<float>> inputs;
  Eigen::RowVectorXf answers;

  [[nodiscard]] Sequences part(Eigen::Index number, Eigen::Index parts) const {
    const Eigen::Index begin = answers.size() * number / parts,
                       size = answers.size() * (number + 1) / parts - begin;
    Sequences part;
    for (const auto& input : inputs) part.inputs.emplace_back(input.middleCols(begin, size));
    part.answers = answers.segment(begin, size);
    return part;
  }
};

/// The adding problem of Hochreiter and Schmidhuber (1997): sequences of numbers from [0, 1). One
/// number in each half is marked. The answer is the sum of the two. The constant answer 1 has a
/// mean squared error of 1/6.
inline Sequences adding_problem(int examples, int length, Random& random) {
  Sequences sequences;
  for (int i = 0; i < length; ++i) {
    sequences.inputs.push_back(Matrix<float>::Zero(2, examples));
    for (Eigen::Index k = 0; k < examples; ++k)
      sequences.inputs.back()(0, k) = static_cast<float>(random.uniform());
  }
  sequences.answers = Eigen::RowVectorXf::Zero(examples);
  for (Eigen::Index k = 0; k < examples; ++k) {
    for (const int half : {0, length / 2}) {
      const auto marked =
          static_cast<std::size_t>(half + static_cast<int>(random.uniform() * (length / 2)));
      sequences.inputs[marked](1, k) = 1.0F;
      sequences.answers(k) += sequences.inputs[marked](0, k);
    }
  }
  return sequences;
}

inline Recurrent<float> random_recurrent(int inputs, int width, Random& random) {
  const float deviation = 1.0F / std::sqrt(static_cast<float>(width));
  Recurrent<float> model;
  model.input = random_matrix(3 * width, inputs, 0.5F, random);
  model.recurrent = random_matrix(3 * width, width, deviation, random);
  model.bias = Vector<float>::Zero(3 * width);
  model.bias.head(width).setOnes();  // so that the initial gates keep the state
  model.candidate_bias = Vector<float>::Zero(width);
  model.output = random_matrix(1, width, deviation, random);
  return model;
}

template <class Scalar>
class RecurrentPass {
 public:
  struct Result {
    double loss = 0.0;        // mean squared error
    Recurrent<Scalar> grads;  // of the loss times the loss scale
  };

  static Result gradients(const Recurrent<Scalar>& model, const Sequences& batch,
                          float loss_scale) {
    const std::vector<Step> steps = forward(model, batch);
    Result result;
    const Matrix<float> error = errors(model, batch, steps);
    result.loss = mean_square(error);
    const Matrix<Scalar> delta =
        rounded<Scalar>(error * (2.0F * loss_scale / static_cast<float>(error.size())));
    result.grads = backward(model, batch, steps, delta);
    return result;
  }
  static double loss(const Recurrent<Scalar>& model, const Sequences& batch) {
    return mean_square(errors(model, batch, forward(model, batch)));
  }

 private:
  struct Step {
    Matrix<Scalar> gates;  // update and reset, 2 width
    // Recurrent * previous state + candidate_bias, which the reset gate multiplies
    Matrix<Scalar> carried;
    Matrix<Scalar> candidate, state;
  };

  static std::vector<Step> forward(const Recurrent<Scalar>& model, const Sequences& batch) {
    const Matrix<float> input = widen(model.input), recurrent = widen(model.recurrent);
    const Vector<float> bias = widen(model.bias), candidate_bias = widen(model.candidate_bias);
    const Eigen::Index width = recurrent.cols();
    Matrix<float> state = Matrix<float>::Zero(width, batch.answers.size());
    std::vector<Step> steps;
    for (const Matrix<float>& x : batch.inputs) {
      Step step;
      Matrix<float> from_input = input * widen(rounded<Scalar>(x));
      from_input.colwise() += bias;
      Matrix<float> from_state = recurrent * state;
      step.gates = rounded<Scalar>(digits::activated((from_input + from_state).topRows(2 * width),
                                                     digits::Activation::sigmoid));
      from_state.bottomRows(width).colwise() += candidate_bias;
      step.carried = rounded<Scalar>(from_state.bottomRows(width));
      const Matrix<float> gates = widen(step.gates);
      const auto update = gates.topRows(width).array();
      const auto reset = gates.bottomRows(width).array();
      step.candidate = rounded<Scalar>(
          (from_input.bottomRows(width).array() + reset * widen(step.carried).array()).tanh());
      step.state =
          rounded<Scalar>(update * state.array() + (1.0F - update) * widen(step.candidate).array());
      state = widen(step.state);
      steps.push_back(std::move(step));
    }
    return steps;
  }

  static Recurrent<Scalar> backward(const Recurrent<Scalar>& model, const Sequences& batch,
                                    const std::vector<Step>& steps,
                                    const Matrix<Scalar>& output_delta) {
    const Matrix<float> recurrent = widen(model.recurrent);
    const Eigen::Index width = recurrent.cols(), examples = output_delta.cols();
    Recurrent<float> sums{Matrix<float>::Zero(3 * width, model.input.cols()),
                          Matrix<float>::Zero(3 * width, width),
                          Vector<float>::Zero(3 * width),
                          Vector<float>::Zero(width),
                          {}};
    sums.output = widen(output_delta) * widen(steps.back().state).transpose();
    Matrix<float> delta =
        widen(rounded<Scalar>(widen(model.output).transpose() * widen(output_delta)));
    Matrix<float> before_gates(3 * width, examples);
    for (std::size_t i = steps.size(); i-- > 0;) {
      const Matrix<float> gates = widen(steps[i].gates), candidate = widen(steps[i].candidate);
      const Matrix<float> state =
          i == 0 ? Matrix<float>(Matrix<float>::Zero(width, examples)) : widen(steps[i - 1].state);
      const auto update = gates.topRows(width).array();
      const auto reset = gates.bottomRows(width).array();
      const auto carried = widen(steps[i].carried);
      const auto slope = 1.0F - candidate.array().square();
      before_gates.bottomRows(width) = delta.array() * (1.0F - update) * slope;
      before_gates.topRows(width) =
          delta.array() * (state - candidate).array() * update * (1.0F - update);
      before_gates.middleRows(width, width) =
          before_gates.bottomRows(width).array() * carried.array() * reset * (1.0F - reset);
      before_gates = widen(rounded<Scalar>(before_gates));
      Matrix<float> from_state = before_gates;
      from_state.bottomRows(width).array() *= reset;
      from_state = widen(rounded<Scalar>(from_state));
      sums.input.noalias() += before_gates * widen(rounded<Scalar>(batch.inputs[i])).transpose();
      sums.bias += before_gates.rowwise().sum();
      sums.candidate_bias += from_state.bottomRows(width).rowwise().sum();
      sums.recurrent.noalias() += from_state * state.transpose();
      delta = widen(
          rounded<Scalar>((delta.array() * update).matrix() + recurrent.transpose() * from_state));
    }
    return headroom::cast<Scalar>(sums);
  }

  static Matrix<float> errors(const Recurrent<Scalar>& model, const Sequences& batch,
                              const std::vector<Step>& steps) {
    return widen(product(model.output, steps.back().state)) - batch.answers;
  }
  static double mean_square(const Matrix<float>& error) {
    return static_cast<double>(error.squaredNorm()) / static_cast<double>(error.size());
  }
};

}  // namespace evidence
