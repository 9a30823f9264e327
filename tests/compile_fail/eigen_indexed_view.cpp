// expect: has no elements in memory to work on, or not at regular distances: call .eval() on it
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
