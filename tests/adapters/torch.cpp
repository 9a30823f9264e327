#include "support/torch.hpp"

#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
// libtorch defines CHECK too.
#undef CHECK
#include <limits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::GradScaler;
using namespace support;
using torch::Tensor;

TEST_CASE("an optimizer of libtorch steps with unscaled gradients, or is skipped") {
  torch::manual_seed(4);
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    Tensor weight = parameter({4, 3}, dtype), bias = parameter({3}, dtype),
           unused = parameter({2}, dtype);
    torch::optim::SGD optimizer({weight, unused, bias}, 0.5);
    GradScaler<> scaler(1024.0);
    const Tensor before = weight.detach().clone();
    weight.mutable_grad() = some({4, 3}, dtype) * 4;
    bias.mutable_grad() = some({3}, dtype);
    const Tensor expected = before - (weight.grad() / 1024) * 0.5;
    CHECK_FALSE(scaler.step(optimizer).skipped);
    scaler.update();
    CHECK(torch::allclose(weight.detach(), expected, 1e-2));
    if (dtype == torch::kFloat) CHECK(same_bits(weight, expected));

    const Tensor now = weight.detach().clone();
    bias.mutable_grad()[1] = infinity;
    CHECK(scaler.step(optimizer).skipped);
    scaler.update();
    CHECK(same_bits(weight, now));
    CHECK(scaler.get_scale() == 512.0F);
  }
}

TEST_CASE("gradients are clipped by their norm") {
  torch::manual_seed(5);
  Tensor weight = parameter({40, 30}), bias = parameter({30});
  torch::optim::SGD optimizer({weight, bias}, 1.0);
  for (const double max_norm : {0.5, 1e9}) {
    GradScaler<> scaler(1000.0);
    const Tensor grads[] = {some({40, 30}), some({30})};
    weight.mutable_grad() = grads[0] * 1000;
    bias.mutable_grad() = grads[1] * 1000;
    const double expected =
        std::sqrt(grads[0].square().sum().item<double>() + grads[1].square().sum().item<double>());
    CHECK(scaler.unscale_and_clip_(optimizer, max_norm).norm == Catch::Approx(expected));
    const double factor = std::min(1.0, max_norm / expected);
    CHECK((torch::allclose(weight.grad(), grads[0] * factor) &&
           torch::allclose(bias.grad(), grads[1] * factor)));
  }
}

TEST_CASE("a parameter in several groups is unscaled once") {
  Tensor shared = parameter({3}), other = parameter({2});
  torch::optim::SGD optimizer({torch::optim::OptimizerParamGroup({shared, other}),
                               torch::optim::OptimizerParamGroup({shared})},
                              torch::optim::SGDOptions(1.0));
  shared.mutable_grad() = torch::full({3}, 1024.0F);
  other.mutable_grad() = torch::full({2}, 2048.0F);
  GradScaler<> scaler(1024.0);
  const auto report = scaler.unscale_(optimizer);
  CHECK(shared.grad().equal(torch::ones({3})));
  CHECK(other.grad().equal(torch::full({2}, 2.0F)));
  CHECK(report.max_abs == 2.0);
}

TEST_CASE("sparse gradients are coalesced before they are checked") {
  for (const bool overflows : {false, true}) {
    Tensor weight = parameter({4});
    const float large = overflows ? 3e38F : 512.0F;
    weight.mutable_grad() = torch::sparse_coo_tensor(torch::tensor({{1, 1, 3}}, torch::kLong),
                                                     torch::tensor({large, large, 2048.0F}), {4});
    torch::optim::SGD optimizer({weight}, 1.0);
    GradScaler<> scaler(1024.0);
    CHECK(scaler.unscale_(optimizer).finite == !overflows);
    if (!overflows) CHECK(weight.grad()._values().equal(torch::tensor({1.0F, 2.0F})));
  }
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(10, 3).sparse(true));
  torch::optim::SGD optimizer(embedding->parameters(), 1.0);
  GradScaler<> scaler(1024.0);
  const Tensor before = embedding->weight.detach().clone();
  scaler.scale(embedding->forward(torch::tensor({2, 2, 5}, torch::kLong)).sum()).backward();
  CHECK_FALSE(scaler.step(optimizer).skipped);
  CHECK(torch::allclose(embedding->weight[2], before[2] - 2.0));
  CHECK(torch::allclose(embedding->weight[5], before[5] - 1.0));
  CHECK(torch::allclose(embedding->weight[1], before[1]));
}

TEST_CASE("a training with a power of two as scale has the same bits as one without") {
  const auto train = [](bool enabled) {
    torch::manual_seed(6);
    torch::nn::Sequential model(torch::nn::Linear(5, 8), torch::nn::Tanh(),
                                torch::nn::Linear(8, 1));
    torch::optim::Adam optimizer(model->parameters(), 0.01);
    GradScaler<> scaler(1024.0, 2.0, 0.5, 7, enabled);
    for (int step = 0; step < 50; ++step) {
      const Tensor x = torch::randn({16, 5});
      optimizer.zero_grad();
      scaler.scale(torch::mse_loss(model->forward(x), x.sum(1, true))).backward();
      CHECK_FALSE(scaler.step(optimizer).skipped);
      scaler.update();
    }
    return std::make_pair(model->parameters(), scaler.get_scale());
  };
  const auto [scaled, scale] = train(true);
  const auto [plain, one] = train(false);
  CHECK(scale == 1024.0F * 128.0F);
  CHECK(one == 1.0F);
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(scaled[i], plain[i]));
}

