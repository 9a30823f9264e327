// expect: children(T&) returns copies, so nothing done to them would reach the struct
// expect: std::tie(member, ...);
#include <headroom/ops/scale.hpp>
#include <headroom/policy/dynamic.hpp>

#include <tuple>
#include <vector>

struct Model {
  std::vector<float> weight, bias;
};
template <>
struct headroom::tree_traits<Model> {
  static auto children(Model& self) {
#ifdef HEADROOM_CONTROL
    return std::tie(self.weight, self.bias);
#else
    return std::make_tuple(self.weight, self.bias);
#endif
  }
};

void scale(const headroom::DynamicLossScale& policy, Model& model) { policy.scale_in_place(model); }
