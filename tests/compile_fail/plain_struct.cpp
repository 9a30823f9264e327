// expect: neither a leaf nor a branch of a tree
#include <headroom/headroom.hpp>

#include <vector>

struct Model {
  std::vector<headroom::half> weight, bias;
#ifdef HEADROOM_CONTROL
  HEADROOM_TREE(Model, weight, bias)
#endif
};

bool train(Model& model) {
#ifdef HEADROOM_CONTROL
  return headroom::unscale_in_place<headroom::allow_fp16_gradients>(model, 2.0F).finite;
#else
  return headroom::unscale(model, 2.0F).report.finite;
#endif
}
