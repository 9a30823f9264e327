#pragma once

// Only the headers that the tests need: including <torch/torch.h> takes half as long again.
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>
// libtorch defines a macro CHECK too.
#undef CHECK

#include <cstring>
#include <limits>
#include <vector>

namespace support {

inline const std::vector<torch::ScalarType> dtypes = {torch::kFloat, torch::kDouble, torch::kHalf,
                                                      torch::kBFloat16};
inline const double infinity = std::numeric_limits<double>::infinity();

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const torch::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

/// A tensor of values that are exact in every dtype.
inline torch::Tensor some(torch::IntArrayRef shape, torch::ScalarType dtype = torch::kFloat) {
  return torch::randint(-100, 100, shape, torch::kFloat).div(64).to(dtype);
}

inline torch::Tensor parameter(torch::IntArrayRef shape, torch::ScalarType dtype = torch::kFloat) {
  return some(shape, dtype).requires_grad_(true);
}

}  // namespace support
