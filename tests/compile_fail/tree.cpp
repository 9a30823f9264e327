#include <headroom/headroom.hpp>

#include <tuple>
#include <vector>

// case: children_by_value
// expect: children(T&) returns copies, so nothing done to them would reach the struct
// expect: std::tie(member, ...);
struct Model {
  std::vector<float> weight, bias;
};
template <>
struct headroom::tree_traits<Model> {
  static auto children(Model& self) {
#ifdef HEADROOM_CONTROL
    return std::tie(self.weight, self.bias);
#else
    return std::make_tuple(self.weight, self.bias);
#endif
  }
};

void scale(const headroom::DynamicLossScale& policy, Model& model) { policy.scale_in_place(model); }

// case: inherited_tree
// expect: this struct has the HEADROOM_TREE of its base, which does not know the struct's own members
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

// case: members_by_value
// expect: HEADROOM_TREE lists members, not what a function returns by value
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

// case: neither_leaf_nor_branch
// expect: this type is neither a leaf nor a branch of a tree
// expect: specialising headroom::tensor_traits<T>
// expect: HEADROOM_TREE(Type, member, ...) in its public part or after it
// expect: by headroom::tree_traits<T>
struct Model {
  std::vector<float> weight;
};
#ifdef HEADROOM_CONTROL
HEADROOM_TREE(Model, weight)
#endif

bool check(const std::vector<Model>& models) { return headroom::all_finite(models); }

// case: plain_struct
// expect: neither a leaf nor a branch of a tree
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

// case: pointer_in_struct
// expect: a pointer is not walked: write headroom::span<T>(pointer, size) for elements
// expect: std::ref(*pointer)
struct Layer {
#ifdef HEADROOM_CONTROL
  headroom::span<float> weight;
#else
  float* weight;
#endif
  HEADROOM_TREE(Layer, weight)
};

bool check(const Layer& layer) { return headroom::all_finite(layer); }

// case: private_tree
// expect: HEADROOM_TREE(Type, member, ...) in its public part
class Model {
#ifdef HEADROOM_CONTROL
 public:
#endif
  std::vector<float> weight, bias;
  HEADROOM_TREE(Model, weight, bias)
};

bool train(Model& model) { return headroom::unscale_in_place(model, 2.0F).finite; }

// case: too_many_members
// expect: headroom: HEADROOM_TREE takes at most 64 members
struct Model {
  float a[65];
};
#ifdef HEADROOM_CONTROL
#define LAST
#else
#define LAST , a[64]
#endif
// clang-format off
HEADROOM_TREE(Model,
  a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15],
  a[16], a[17], a[18], a[19], a[20], a[21], a[22], a[23], a[24], a[25], a[26], a[27], a[28], a[29], a[30], a[31],
  a[32], a[33], a[34], a[35], a[36], a[37], a[38], a[39], a[40], a[41], a[42], a[43], a[44], a[45], a[46], a[47],
  a[48], a[49], a[50], a[51], a[52], a[53], a[54], a[55], a[56], a[57], a[58], a[59], a[60], a[61], a[62], a[63] LAST)
// clang-format on
