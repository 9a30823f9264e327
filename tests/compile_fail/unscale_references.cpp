// expect: headroom: a struct of references has no elements of its own
#include <headroom/policy/dynamic.hpp>
#include <headroom/tree/fields.hpp>

#include <vector>

struct View {
  std::vector<float>& weight;
  HEADROOM_TREE(View, weight)
};
struct Network {
  std::vector<float> weight_gradient;
  View grads() { return {weight_gradient}; }
};

void step(const headroom::DynamicLossScale& loss_scale, Network& network) {
#ifdef HEADROOM_CONTROL
  (void)loss_scale.unscale_in_place(network.grads());
#else
  (void)loss_scale.unscale(network.grads());
#endif
}
