// expect: this type is neither a leaf nor a branch of a tree
// expect: specialising headroom::tensor_traits<T>
// expect: HEADROOM_TREE(Type, member, ...) in its public part or after it
// expect: by headroom::tree_traits<T>
#include <headroom/ops/measure.hpp>

#include <vector>

struct Model {
  std::vector<float> weight;
};
#ifdef HEADROOM_CONTROL
HEADROOM_TREE(Model, weight)
#endif

bool check(const std::vector<Model>& models) { return headroom::all_finite(models); }
