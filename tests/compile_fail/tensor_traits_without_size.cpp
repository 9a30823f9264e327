// expect: tensor_traits<T>::size is missing or no number; write: static std::size_t size(const T& t);
#include <headroom/ops/measure.hpp>

#include <cstddef>

struct Tensor {
  float elements[4];
};
template <>
struct headroom::tensor_traits<Tensor> {
  using value_type = float;
  static float* data(Tensor& tensor) { return tensor.elements; }
  static const float* data(const Tensor& tensor) { return tensor.elements; }
#ifdef HEADROOM_CONTROL
  static std::size_t size(const Tensor&) { return 4; }
#endif
};

bool check(const Tensor& tensor) { return headroom::all_finite(tensor); }
