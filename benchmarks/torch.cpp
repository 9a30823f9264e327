// The same work with libtorch's tensor operations, as a training loop in C++ does it, on one
// thread.
#include "torch.hpp"

#include <torch/torch.h>

namespace contenders {

namespace {

template <class T>
constexpr torch::ScalarType dtype_of() {
  if constexpr (std::is_same_v<T, headroom::half>) {
    return torch::kHalf;
  } else if constexpr (std::is_same_v<T, headroom::bfloat16>) {
    return torch::kBFloat16;
  } else {
    return torch::kFloat;
  }
}
template <class T>
torch::Tensor tensor(T* values, std::size_t n) {
  return torch::from_blob(values, {static_cast<std::int64_t>(n)}, dtype_of<T>());
}
bool finite(const torch::Tensor& tensor) { return torch::isfinite(tensor).all().item<bool>(); }

}  // namespace

void torch_in_one_thread() {
  at::set_num_threads(1);
  at::set_num_interop_threads(1);
}

template <class T>
bool torch_unscale(T* values, std::size_t n, float inverse_scale) {
  const torch::NoGradGuard no_grad;
  return finite(tensor(values, n).mul_(inverse_scale));
}
template <class T>
bool torch_unscale(T* source, float* destination, std::size_t n, float inverse_scale) {
  const torch::NoGradGuard no_grad;
  return finite(tensor(destination, n).copy_(tensor(source, n)).mul_(inverse_scale));
}
template <class T>
bool torch_all_finite(T* values, std::size_t n) {
  const torch::NoGradGuard no_grad;
  return finite(tensor(values, n));
}
template <class T>
void torch_cast(float* source, T* destination, std::size_t n) {
  const torch::NoGradGuard no_grad;
  tensor(destination, n).copy_(tensor(source, n));
}
float torch_norm(float* values, std::size_t n) {
  const torch::NoGradGuard no_grad;
  return tensor(values, n).norm().item<float>();
}

template bool torch_unscale(float*, std::size_t, float);
template bool torch_unscale(headroom::half*, std::size_t, float);
template bool torch_unscale(headroom::bfloat16*, std::size_t, float);
template bool torch_unscale(headroom::half*, float*, std::size_t, float);
template bool torch_unscale(headroom::bfloat16*, float*, std::size_t, float);
template bool torch_all_finite(float*, std::size_t);
template bool torch_all_finite(headroom::half*, std::size_t);
template bool torch_all_finite(headroom::bfloat16*, std::size_t);
template void torch_cast(float*, headroom::half*, std::size_t);
template void torch_cast(float*, headroom::bfloat16*, std::size_t);

}  // namespace contenders
