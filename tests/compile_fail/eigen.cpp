#include <headroom/adapters/eigen.hpp>
#include <headroom/headroom.hpp>

#include <Eigen/Core>

// case: eigen_complex
// expect: long double and complex numbers are not supported
#ifdef HEADROOM_CONTROL
using Tensor = Eigen::MatrixXf;
#else
using Tensor = Eigen::MatrixXcf;
#endif

bool check(const Tensor& tensor) { return headroom::all_finite(tensor); }

// case: eigen_expression
// expect: neither a leaf nor a branch of a tree
// expect: An expression must be evaluated: .eval() in Eigen
bool check(const Eigen::MatrixXf& weight) {
#ifdef HEADROOM_CONTROL
  return headroom::all_finite((weight * 2.0F).eval());
#else
  return headroom::all_finite(weight * 2.0F);
#endif
}

// case: eigen_indexed_view
// expect: neither a leaf nor a branch of a tree
// expect: An expression must be evaluated: .eval() in Eigen
bool check(const Eigen::MatrixXf& weight) {
  const auto every_other = weight(Eigen::seq(1, 9, 2), Eigen::all);
#ifdef HEADROOM_CONTROL
  return headroom::all_finite(every_other.eval());
#else
  return headroom::all_finite(every_other);
#endif
}
