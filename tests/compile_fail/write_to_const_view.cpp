// expect: this verb writes into the tree, and a leaf of it is const: a view that children() returns by value
// A view does not know that the struct it was made of is const.
#include <headroom/policy/dynamic.hpp>

#include <cstddef>

struct Model {
  float* weight;
  std::size_t size;
#ifdef HEADROOM_CONTROL
  auto children() const { return std::make_tuple(headroom::span<float>(weight, size)); }
#else
  auto children() { return std::make_tuple(headroom::span<float>(weight, size)); }
#endif
};

void unscale(const headroom::DynamicLossScale& policy, const Model& source, const Model& destination) {
  (void)policy.unscale_into(source, destination);
}
void scale(const headroom::DynamicLossScale& policy, const Model& model) { policy.scale_in_place(model); }
