// expect: this struct has no counterpart with elements of another dtype. Use the _into form of the verb
#include <headroom/dtype/half.hpp>
#include <headroom/ops/cast.hpp>

#include <vector>

struct Model {
  std::vector<float> weight;
  HEADROOM_TREE(Model, weight)
};
struct Model16 {
  std::vector<headroom::half> weight;
  HEADROOM_TREE(Model16, weight)
};

void narrow(const Model& model, Model16& narrow) {
#ifdef HEADROOM_CONTROL
  headroom::cast_into(model, narrow);
#else
  (void)narrow, (void)headroom::cast<headroom::half>(model);
#endif
}
