// expect: this type is neither a leaf nor a branch of a tree
// expect: specialising headroom::tensor_traits<T>
// expect: specialise headroom::tree_traits<T>
// expect: a member or free function children that returns std::tie(member, ...)
// expect: write HEADROOM_TREE(Type, member, ...) after it
#include <headroom/ops/measure.hpp>

#include <vector>

struct Model {
  std::vector<float> weight;
};
#ifdef HEADROOM_CONTROL
HEADROOM_TREE(Model, weight)
#endif

bool check(const std::vector<Model>& models) { return headroom::all_finite(models); }
