#include <headroom/ops/executor.hpp>
#include <headroom/policy/dynamic.hpp>
#ifdef HEADROOM_CONTROL
#include <headroom/ops/unscale.hpp>
#endif

#include <vector>

// case: policy_without_verb
// expect: include_headroom_ops_unscale_hpp
bool unscale(std::vector<float>& gradients) {
  return headroom::DynamicLossScale().unscale(gradients).report.finite;
}
