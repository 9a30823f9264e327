// expect: this verb writes into the tree, and a leaf of it is const
// The references that children(T&) returns are not const; the struct is.
#include <headroom/policy/dynamic.hpp>

#include <vector>

struct Model {
  std::vector<float> weight;
  HEADROOM_TREE(Model, weight)
};

#ifdef HEADROOM_CONTROL
void unscale(const headroom::DynamicLossScale& policy, const Model& source, Model& destination) {
#else
void unscale(const headroom::DynamicLossScale& policy, const Model& source,
             const Model& destination) {
#endif
  (void)policy.unscale_into(source, destination);
}
