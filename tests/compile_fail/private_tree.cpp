// expect: HEADROOM_TREE(Type, member, ...) in its public part
#include <headroom/headroom.hpp>

#include <vector>

class Model {
#ifdef HEADROOM_CONTROL
 public:
#endif
  std::vector<float> weight, bias;
  HEADROOM_TREE(Model, weight, bias)
};

bool train(Model& model) { return headroom::unscale_in_place(model, 2.0F).finite; }
