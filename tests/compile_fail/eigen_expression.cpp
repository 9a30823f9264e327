// expect: neither a leaf nor a branch of a tree
// expect: An expression must be evaluated: .eval() in Eigen
#include <headroom/adapters/eigen.hpp>
#include <headroom/ops/measure.hpp>

#include <Eigen/Core>

bool check(const Eigen::MatrixXf& weight) {
#ifdef HEADROOM_CONTROL
  return headroom::all_finite((weight * 2.0F).eval());
#else
  return headroom::all_finite(weight * 2.0F);
#endif
}
