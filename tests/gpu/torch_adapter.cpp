// headroom's libtorch adapter on tensors of a GPU. Steps of a small network beside the operators of torch.amp, with overflows
// and clipping; each dtype and layout beside headroom's kernels on the CPU; the number of dispatched operators. Needs
// torch 2.4.
//   T=$(python3 -c 'import torch; print(torch.__path__[0])')
//   flags="-std=c++20 -O1 -Iinclude -isystem $T/include -isystem $T/include/torch/csrc/api/include"
//   libraries="-L$T/lib -Wl,-rpath,$T/lib -Wl,--allow-shlib-undefined,--no-as-needed -ltorch_cuda -ltorch_cpu -lc10"
//   g++ $flags tests/gpu/torch_adapter.cpp -o torch_adapter $libraries && ./torch_adapter cuda
// Without a GPU leave out -ltorch_cuda: `./torch_adapter cpu` sends the CPU's tensors the way of a GPU's. Prints lines
// `name: value`. The exit status is 1 if a line that begins with `wrong` is not 0, and 77 if there is no GPU.
#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>

#include <ATen/record_function.h>
#include <torch/torch.h>
#include <torch/version.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Clock = std::chrono::steady_clock;

bool nowhere(const Tensor& /*tensor*/) { return false; }
using Elsewhere = headroom::detail::aten::GradientVerbs<nowhere>;  // of a GPU's tensors the same as GradientVerbs<>
const headroom::Executor executor = headroom::parallel(1);

/// torch::optim::SGD, the gradients of which are unscaled as those of a GPU are, wherever they lie.
struct Sgd : torch::optim::SGD {
  using torch::optim::SGD::SGD;
};

int total_wrong = 0;

void print_wrong(const std::string& name, long count) {
  std::printf("wrong %s: %ld\n", name.c_str(), count);
  total_wrong += count != 0;
}

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

torch::nn::Sequential network(torch::Device device) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(64, 128), torch::nn::Tanh(), torch::nn::Linear(128, 128), torch::nn::Tanh(),
                            torch::nn::Linear(128, 10));
  net->to(device);
  return net;
}

}  // namespace

HEADROOM_DETAIL_BEGIN_NAMESPACE
template <>
struct optimizer_traits<Sgd> : detail::aten::GradientVerbs<nowhere> {
  static std::vector<at::Tensor> gradients(Sgd& optimizer) { return optimizer_traits<torch::optim::SGD>::gradients(optimizer); }
  static Tensor step(Sgd& optimizer) { return optimizer.step(); }
};
HEADROOM_DETAIL_END_NAMESPACE

namespace {

/// The same network twice: one trained by a GradScaler of headroom, one by the operators that torch.amp.GradScaler calls.
void train_beside_torch(torch::Device device) {
  constexpr int steps = 200, interval = 7;
  constexpr double max_norm = 1.0;
  torch::nn::Sequential ours = network(device), theirs = network(device);
  const auto options = torch::optim::SGDOptions(0.05).momentum(0.9);
  Sgd our_optimizer(ours->parameters(), options);
  torch::optim::SGD their_optimizer(theirs->parameters(), options);
  headroom::GradScaler<> scaler(65536.0, 2.0, 0.5, interval);
  Tensor scale = torch::full({}, 65536.0F, device), growth = torch::zeros({}, torch::dtype(torch::kInt).device(device));
  long scales = 0, decisions = 0, norms = 0, skipped = 0, clipped = 0;
  double our_time = 0.0, their_time = 0.0;
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
    auto begin = Clock::now();
    const headroom::GradientNorm found = scaler.unscale_and_clip_(our_optimizer, max_norm);
    const bool is_skipped = scaler.step(our_optimizer).skipped;
    scaler.update();
    our_time += milliseconds_since(begin);

    their_optimizer.zero_grad();
    (loss_of(theirs) * scale).backward();
    begin = Clock::now();
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
    their_time += milliseconds_since(begin);

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
  std::printf("steps: %d\nskipped steps: %ld\nclipped steps: %ld\n", steps, skipped, clipped);
  std::printf("largest difference of a weight: %g\n", largest);
  std::printf("ms a step, headroom: %.4f\nms a step, torch: %.4f\n", our_time / steps, their_time / steps);
  print_wrong("scales", scales);
  print_wrong("decisions", decisions);
  print_wrong("norms, by more than 1e-5 of them", norms);
  print_wrong("weights, by more than 1e-4 (torch adds 1e-6 to the norm)", !(largest <= 1e-4));
  print_wrong("tests: no step was skipped or clipped", skipped == 0 || clipped == 0);
}

/// Of each layout: dense, transposed, with gaps, a single number, sparse, without elements.
Tensors layouts(torch::ScalarType type) {
  Tensors tensors;
  for (int i = 0; i < 2; ++i) {
    const Tensor values = torch::randn({1000 + i, 37}).to(type), rows = torch::tensor({{0, 3}}, torch::kLong);
    tensors.insert(tensors.end(), {values, values.clone().t(), values.repeat({1, 2}).slice(1, 0, 74, 2), values[0][0].clone(),
                                   torch::sparse_coo_tensor(rows, values.slice(0, 0, 2).clone(), {4, 37}).coalesce(),
                                   torch::empty({0}, type)});
  }
  return tensors;
}
Tensor elements_of(const Tensor& tensor) { return tensor.is_sparse() ? tensor._values() : tensor; }
/// Keeps strides and gaps.
Tensor copy_to(const Tensor& tensor, torch::Device device) {
  if (tensor.is_sparse()) return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  return torch::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device)).copy_(tensor);
}
long different_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = elements_of(a).contiguous(), y = elements_of(b).cpu().contiguous();
  const auto* const p = static_cast<const char*>(x.data_ptr());
  const auto* const q = static_cast<const char*>(y.data_ptr());
  const auto size = static_cast<std::size_t>(x.element_size()), count = static_cast<std::size_t>(x.numel());
  long different = 0;
  for (std::size_t i = 0; i < count; ++i) different += std::memcmp(p + i * size, q + i * size, size) != 0;
  return different;
}

