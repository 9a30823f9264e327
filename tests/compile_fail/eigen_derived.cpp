// expect: this class is derived from one of Eigen and has members of its own, which would be left out
#include <headroom/adapters/eigen.hpp>
#include <headroom/headroom.hpp>

struct Layer : Eigen::MatrixXf {
  using Eigen::MatrixXf::MatrixXf;
#ifndef HEADROOM_CONTROL
  Eigen::VectorXf bias;
#endif
};

void unscale(Layer& layer) { (void)headroom::ConstantLossScale(2.0F).unscale_in_place(layer); }
