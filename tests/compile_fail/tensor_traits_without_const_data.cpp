// expect: tensor_traits<T>::data takes no const tensor; write as well: static const float* data(const T& t);
#include <headroom/ops/measure.hpp>

#include <cstddef>

struct Tensor {
  float elements[4];
};
template <>
struct headroom::tensor_traits<Tensor> {
  using value_type = float;
  static float* data(Tensor& tensor) { return tensor.elements; }
#ifdef HEADROOM_CONTROL
  static const float* data(const Tensor& tensor) { return tensor.elements; }
#endif
  static std::size_t size(const Tensor&) { return 4; }
};

bool check(const Tensor& tensor) { return headroom::all_finite(tensor); }
