// expect: no new tensor can be made for this verb's result: use its _into or _in_place form
#include <headroom/dtype/half.hpp>
#include <headroom/ops/cast.hpp>

#include <cstddef>
#include <vector>

struct Tensor {
  float elements[4];
};
template <>
struct headroom::tensor_traits<Tensor> {
  using value_type = float;
  static float* data(Tensor& tensor) { return tensor.elements; }
  static const float* data(const Tensor& tensor) { return tensor.elements; }
  static std::size_t size(const Tensor&) { return 4; }
};

void narrow(const Tensor& tensor, std::vector<headroom::half>& narrow) {
#ifdef HEADROOM_CONTROL
  headroom::cast_into(tensor, narrow);
#else
  (void)narrow, (void)headroom::cast<headroom::half>(tensor);
#endif
}
