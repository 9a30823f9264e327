// headroom beside the fused operators of torch 2, on the gradients of 100 tensors of 100,000 elements, in one process, one
// thread and random order: unscaling, norms and clipping. torch's side is what torch.amp.GradScaler and
// torch.nn.utils.clip_grad_norm_ call, without Python around it. Prints a table; ends with an error before it if both do not
// come to the same results.
//
//   benchmark_torch_fused [flags of Google Benchmark]

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>
#include <memory>
#include <string>
#include <vector>

#include "comparison.hpp"

namespace {

using Tensors = std::vector<at::Tensor>;

/// What gradients are clipped to. The norm of ten million normal numbers is 3162.
constexpr double max_norm = 3000.0;

Tensors normal_tensors() {
  at::manual_seed(1);
  Tensors tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back(at::randn({100'000}));
  return tensors;
}
Tensors converted(Tensors tensors, at::ScalarType dtype) {
  for (at::Tensor& tensor : tensors) tensor = tensor.to(dtype);
  return tensors;
}
Tensors copied(Tensors tensors) {
  for (at::Tensor& tensor : tensors) tensor = tensor.clone();
  return tensors;
}

/// Gradients that are made anew before each run, so that runs neither overflow nor vanish, and all find the same.
class Gradients {
 public:
  explicit Gradients(Tensors originals) : originals_(std::move(originals)), current_(copied(originals_)) {}
  Tensors& times(double factor) {
    for (std::size_t i = 0; i < current_.size(); ++i) current_[i].copy_(originals_[i]).mul_(factor);
    return current_;
  }
  [[nodiscard]] Tensors& current() { return current_; }

 private:
  Tensors originals_, current_;
};
using SharedGradients = std::shared_ptr<Gradients>;

namespace by_torch {

/// GradScaler.unscale_; returns found_inf.
at::Tensor unscale(Tensors& gradients, double scale) {
  at::Tensor found_inf = at::zeros({});
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, at::full({}, 1.0 / scale));
  return found_inf;
}
bool is_zero(const at::Tensor& found_inf) { return found_inf.item<float>() == 0.0F; }
/// torch.nn.utils.get_total_norm
at::Tensor norm(const Tensors& gradients) { return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2.0)), 2.0); }
/// torch.nn.utils.clip_grad_norm_
double clip(Tensors& gradients) {
  const at::Tensor before = norm(gradients);
  at::_foreach_mul_(gradients, (max_norm / (before + 1e-6)).clamp_max(1.0));
  return before.item<double>();
}

}  // namespace by_torch

struct Contender {
  SharedGradients gradients;
  std::function<double(Tensors& gradients)> run;
  std::function<Tensors()> result;  // what it has left behind
};
/// A line of the table. Gradients are `factor` times what they were before.
struct Work {
  std::string name;
  double factor;
  Contender headroom, torch;
};

/// What rounding may do; torch rounds even the norms of tensors to their dtype.
struct Tolerance {
  double relative, absolute;
};
/// Whether both come to the same.
bool agree(const Work& work, const Tolerance& tolerance) {
  const auto outcome = [&](const Contender& contender) {
    const double number = contender.run(contender.gradients->times(work.factor));
    Tensors all = contender.result();
    all.push_back(at::scalar_tensor(number, at::kDouble));
    return all;
  };
  const Tensors ours = outcome(work.headroom), theirs = outcome(work.torch);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!at::allclose(ours[i], theirs[i], tolerance.relative, tolerance.absolute)) return false;
  }
  return ours.size() == theirs.size();
}

void add(const Work& work, const std::string& name, const Contender& contender) {
  benchmarks::add_contender(work.name, name, [=, factor = work.factor](benchmark::State& state) {
    for (auto _ : state) {
      state.PauseTiming();
      Tensors& gradients = contender.gradients->times(factor);
      state.ResumeTiming();
      benchmark::DoNotOptimize(contender.run(gradients));
    }
  });
}

/// Ends the program if they do not agree.
void add_checked(const Work& work, const Tolerance& tolerance) {
  if (!agree(work, tolerance)) {
    std::fprintf(stderr, "%s: headroom and torch do not come to the same\n", work.name.c_str());
    std::exit(1);
  }
  add(work, "headroom", work.headroom);
  add(work, "torch", work.torch);
}

/// What is done to gradients alone.
std::vector<Work> gradient_works(const std::string& dtype, const SharedGradients& gradients) {
  std::vector<Work> all;
  const auto add = [&](const std::string& name, double factor, auto headroom, auto torch) {
    const auto result = [=] { return copied(gradients->current()); };
    all.push_back({name + ' ' + dtype, factor, {gradients, headroom, result}, {gradients, torch, result}});
  };
  for (const float scale : {2.0F, 3.0F}) {
    add(
        scale == 2.0F ? "unscale by 2," : "unscale by 3,", scale,
        [=](Tensors& tensors) { return headroom::unscale_in_place(tensors, scale).finite ? 1.0 : 0.0; },
        [=](Tensors& tensors) { return by_torch::is_zero(by_torch::unscale(tensors, scale)) ? 1.0 : 0.0; });
  }
  add(
      "norm,", 1.0, [](Tensors& tensors) { return headroom::global_norm(tensors); },
      [](Tensors& tensors) { return by_torch::norm(tensors).item<double>(); });
  add(
      "clip,", 2.0, [](Tensors& tensors) { return headroom::clip_by_global_norm(tensors, max_norm).norm; }, by_torch::clip);
  add(
      "unscale and clip,", 4.0,
      [](Tensors& tensors) { return headroom::unscale_and_clip_in_place(tensors, 2.0F, max_norm).norm; },
      [](Tensors& tensors) { return by_torch::is_zero(by_torch::unscale(tensors, 2.0)) ? by_torch::clip(tensors) : 0.0; });
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  const struct {
    const char* name;
    at::ScalarType dtype;
    Tolerance tolerance;
  } dtypes[] = {
      {"float", at::kFloat, {1e-5, 0.0}}, {"fp16", at::kHalf, {0x1p-9, 0x1p-24}}, {"bf16", at::kBFloat16, {0x1p-6, 0.0}}};
  for (const auto& [name, dtype, tolerance] : dtypes) {
    const auto gradients = std::make_shared<Gradients>(converted(normal_tensors(), dtype));
    for (const Work& work : gradient_works(name, gradients)) add_checked(work, tolerance);
  }
  benchmarks::Comparison table("torch");
  benchmark::RunSpecifiedBenchmarks(&table);
  std::printf("100 tensors of 100,000 elements, one thread; torch %d.%d.%d\n", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR,
              TORCH_VERSION_PATCH);
  table.print();
}
