// A training loop of libtorch's around what a code block says of GradScaler.
#include <torch/torch.h>
#include <fstream>
#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>
#include <utility>
#include <vector>

torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::mse_loss(output, target);
}

int main() {
  torch::nn::Linear model(3, 1);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  const std::vector<std::pair<torch::Tensor, torch::Tensor>> batches{
      {torch::ones({2, 3}), torch::ones({2, 1})}};
  int skipped = 0;
#include BLOCK
  return skipped;
}
