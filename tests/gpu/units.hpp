#pragma once

#include <headroom/headroom.hpp>

#include <vector>

// headroom's types have the same names in a .cu and in a .cpp, so that one can call functions of the other.

template <class T>
struct Network {
  std::vector<T> weight, bias;
  HEADROOM_TREE(Network, weight, bias)
};

struct Result {
  headroom::DynamicLossScale loss_scale;
  headroom::GradientReport report;
  Network<float> gradients;
};
/// Unscales, and adjusts. Defined in everything.cu.
Result step_in_cu(const headroom::DynamicLossScale& loss_scale, const Network<headroom::half>& gradients);
/// The same. Defined in main.cpp.
Result step_in_cpp(const headroom::DynamicLossScale& loss_scale, const Network<headroom::half>& gradients);
/// The number of faults in what everything.cu does on the host.
int faults_in_cu();