void compare_with_cpu(torch::Device device) {
  Tensors all;
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    const Tensors source = layouts(type);
    all.insert(all.end(), source.begin(), source.end());
    for (const float scale : {1024.0F, 1000.0F, 1.7F, 70000.0F}) {
      Tensors here, there;
      for (const Tensor& tensor : source)
        here.push_back(copy_to(tensor, torch::kCPU)), there.push_back(copy_to(tensor, device));
      const auto expected = headroom::unscale_in_place<headroom::allow_fp16_gradients>(here, scale);
      const auto found = Elsewhere::unscale(there, scale, executor);
      long different = 0;
      for (std::size_t i = 0; i < here.size(); ++i) different += different_bits(here[i], there[i]);
      const std::string name = std::string(c10::toString(type)) + ", scale " + std::to_string(scale);
      print_wrong("elements: " + name, different);
      print_wrong("reports: " + name, expected.finite != found.finite || expected.max_abs != found.max_abs);
    }
  }
  Tensors there;
  for (const Tensor& tensor : all) there.push_back(copy_to(tensor, device));
  const auto expected = headroom::measure(all), found = Elsewhere::measure(there, executor);
  print_wrong("largest elements of all dtypes", expected.max_abs != found.max_abs);
  print_wrong("norms of all dtypes, by more than 2^-20", !(std::abs(expected.norm - found.norm) <= 0x1p-20 * expected.norm));
  long missed = 0;
  for (std::size_t i = 0; i < there.size(); ++i) {
    Tensor last = elements_of(there[i]);
    if (last.numel() == 0) continue;
    while (last.dim() != 0) last = last.select(0, last.size(0) - 1);
    const Tensor kept = last.clone();
    for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      last.fill_(bad);
      const auto nonfinite = Elsewhere::find_nonfinite(there, executor);
      missed += Elsewhere::measure(there, executor).finite || Elsewhere::scale(there, 1.0, executor).finite;
      missed += !nonfinite || nonfinite->path != "[" + std::to_string(i) + "]";
    }
    last.copy_(kept);
  }
  print_wrong("Inf and NaN that were missed", missed);
}

/// How many operators the host dispatches in f(), without those that they call.
template <class F>
int operators_of(F f) {
  static int depth, count;
  depth = count = 0;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(
                                     [](const at::RecordFunction& /*called*/) -> std::unique_ptr<at::ObserverContext> {
                                       count += depth++ == 0 ? 1 : 0;
                                       return nullptr;
                                     },
                                     [](const at::RecordFunction& /*called*/, at::ObserverContext* /*context*/) { --depth; })
                                     .scopes({at::RecordScope::FUNCTION}));
  f();
  at::removeCallback(handle);
  return count;
}

void count_operators(torch::Device device) {
  for (const int size : {4, 100, 400}) {
    Tensors tensors;
    for (int i = 0; i < size; ++i) tensors.push_back(torch::ones({40, 7}, device));
    const int unscale = operators_of([&] { (void)Elsewhere::unscale(tensors, 1000.0F, executor); });
    const int scale = operators_of([&] { (void)Elsewhere::scale(tensors, 0.5, executor); });
    const int measure = operators_of([&] { (void)Elsewhere::measure(tensors, executor); });
    std::printf("operators of unscale, scale, measure, %d tensors: %d %d %d\n", size, unscale, scale, measure);
    print_wrong("numbers of operators", unscale > 7 || scale > 7 || measure > 10);
    const auto begin = Clock::now();
    for (int i = 0; i < 20; ++i) (void)Elsewhere::unscale(tensors, 1.0F, executor);
    std::printf("us of unscale, %d tensors of 280 elements: %.1f\n", size, milliseconds_since(begin) / 20 * 1e3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const torch::Device device(argc > 1 ? argv[1] : "cuda");
  if (device.is_cuda() && !torch::cuda::is_available()) {
    std::printf("torch sees no GPU\n");
    return 77;
  }
  if (device.is_cpu()) at::set_num_threads(1);  // small tensors: more threads would wait for each other
  std::printf("torch: %s\ndevice: %s\n", TORCH_VERSION, device.str().c_str());
  train_beside_torch(device);
  compare_with_cpu(device);
  count_operators(device);
  return total_wrong == 0 ? 0 : 1;
}
