// headroom beside the fused operators of torch 2, on the gradients of 100 tensors of 100,000
// elements, in one process, one thread and random order: unscaling, norms, clipping, and whole
// steps of AdamW. torch's side calls what torch.amp.GradScaler, torch.nn.utils.clip_grad_norm_ and
// torch.optim.AdamW(fused=True) call, without Python. If the results of both sides differ, it ends
// with an error. Otherwise it prints a table.
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
#include <optional>
#include <string>
#include <vector>

#include "../examples/fused_adamw.hpp"
#include "comparison.hpp"

namespace {

using Tensors = std::vector<at::Tensor>;

/// The norm to clip to. The norm of ten million normal numbers is 3162.
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

/// Makes the gradients anew before each run, so that they neither overflow nor vanish and are the
/// same in all runs.
class Gradients {
 public:
  explicit Gradients(Tensors originals)
      : originals_(std::move(originals)), current_(copied(originals_)) {}
  Tensors& times(double factor) {
    at::_foreach_copy_(current_, originals_);
    // A separate pass, so that the caches are in the same state for all
    at::_foreach_mul_(current_, factor);
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
at::Tensor norm(const Tensors& gradients) {
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2.0)), 2.0);
}
/// torch.nn.utils.clip_grad_norm_
double clip(Tensors& gradients) {
  const at::Tensor before = norm(gradients);
  at::_foreach_mul_(gradients, (max_norm / (before + 1e-6)).clamp_max(1.0));
  return before.item<double>();
}

/// torch.optim.AdamW(fused=True)
class AdamW {
 public:
  explicit AdamW(const Tensors& gradients) {
    for (const at::Tensor& gradient : gradients) {
      weights_.push_back(at::ones_like(gradient));
      means_.push_back(at::zeros_like(gradient));
      squares_.push_back(at::zeros_like(gradient));
      steps_.push_back(at::zeros({}));
    }
  }
  void step(Tensors& gradients, const at::Tensor& found_inf,
            const std::optional<at::Tensor>& scale) {
    const fused::AdamWOptions by;
    at::_foreach_add_(steps_, 1.0);
    at::_fused_adamw_(weights_, gradients, means_, squares_, {}, steps_, by.lr, by.beta1, by.beta2,
                      by.weight_decay, by.eps, false, false, scale, found_inf);
    at::_foreach_sub_(steps_, Tensors(steps_.size(), found_inf));
  }
  [[nodiscard]] Tensors result() const {
    Tensors all = weights_;
    all.insert(all.end(), means_.begin(), means_.end());
    all.insert(all.end(), squares_.begin(), squares_.end());
    return all;
  }

 private:
  Tensors weights_, means_, squares_, steps_;
};

}  // namespace by_torch

namespace by_headroom {

/// examples/fused_adamw.hpp, for a GradScaler.
class AdamW {
 public:
  static constexpr bool takes_gradient_factor = true;
  explicit AdamW(Tensors& gradients) : gradients_(gradients) {
    for (const at::Tensor& gradient : gradients) weights_.emplace_back(gradient.numel(), 1.0F);
  }
  Tensors& gradients() { return gradients_; }
  void step(headroom::GradientFactor factor) {
    fused::adamw_step(weights_, gradients_, state_, {}, factor.value);
  }
  [[nodiscard]] Tensors result() {
    Tensors all;
    for (auto* vectors : {&weights_, &state_.first, &state_.second}) {
      for (auto& values : *vectors)
        all.push_back(at::from_blob(values.data(), static_cast<std::int64_t>(values.size())));
    }
    return all;
  }

 private:
  Tensors& gradients_;
  std::vector<std::vector<float>> weights_;
  fused::AdamWState state_;
};

}  // namespace by_headroom

struct Contender {
  SharedGradients gradients;
  std::function<double(Tensors& gradients)> run;
  std::function<Tensors()> result;  // the tensors that it has changed
};
/// A line of the table. Gradients are multiplied by `factor` before each run.
struct Work {
  std::string name;
  double factor;
  Contender headroom, torch;
};

