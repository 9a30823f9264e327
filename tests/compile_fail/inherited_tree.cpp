// expect: this struct has the HEADROOM_TREE of its base, which does not know the struct's own members
#include <headroom/ops/measure.hpp>

#include <vector>

struct Base {
  std::vector<float> weight;
  HEADROOM_TREE(Base, weight)
};
struct Derived : Base {
  std::vector<float> bias;
#ifdef HEADROOM_CONTROL
  HEADROOM_TREE(Derived, weight, bias)
#endif
};

bool check(const Derived& model) { return headroom::all_finite(model); }
