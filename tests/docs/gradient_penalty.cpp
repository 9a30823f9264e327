// A training with libtorch whose loss has the norm of its gradient as a penalty, beside the same
// without a loss scale.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/sgd.h>
#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>
#include <vector>

static std::vector<at::Tensor> weights_at_start() {
  return {at::full({3}, 0.5F).requires_grad_(), at::ones({1}).requires_grad_()};
}
static at::Tensor norm(const std::vector<at::Tensor>& grads) {
  return (grads[0].pow(2).sum() + grads[1].pow(2).sum()).sqrt();
}
static at::Tensor loss_of(const std::vector<at::Tensor>& weights) {
  return (weights[0] * at::arange(3) + weights[1]).tanh().pow(2).sum();
}

int main() {
  auto parameters = weights_at_start(), expected = weights_at_start();
  const at::Tensor loss = loss_of(expected);
  const auto grads = torch::autograd::grad({loss}, expected, {}, true, true);
  (loss + 0.5 * norm(grads)).backward();

  torch::optim::SGD optimizer(parameters, 1.0);
  headroom::GradScaler<> scaler(65536.0);
  {
    const at::Tensor loss = loss_of(parameters);
#include BLOCK
  }
  bool is_same = true;
  for (std::size_t i = 0; i < 2; ++i)
    is_same =
        is_same && at::allclose(parameters[i], weights_at_start()[i] - expected[i].grad(), 1e-4);
  return is_same ? 0 : 1;
}
