// expect: include the adapter
// expect: <headroom/adapters/torch.hpp>
#include <headroom/ops/measure.hpp>

#include <vector>

/// As in libtorch.
namespace at {
class Tensor {
 public:
  [[nodiscard]] float* data() const { return impl_; }
  [[nodiscard]] long numel() const { return 1; }

 private:
  float* impl_ = nullptr;
};
}  // namespace at
namespace torch {
using at::Tensor;
}
#ifdef HEADROOM_CONTROL
template <>
struct headroom::tensor_traits<at::Tensor> {
  using value_type = float;
  static float* data(const at::Tensor& tensor) { return tensor.data(); }
  static std::size_t size(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }
};
#endif

bool check(const std::vector<torch::Tensor>& gradients) { return headroom::all_finite(gradients); }
