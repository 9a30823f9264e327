#pragma once

#include <Eigen/Core>

#include "../../examples/digits/network.hpp"
#include "../../examples/digits/random.hpp"

// What the networks share: matrices with one column per example, and arithmetic like that of tensor
// cores. Operands and results have 16 bits; sums are formed in float.
namespace evidence {

using digits::Layer;
using digits::Matrix;
using digits::Random;
using digits::rounded;
using digits::Vector;
using digits::widen;

template <class Scalar>
Matrix<Scalar> product(const Matrix<Scalar>& a, const Matrix<Scalar>& b) {
  return rounded<Scalar>(widen(a) * widen(b));
}

inline Matrix<float> random_matrix(Eigen::Index rows, Eigen::Index columns, float deviation,
                                   Random& random) {
  Matrix<float> matrix(rows, columns);
  for (float& value : matrix.reshaped()) value = deviation * random.normal();
  return matrix;
}

}  // namespace evidence
