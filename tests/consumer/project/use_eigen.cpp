#include <Eigen/Core>
#include <cstdio>
#include <headroom/adapters/eigen.hpp>
#include <headroom/headroom.hpp>

int main() {
  const headroom::DynamicLossScale loss_scale;
  const Eigen::Matrix<Eigen::half, Eigen::Dynamic, Eigen::Dynamic> gradients =
      Eigen::MatrixXf::Constant(3, 4, loss_scale.loss_scale()).cast<Eigen::half>();
  const auto [unscaled, report] = loss_scale.unscale(gradients);
  const bool right = report.finite && unscaled == Eigen::MatrixXf::Ones(3, 4);
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
