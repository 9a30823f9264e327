// expect: HEADROOM_TREE lists members, not what a function returns by value
#include <headroom/policy/dynamic.hpp>

#include <vector>

template <class T>
struct Model {
  std::vector<T> weight;
#ifdef HEADROOM_CONTROL
  std::vector<T>& gradient() { return weight; }
#else
  std::vector<T> gradient() { return weight; }
#endif
  HEADROOM_TREE(Model, gradient())
};

void scale(const headroom::DynamicLossScale& policy, Model<float>& model) {
  policy.scale_in_place(model);
}
