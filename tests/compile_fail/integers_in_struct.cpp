// expect: headroom: there is no floating-point number in this type
#include <headroom/policy/constant.hpp>

#include <vector>

struct Layer {
#ifdef HEADROOM_CONTROL
  std::vector<float> weight;
#else
  std::vector<int> weight;
#endif
  std::vector<Layer> below;
  HEADROOM_TREE(Layer, weight, below)
};

void scale(const headroom::ConstantLossScale& scaler, Layer& layer) { scaler.scale_in_place(layer); }
