// expect: a pointer is not walked: write headroom::span<T>(pointer, size) for elements
// expect: std::ref(*pointer)
#include <headroom/dtype/span.hpp>
#include <headroom/ops/measure.hpp>

struct Layer {
#ifdef HEADROOM_CONTROL
  headroom::span<float> weight;
#else
  float* weight;
#endif
  HEADROOM_TREE(Layer, weight)
};

bool check(const Layer& layer) { return headroom::all_finite(layer); }
