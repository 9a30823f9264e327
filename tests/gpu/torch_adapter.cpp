// headroom's libtorch adapter on a GPU: ./torch_adapter. run.sh compiles it, with torch 2.4 or
// later. A small network is trained beside one with the operators of torch.amp, with overflows and
// clipping; then come the comparisons of torch_elsewhere.hpp, and times. Linked with a file that
// includes adapters/torch_cuda.hpp, it tests and times headroom's kernels.
// `./torch_adapter cpu` sends the CPU's tensors the way of a GPU's. The exit status is 1 after a
// failure, and 77 without a GPU.
#include "torch_elsewhere.hpp"

#include <torch/torch.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

using elsewhere::expect;
using elsewhere::Tensors;
using torch::Tensor;

/// torch::optim::SGD, the gradients of which are unscaled as those of a GPU are, wherever they lie.
struct Sgd : torch::optim::SGD {
  using torch::optim::SGD::SGD;
};

torch::nn::Sequential network(torch::Device device) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(64, 128), torch::nn::Tanh(),
                            torch::nn::Linear(128, 128), torch::nn::Tanh(),
                            torch::nn::Linear(128, 10));
  net->to(device);
  return net;
}

}  // namespace

HEADROOM_DETAIL_BEGIN_NAMESPACE
template <>
struct optimizer_traits<Sgd> : elsewhere::Verbs {
  static std::vector<at::Tensor> gradients(Sgd& optimizer) {
    return optimizer_traits<torch::optim::SGD>::gradients(optimizer);
  }
  static Tensor step(Sgd& optimizer) { return optimizer.step(); }
};
HEADROOM_DETAIL_END_NAMESPACE

namespace {

/// The same network twice: one trained by a GradScaler of headroom, one by the operators that
/// torch.amp.GradScaler calls.
void train_beside_torch(torch::Device device) {
  constexpr int steps = 200, interval = 7;
  constexpr double max_norm = 1.0;
  torch::nn::Sequential ours = network(device), theirs = network(device);
  const auto options = torch::optim::SGDOptions(0.05).momentum(0.9);
  Sgd our_optimizer(ours->parameters(), options);
  torch::optim::SGD their_optimizer(theirs->parameters(), options);
  headroom::GradScaler<> scaler(65536.0, 2.0, 0.5, interval);
  Tensor scale = torch::full({}, 65536.0F, device),
         growth = torch::zeros({}, torch::dtype(torch::kInt).device(device));
  long scales = 0, decisions = 0, norms = 0, skipped = 0, clipped = 0;
  torch::manual_seed(2);
  for (int step = 0; step < steps; ++step) {
    const Tensor x = torch::randn({32, 64}).to(device), y = torch::randint(10, {32}).to(device);
    const float burst = step % 23 == 11  ? 1e38F
                        : step % 29 == 3 ? std::numeric_limits<float>::quiet_NaN()
                        : step % 5 == 1  ? 40.0F
                                         : 1.0F;
    const auto loss_of = [&](torch::nn::Sequential& net) {
      return torch::nn::functional::cross_entropy(net->forward(x), y) * burst;
    };

    our_optimizer.zero_grad();
    scaler.scale(loss_of(ours)).backward();
    const headroom::GradientNorm found = scaler.unscale_and_clip_(our_optimizer, max_norm);
    const bool is_skipped = scaler.step(our_optimizer).skipped;
    scaler.update();

    their_optimizer.zero_grad();
    (loss_of(theirs) * scale).backward();
    Tensor found_inf = torch::zeros({}, device);
    const Tensor inverse = scale.to(torch::kDouble).reciprocal().to(torch::kFloat);
    Tensors gradients;
    for (const Tensor& parameter : theirs->parameters()) gradients.push_back(parameter.grad());
    {
      const torch::NoGradGuard no_grad;
      at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse);
    }
    const double norm = torch::nn::utils::clip_grad_norm_(theirs->parameters(), max_norm);
    const bool is_finite = found_inf.item<float>() == 0.0F;
    if (is_finite) their_optimizer.step();
    at::_amp_update_scale_(scale, growth, found_inf, 2.0, 0.5, interval);

    skipped += is_skipped;
    clipped += found.finite && found.norm > max_norm;
    scales += scaler.get_scale() != scale.item<float>();
    decisions += is_skipped == is_finite;
    norms += found.finite && !(std::abs(found.norm - norm) <= 1e-5 * norm);
  }
  double largest = 0.0;
  const Tensors our_weights = ours->parameters(), their_weights = theirs->parameters();
  for (std::size_t i = 0; i < our_weights.size(); ++i)
    largest = std::max(largest, (our_weights[i] - their_weights[i]).abs().max().item<double>());
  std::printf("%d steps, %ld skipped, %ld clipped; largest difference of a weight: %g\n", steps,
              skipped, clipped, largest);
  expect(skipped != 0 && clipped != 0, "no step was skipped or clipped");
  expect(scales == 0 && decisions == 0 && norms == 0,
         "scales, decisions or norms differ from torch's");
  expect(largest <= 1e-4, "weights differ from torch's, which adds 1e-6 to the norm");
}

/// Milliseconds of a verb, with its wait: the median of 15.
template <class F>
void time(const char* name, const F& verb) {
  using clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = 0; i < 18; ++i) {
    torch::cuda::synchronize();
    const auto begin = clock::now();
    verb(i);
    if (i >= 3)
      times.push_back(std::chrono::duration<double, std::milli>(clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  std::printf("%-52s %8.3f ms\n", name, times[7]);
}
/// 1 GB of float gradients in 1,000 tensors.
void time_verbs() {
  const torch::NoGradGuard no_grad;
  Tensors gradients[2];
  for (Tensors& all : gradients)
    for (int i = 0; i < 1000; ++i) all.push_back(torch::randn({268435}, torch::kCUDA));
  Tensor found_inf = torch::zeros({}, torch::kCUDA);
  const Tensor inverse = torch::full({}, 1.0F / 1.0001F, torch::kCUDA);
  const bool uses_kernels = headroom::detail::aten::kernels.run != nullptr;
  std::printf("headroom's verbs are by %s\n", uses_kernels ? "headroom's kernels" : "ATen");
  time("unscale, headroom",
       [&](int) { (void)elsewhere::Verbs::unscale(gradients[0], 1.0001F, elsewhere::executor); });
  time("unscale, headroom, other addresses each time", [&](int i) {
    (void)elsewhere::Verbs::unscale(gradients[i % 2], 1.0001F, elsewhere::executor);
  });
  time("unscale, torch: _amp_foreach_non_finite_check", [&](int) {
    at::_amp_foreach_non_finite_check_and_unscale_(gradients[0], found_inf, inverse);
    (void)found_inf.item<float>();
  });
  time("norm and largest, headroom",
       [&](int) { (void)elsewhere::Verbs::measure(gradients[0], elsewhere::executor); });
  time("norm, torch: _foreach_norm",
       [&](int) { (void)at::stack(at::_foreach_norm(gradients[0], 2.0)).norm().item<float>(); });
}

}  // namespace

int main(int argc, char** argv) {
  const torch::Device device(argc > 1 ? argv[1] : "cuda");
  if (device.is_cuda() && !torch::cuda::is_available()) {
    std::printf("torch sees no GPU\n");
    return 77;
  }
  // Small tensors: more threads would wait for each other
  if (device.is_cpu()) at::set_num_threads(1);
  std::printf("torch %s, %s\n", TORCH_VERSION, device.str().c_str());
  train_beside_torch(device);
  if (device.is_cuda()) time_verbs();
  return elsewhere::compare(device) == 0 ? 0 : 1;
}
