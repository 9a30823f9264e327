// expect: an Eigen expression has no elements in memory to work on, or not at regular distances: call .eval() on it
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
