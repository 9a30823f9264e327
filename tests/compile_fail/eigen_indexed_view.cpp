// expect: neither a leaf nor a branch of a tree
// expect: An expression must be evaluated: .eval() in Eigen
#include <headroom/adapters/eigen.hpp>
#include <headroom/ops/measure.hpp>

#include <Eigen/Core>

bool check(const Eigen::MatrixXf& weight) {
  const auto every_other = weight(Eigen::seq(1, 9, 2), Eigen::all);
#ifdef HEADROOM_CONTROL
  return headroom::all_finite(every_other.eval());
#else
  return headroom::all_finite(every_other);
#endif
}
