// The cost of a GradScaler in libtorch for each step: unscaling and checking the gradients of 100
// tensors of 100,000 elements, by headroom::GradScaler and by the ATen calls that users write by
// hand. One thread each, then two.
#include <torch/torch.h>

#include <benchmark/benchmark.h>
#include <string>
#include <vector>

#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>

namespace {

constexpr int tensors = 100;
constexpr std::int64_t elements = 100000;

std::vector<torch::Tensor> parameters(torch::ScalarType dtype) {
  std::vector<torch::Tensor> all;
  for (int i = 0; i < tensors; ++i) {
    all.push_back(torch::zeros({elements}, dtype).requires_grad_(true));
    all.back().mutable_grad() = torch::randn({elements}).to(dtype);
  }
  return all;
}

/// Scales alternate, so that the gradients keep their magnitude.
float scale_of(int iteration) { return iteration % 2 == 0 ? 2.0F : 0.5F; }

void by_headroom(benchmark::State& state, torch::ScalarType dtype, int threads) {
  at::set_num_threads(threads);
  torch::optim::SGD optimizer(parameters(dtype), 0.1);
  headroom::GradScaler<> scaler;
  scaler.set_executor(headroom::parallel(threads));
  int iteration = 0;
  for (auto _ : state) {
    scaler.update(scale_of(iteration++));
    benchmark::DoNotOptimize(scaler.scale(1.0F));  // starts a new iteration
    benchmark::DoNotOptimize(scaler.unscale_(optimizer));
  }
}

void by_hand(benchmark::State& state, torch::ScalarType dtype, int threads) {
  at::set_num_threads(threads);
  const torch::NoGradGuard no_grad;
  torch::optim::SGD optimizer(parameters(dtype), 0.1);
  int iteration = 0;
  for (auto _ : state) {
    const double inverse = 1.0 / static_cast<double>(scale_of(iteration++));
    bool finite = true;
    for (auto& group : optimizer.param_groups()) {
      for (auto& parameter : group.params()) {
        torch::Tensor& gradient = parameter.mutable_grad();
        gradient.mul_(inverse);
        finite = torch::isfinite(gradient).all().item<bool>() && finite;
      }
    }
    benchmark::DoNotOptimize(finite);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const struct {
    const char* name;
    torch::ScalarType dtype;
  } dtypes[] = {{"float", torch::kFloat}, {"bf16", torch::kBFloat16}};
  for (const int threads : {1, 2}) {
    for (const auto& [name, dtype] : dtypes) {
      const std::string what =
          std::string("torch_step/") + name + "/threads:" + std::to_string(threads) + "/";
      for (const bool ours : {true, false}) {
        benchmark::RegisterBenchmark((what + (ours ? "headroom" : "ATen")).c_str(),
                                     ours ? by_headroom : by_hand, dtype, threads)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
