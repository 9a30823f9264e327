// expect: long double and complex numbers are not supported
#include <headroom/adapters/eigen.hpp>
#include <headroom/ops/measure.hpp>

#include <Eigen/Core>

#ifdef HEADROOM_CONTROL
using Tensor = Eigen::MatrixXf;
#else
using Tensor = Eigen::MatrixXcf;
#endif

bool check(const Tensor& tensor) { return headroom::all_finite(tensor); }
