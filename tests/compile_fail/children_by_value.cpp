// expect: children(T&) returns copies, so nothing done to them would reach the struct
// expect: std::tie(member, ...);
#include <headroom/policy/dynamic.hpp>

#include <tuple>
#include <vector>

struct Model {
  std::vector<float> weight, bias;
  auto children() {
#ifdef HEADROOM_CONTROL
    return std::tie(weight, bias);
#else
    return std::make_tuple(weight, bias);
#endif
  }
};

void scale(const headroom::DynamicLossScale& policy, Model& model) { policy.scale_in_place(model); }