/// The tolerance for rounding. torch rounds even the norms of tensors to their dtype.
struct Tolerance {
  double relative, absolute;
};
/// Whether both sides have the same results.
bool agree(const Work& work, const Tolerance& tolerance) {
  const auto outcome = [&](const Contender& contender) {
    double number = 0.0;  // three steps, because in the first one the bias corrections cancel
    for (int step = 0; step < 3; ++step)
      number = contender.run(contender.gradients->times(work.factor));
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

/// Ends the program if the results differ.
void add_checked(const Work& work, const Tolerance& tolerance) {
  if (!agree(work, tolerance)) {
    std::fprintf(stderr, "%s: headroom and torch do not come to the same\n", work.name.c_str());
    std::exit(1);
  }
  add(work, "headroom", work.headroom);
  add(work, "torch", work.torch);
}

/// Work on the gradients alone.
std::vector<Work> gradient_works(const std::string& dtype, const SharedGradients& gradients) {
  std::vector<Work> all;
  const auto add = [&](const std::string& name, double factor, auto headroom, auto torch) {
    const auto result = [=] { return copied(gradients->current()); };
    all.push_back(
        {name + ' ' + dtype, factor, {gradients, headroom, result}, {gradients, torch, result}});
  };
  for (const float scale : {2.0F, 3.0F}) {
    add(
        scale == 2.0F ? "unscale by 2," : "unscale by 3,", scale,
        [=](Tensors& tensors) {
          return headroom::unscale_in_place<headroom::allow_fp16_gradients>(tensors, scale).finite
                     ? 1.0
                     : 0.0;
        },
        [=](Tensors& tensors) {
          return by_torch::is_zero(by_torch::unscale(tensors, scale)) ? 1.0 : 0.0;
        });
  }
  add(
      "norm,", 1.0, [](Tensors& tensors) { return headroom::global_norm(tensors); },
      [](Tensors& tensors) { return by_torch::norm(tensors).item<double>(); });
  add(
      "clip,", 2.0,
      [](Tensors& tensors) { return headroom::clip_by_global_norm(tensors, max_norm).norm; },
      by_torch::clip);
  add(
      "unscale and clip,", 4.0,
      [](Tensors& tensors) {
        return headroom::unscale_and_clip_in_place<headroom::allow_fp16_gradients>(tensors, 2.0F,
                                                                                   max_norm)
            .norm;
      },
      [](Tensors& tensors) {
        return by_torch::is_zero(by_torch::unscale(tensors, 2.0)) ? by_torch::clip(tensors) : 0.0;
      });
  return all;
}

/// Whole steps with float weights. torch takes gradients of the weights' dtype only, so it gets
/// floats.
std::vector<Work> step_works(const std::string& dtype, const SharedGradients& ours,
                             const SharedGradients& theirs) {
  std::vector<Work> all;
  for (const bool clips : {true, false}) {
    const auto optimizer = std::make_shared<by_headroom::AdamW>(ours->current());
    const auto scaler = std::make_shared<headroom::GradScaler<>>(2.0);
    const auto step = [=](Tensors&) {
      benchmark::DoNotOptimize(scaler->scale(1.0F));  // starts a new iteration
      const double norm = clips ? scaler->unscale_and_clip_(*optimizer, max_norm).norm : 0.0;
      (void)scaler->step(*optimizer);
      scaler->update(2.0);
      return norm;
    };
    const auto fused = std::make_shared<by_torch::AdamW>(theirs->current());
    const auto torch_step = [=](Tensors& gradients) {
      // Without clipping, GradScaler only checks the gradients, which costs as much, and AdamW
      // unscales them.
      const at::Tensor found_inf = by_torch::unscale(gradients, clips ? 2.0 : 1.0);
      const double norm = clips ? by_torch::clip(gradients) : 0.0;
      fused->step(gradients, found_inf,
                  clips ? std::nullopt : std::optional<at::Tensor>(at::full({}, 2.0)));
      return norm;
    };
    all.push_back({std::string(clips ? "unscale, clip, AdamW, " : "unscale, AdamW, ") + dtype,
                   4.0,
                   {ours, step, [=] { return optimizer->result(); }},
                   {theirs, torch_step, [=] { return fused->result(); }}});
  }
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
  } dtypes[] = {{"float", at::kFloat, {1e-5, 0.0}},
                {"fp16", at::kHalf, {0x1p-9, 0x1p-24}},
                {"bf16", at::kBFloat16, {0x1p-6, 0.0}}};
  for (const auto& [name, dtype, tolerance] : dtypes) {
    const auto gradients = std::make_shared<Gradients>(converted(normal_tensors(), dtype));
    for (const Work& work : gradient_works(name, gradients)) add_checked(work, tolerance);
    const auto floats =
        dtype == at::kFloat
            ? gradients
            : std::make_shared<Gradients>(converted(gradients->times(1.0), at::kFloat));
    for (const Work& work : step_works(name, gradients, floats))
      add_checked(work, dtypes[0].tolerance);
  }
  benchmarks::Comparison table("torch");
  benchmark::RunSpecifiedBenchmarks(&table);
  std::printf(
      "100 tensors of 100,000 elements, one thread; headroom with %s, torch %d.%d.%d with %s\n",
      to_string(headroom::active_isa()), TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR,
      TORCH_VERSION_PATCH, at::get_cpu_capability().c_str());
  table.print();
}
