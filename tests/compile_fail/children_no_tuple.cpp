// expect: children(T&) must return a tuple of references; write: return std::tie(member, ...);
#include <headroom/policy/dynamic.hpp>

#include <tuple>
#include <vector>

struct Model {
  std::vector<float> weight;
};
inline auto children(Model& model) {
#ifdef HEADROOM_CONTROL
  return std::tie(model.weight);
#else
  return model.weight;
#endif
}

void scale(const headroom::DynamicLossScale& policy, Model& model) { policy.scale_in_place(model); }
