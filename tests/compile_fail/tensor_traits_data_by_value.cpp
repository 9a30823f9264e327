// expect: tensor_traits<T>::data(T&) is missing or does not return a pointer; write: static float* data(T& t);
#include <headroom/ops/measure.hpp>

#include <cstddef>
#include <vector>

struct Tensor {
  std::vector<float> elements;
};
template <>
struct headroom::tensor_traits<Tensor> {
  using value_type = float;
#ifdef HEADROOM_CONTROL
  static float* data(Tensor& tensor) { return tensor.elements.data(); }
  static const float* data(const Tensor& tensor) { return tensor.elements.data(); }
#else
  static std::vector<float> data(const Tensor& tensor) { return tensor.elements; }
#endif
  static std::size_t size(const Tensor& tensor) { return tensor.elements.size(); }
};

bool check(const Tensor& tensor) { return headroom::all_finite(tensor); }