TEST_CASE("as in torch, no gradients skip the step, and fp16 gradients are a logic error") {
  Tensor weight = parameter({3});
  torch::optim::SGD optimizer({weight}, 1.0);
  GradScaler<> scaler;
  CHECK(scaler.step(optimizer).reason == headroom::SkipReason::no_gradients);
  scaler.update();
  CHECK(scaler.policy() == headroom::DynamicLossScale());
  Tensor narrow = parameter({3}, torch::kHalf);
  narrow.mutable_grad() = torch::ones({3}, torch::kHalf);
  torch::optim::SGD mixed({weight, narrow}, 1.0);
  weight.mutable_grad() = torch::ones({3});
  for (int call = 0; call < 3; ++call) {
    const auto refused = [&] {
      if (call == 0) scaler.unscale_(mixed);
      if (call == 1) scaler.unscale_and_clip_(mixed, 1.0);
      if (call == 2) scaler.step(mixed);
    };
    CHECK_THAT(logic_error_of(refused), ContainsSubstring("in libtorch by parameters in float"));
  }
  CHECK(weight.grad().equal(torch::ones({3})));
  const auto taken =
      scaler.step_gradients(narrow.grad(), [](Tensor& grads) { return grads.scalar_type(); });
  CHECK(taken.value == torch::kFloat);
  CHECK(taken.report.max_abs == 1.0 / 32768);
}

namespace {
template <int Dimensions>
bool has_dimensions(const Tensor& tensor) {
  return tensor.dim() == Dimensions;
}
}  // namespace

TEST_CASE("the first gradient that overflowed is reported, on the CPU and elsewhere") {
  std::vector<Tensor> parameters = {parameter({2}), parameter({3}), parameter({2, 2}),
                                    parameter({4})};
  torch::optim::SGD optimizer(parameters, 1.0);
  parameters[0].mutable_grad() = torch::ones({2});  // the gradient of parameter 1 stays undefined
  parameters[2].mutable_grad() = torch::ones({2, 2});
  parameters[3].mutable_grad() = torch::ones({4});
  parameters[2].mutable_grad()[1][0] = std::numeric_limits<float>::infinity();
  parameters[3].mutable_grad()[1] = std::numeric_limits<float>::quiet_NaN();
  GradScaler<> scaler;
  const auto result = scaler.step(optimizer);
  CHECK(result.reason == headroom::SkipReason::not_finite);
  REQUIRE(result.nonfinite.has_value());
  const auto check = [](const headroom::NonFinite& found) {
    CHECK((found.path == "[1]" && found.index == 2 && found.kind == headroom::NonFiniteKind::inf));
    CHECK((found.inf_count == 1 && found.nan_count == 1 && found.leaf == 1));
  };
  check(*result.nonfinite);
  std::vector<Tensor> gradients = {parameters[0].grad(), parameters[2].grad(),
                                   parameters[3].grad()};
  // Gradients with other dimensions take the path for other devices
  const auto find = [&gradients](auto dimensions) {
    return headroom::detail::aten::GradientVerbs<
        has_dimensions<decltype(dimensions)::value>>::find_nonfinite(gradients,
                                                                     headroom::parallel(2));
  };
  const std::integral_constant<int, 9> nowhere;
  check(find(nowhere).value());
  check(find(std::integral_constant<int, 1>()).value());
  check(find(std::integral_constant<int, 2>()).value());
  gradients.push_back(
      torch::full({2, 3}, -std::numeric_limits<float>::infinity()).to(torch::kHalf).t());
  gradients.push_back(
      torch::full({3}, std::numeric_limits<double>::quiet_NaN(), torch::kDouble).to_sparse());
  gradients.push_back(torch::empty({0}));
  CHECK((find(nowhere)->inf_count == 7 && find(nowhere)->nan_count == 4));
  gradients.resize(1);
  CHECK_FALSE(find(nowhere).has_value());
}

TEST_CASE("a gradient without elements is none, and other parameters are unscaled") {
  Tensor frozen = parameter({0, 3}), weight = parameter({2});
  torch::optim::SGD head({frozen}, 1.0), all({frozen, weight}, 1.0);
  GradScaler<> scaler(1024.0);
  CHECK(scaler.step(head).reason == headroom::SkipReason::no_gradients);
  scaler.update();
  frozen.mutable_grad() = torch::zeros({0, 3});
  CHECK(scaler.step(head).reason == headroom::SkipReason::no_gradients);
  weight.mutable_grad() = torch::full({2}, 2048.0F);
  CHECK(scaler.step(all).report.max_abs == 2.0);
  scaler.update();
}

namespace {
struct Fused : torch::optim::SGD {
  static constexpr bool takes_gradient_factor = true;
  using torch::optim::SGD::SGD;
  using torch::optim::SGD::step;
  void step(headroom::GradientFactor factor) { last = factor.value; }
  double last = 0.0;
};
// step(closure) is refused, because gradients that the closure computes would stay scaled.
template <class... Args>
constexpr bool can_step =
    headroom::detail::is_detected_v<headroom::detail::step_t,
                                    headroom::optimizer_traits<torch::optim::SGD>,
                                    torch::optim::SGD, Args...>;
static_assert(can_step<> && !can_step<Tensor (*)()>);
}  // namespace

TEST_CASE("a libtorch optimizer with takes_gradient_factor gets the factor and scaled gradients") {
  Tensor weight = parameter({2});
  weight.mutable_grad() = torch::full({2}, 1024.0F);
  Fused optimizer({weight}, torch::optim::SGDOptions(1.0));
  GradScaler<> scaler(1024.0);
  CHECK(scaler.step(optimizer).report.max_abs == 1.0);
  CHECK(optimizer.last == 1.0 / 1024);
  CHECK(weight.grad().equal(torch::full({2}, 1024.0F)));
}
