// expect: this verb writes into the tree, and a leaf of it is const
#include <headroom/policy/dynamic.hpp>

#include <vector>

#ifdef HEADROOM_CONTROL
void scale(const headroom::DynamicLossScale& policy, std::vector<float>& tree) {
#else
void scale(const headroom::DynamicLossScale& policy, const std::vector<float>& tree) {
#endif
  policy.scale_in_place(tree);
}
