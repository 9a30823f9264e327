// expect: tensor_traits<T> has no value_type; write: using value_type = float;
#include <headroom/ops/measure.hpp>

#include <cstddef>

struct Tensor {
  float elements[4];
};
template <>
struct headroom::tensor_traits<Tensor> {
#ifdef HEADROOM_CONTROL
  using value_type = float;
#endif
  static float* data(Tensor& tensor) { return tensor.elements; }
  static const float* data(const Tensor& tensor) { return tensor.elements; }
  static std::size_t size(const Tensor&) { return 4; }
};

bool check(const Tensor& tensor) { return headroom::all_finite(tensor); }
