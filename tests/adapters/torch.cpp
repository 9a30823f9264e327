#include <torch/torch.h>
// CHECK is a macro of libtorch's too.
#undef CHECK

#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::ConstantLossScale;
using headroom::GradScaler;
using support::logic_error_of;
using support::message_of;
using torch::Tensor;
namespace presets = headroom::presets;

namespace {

const std::vector<torch::ScalarType> dtypes = {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16};
const double infinity = std::numeric_limits<double>::infinity();

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}
/// Of magnitudes that every dtype has.
Tensor some(torch::IntArrayRef shape, torch::ScalarType dtype = torch::kFloat) {
  return torch::randint(-100, 100, shape, torch::kFloat).div(64).to(dtype);
}
Tensor parameter(torch::IntArrayRef shape, torch::ScalarType dtype = torch::kFloat) {
  return some(shape, dtype).requires_grad_(true);
}

struct Model {
  Tensor weight, bias, buffer;
  std::vector<float> rest;
};
HEADROOM_TREE(Model, weight, bias, buffer, rest)

}  // namespace

TEST_CASE("the verbs work on tensors of any dtype") {
  torch::manual_seed(1);
  for (const auto dtype : dtypes) {
    const std::vector<Tensor> tensors = {some({3, 5}, dtype), some({70000}, dtype), some({}, dtype), some({0}, dtype)};
    CHECK(headroom::leaf_count(tensors) == 4);
    CHECK(headroom::element_count(tensors) == 70016);
    CHECK(headroom::all_finite(tensors));
    const auto norm = headroom::measure(tensors);
    double squares = 0.0, largest = 0.0;
    for (const Tensor& tensor : tensors) {
      squares += tensor.to(torch::kDouble).square().sum().item<double>();
      if (tensor.numel() != 0) largest = std::max(largest, tensor.abs().max().to(torch::kDouble).item<double>());
    }
    CHECK(norm.norm == Catch::Approx(std::sqrt(squares)));
    CHECK(norm.max_abs == largest);

    std::vector<Tensor> changed;
    for (const Tensor& tensor : tensors) changed.push_back(tensor.clone());
    CHECK(ConstantLossScale(4.0F).unscale_in_place(changed).max_abs == largest / 4);
    for (std::size_t i = 0; i < tensors.size(); ++i) CHECK(same_bits(changed[i], tensors[i] / 4));
    changed[1][69999] = infinity;
    CHECK_FALSE(headroom::all_finite(changed));
    CHECK(headroom::find_nonfinite(changed)->path == "[1]");
    CHECK(headroom::find_nonfinite(changed)->index == 69999);
  }
}

TEST_CASE("new trees are of tensors, of the dtype asked for") {
  torch::manual_seed(2);
  const Model model{some({4, 3}), some({3}, torch::kDouble), torch::arange(4), {1.0F, 2.0F}};
  for (const auto dtype : dtypes) {
    const std::vector<Tensor> source = {some({4, 3}, dtype), Tensor(), torch::arange(3)};
    const auto halves = headroom::cast<headroom::half>(source);
    CHECK(same_bits(halves[0], source[0].to(torch::kHalf)));
    CHECK_FALSE(halves[1].defined());
    CHECK(halves[2].equal(source[2]));
    CHECK(same_bits(headroom::cast<headroom::bfloat16>(source)[0], source[0].to(torch::kBFloat16)));
    const auto [grads, report] = ConstantLossScale(8.0F).unscale<float>(source);
    CHECK(same_bits(grads[0], source[0].to(torch::kFloat) / 8));
    CHECK(same_bits(ConstantLossScale(8.0F).unscale(source).grads[0], source[0] / 8));
    std::vector<Tensor> wide = {torch::empty({4, 3}, torch::kDouble), Tensor(), torch::arange(3)};
    (void)ConstantLossScale(8.0F).unscale_into(source, wide);
    CHECK(same_bits(wide[0], source[0].to(torch::kDouble) / 8));
  }
  const Tensor whole = headroom::cast<headroom::half>(model.weight);
  CHECK(whole.scalar_type() == torch::kHalf);
  CHECK_FALSE(headroom::cast<float>(parameter({3})).requires_grad());
  std::vector<float> flat(12);
  headroom::cast_into(model.weight, flat);
  CHECK(same_bits(torch::from_blob(flat.data(), {4, 3}), model.weight));
}

TEST_CASE("strides are followed, and repeated elements refused") {
  torch::manual_seed(3);
  const Tensor base = some({6, 7, 8}, torch::kBFloat16);
  for (const Tensor& view : {base.transpose(0, 2), base.slice(1, 1, 6, 2), base.permute({2, 0, 1}).select(1, 3)}) {
    CHECK(headroom::measure(view).norm == Catch::Approx(view.to(torch::kDouble).norm().item<double>()));
    const Tensor expected = view / 2;
    CHECK(same_bits(ConstantLossScale(2.0F).unscale(view).grads, expected));
    const Tensor untouched = base.clone();
    Tensor copy = base.clone().as_strided(view.sizes(), view.strides(), view.storage_offset());
    (void)ConstantLossScale(2.0F).unscale_in_place(copy);
    CHECK(same_bits(copy, expected));
  }
  Tensor repeated = torch::ones({1}).expand({5});
  CHECK_THAT(message_of([&] { (void)ConstantLossScale(2.0F).unscale_in_place(repeated); }),
             ContainsSubstring("repeats elements"));
}

TEST_CASE("what cannot be reached is refused by its path, before anything is written") {
  const auto refused = [](const Tensor& bad) {
    const Tensor good = torch::ones({3});
    const std::vector<Tensor> tree = {good, bad};
    const std::string message = message_of([&] { (void)ConstantLossScale(2.0F).unscale_in_place(tree); });
    CHECK(good.equal(torch::ones({3})));
    return message;
  };
  CHECK_THAT(refused(torch::ones({2}, torch::kMeta)), ContainsSubstring("[1] is not on the CPU"));
  CHECK_THAT(refused(torch::ones({2}, torch::kComplexFloat)), ContainsSubstring("[1] has a dtype that is not supported"));
  const Tensor indices = torch::tensor({{0, 0}}, torch::kLong);
  CHECK_THAT(refused(torch::sparse_coo_tensor(indices, torch::ones({2}), {3})), ContainsSubstring("[1] is sparse and not"));
  CHECK_THAT(refused(torch::imag(torch::ones({2}, torch::kComplexFloat).conj())), ContainsSubstring("[1] has its negation"));
  CHECK_THAT(message_of([] {
               const std::vector<Tensor> source = {torch::ones({3})}, other = {torch::arange(3)};
               (void)ConstantLossScale(2.0F).unscale_into(source, other);
             }),
             ContainsSubstring("the trees differ at [0]"));
  CHECK_THAT(message_of([] {
               const Tensor source = torch::ones({3}), other = torch::ones({4});
               (void)ConstantLossScale(2.0F).unscale_into(source, other);
             }),
             ContainsSubstring("the source is 3, the destination is 4"));
}

TEST_CASE("coalesced sparse tensors are their values") {
  const Tensor indices = torch::tensor({{0, 2}}, torch::kLong);
  const Tensor sparse = torch::sparse_coo_tensor(indices, torch::tensor({2.0F, 4.0F}), {3}).coalesce();
  CHECK(headroom::element_count(sparse) == 2);
  CHECK(headroom::measure(sparse).max_abs == 4.0);
  const auto halved = ConstantLossScale(2.0F).unscale<double>(sparse).grads;
  CHECK(halved.is_coalesced());
  CHECK(halved.to_dense().equal(torch::tensor({1.0, 0.0, 2.0}, torch::kDouble)));
  CHECK(sparse.to_dense().equal(torch::tensor({2.0F, 0.0F, 4.0F})));
}

TEST_CASE("a scaled loss can be differentiated") {
  GradScaler<> scaler(presets::torch(1024.0));
  Tensor weight = parameter({3});
  scaler.scale((weight * weight).sum()).backward();
  CHECK(weight.grad().equal(weight.detach() * 2 * 1024));

  // All of several, whatever tree they are in; what is no tensor is scaled as well, what is no floating-point number is not.
  weight.mutable_grad() = Tensor();
  const auto [losses, number, index] = scaler.scale(std::make_tuple(std::vector<Tensor>{weight[0], weight[1] * 2}, 3.0F, 7));
  (losses[0] + losses[1]).backward();
  CHECK(weight.grad().equal(torch::tensor({1024.0F, 2048.0F, 0.0F})));
  CHECK(number == 3072.0F);
  CHECK(index == 7);
  CHECK(scaler.scale(torch::arange(3)).equal(torch::arange(3)));
  CHECK_FALSE(scaler.scale(Tensor()).defined());

  // fp16 has no 100000: a single number becomes float.
  const Tensor loss = scaler.scale(torch::tensor(100.0F).to(torch::kHalf));
  CHECK(loss.scalar_type() == torch::kFloat);
  CHECK(loss.item<float>() == 102400.0F);
  CHECK(scaler.scale(torch::ones({2}, torch::kHalf)).scalar_type() == torch::kHalf);

  GradScaler<> disabled(presets::torch(), false);
  const Tensor same = weight.sum();
  CHECK(disabled.scale(same).is_same(same));
  CHECK(ConstantLossScale(2.0F).scale(same).item<float>() == 2 * same.item<float>());
}

TEST_CASE("an optimizer of libtorch steps with unscaled gradients, and not where they overflow") {
  torch::manual_seed(4);
  for (const auto dtype : dtypes) {
    Tensor weight = parameter({4, 3}, dtype), bias = parameter({3}, dtype), unused = parameter({2}, dtype);
    torch::optim::SGD optimizer({weight, unused, bias}, 0.5);
    GradScaler<> scaler(presets::torch(1024.0));
    const Tensor before = weight.detach().clone();
    weight.mutable_grad() = some({4, 3}, dtype) * 4;
    bias.mutable_grad() = some({3}, dtype);
    const Tensor expected = before - (weight.grad() / 1024) * 0.5;
    const auto result = scaler.step(optimizer);
    scaler.update();
    CHECK_FALSE(result.skipped);
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

TEST_CASE("each parameter is unscaled once, however many groups have it") {
  Tensor shared = parameter({3}), other = parameter({2});
  torch::optim::SGD optimizer({torch::optim::OptimizerParamGroup({shared, other}), torch::optim::OptimizerParamGroup({shared})},
                              torch::optim::SGDOptions(1.0));
  shared.mutable_grad() = torch::full({3}, 1024.0F);
  other.mutable_grad() = torch::full({2}, 2048.0F);
  GradScaler<> scaler(presets::torch(1024.0));
  const auto report = scaler.unscale_(optimizer);
  CHECK(shared.grad().equal(torch::ones({3})));
  CHECK(other.grad().equal(torch::full({2}, 2.0F)));
  CHECK(report.max_abs == 2.0);
}

TEST_CASE("sparse gradients are coalesced, so that their sums are what is checked") {
  for (const bool overflows : {false, true}) {
    Tensor weight = parameter({4}, torch::kHalf);
    const Tensor indices = torch::tensor({{1, 1, 3}}, torch::kLong);
    const Tensor values =
        torch::tensor({overflows ? 60000.0F : 512.0F, overflows ? 60000.0F : 512.0F, 2048.0F}).to(torch::kHalf);
    weight.mutable_grad() = torch::sparse_coo_tensor(indices, values, {4});
    torch::optim::SGD optimizer({weight}, 1.0);
    GradScaler<> scaler(presets::torch(1024.0));
    const auto report = scaler.unscale_(optimizer);
    CHECK(report.finite == !overflows);
    if (!overflows) {
      CHECK(weight.grad().is_coalesced());
      CHECK(weight.grad()._values().to(torch::kFloat).equal(torch::tensor({1.0F, 2.0F})));
    }
  }
  // As nn::Embedding makes them.
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(10, 3).sparse(true));
  torch::optim::SGD optimizer(embedding->parameters(), 1.0);
  GradScaler<> scaler(presets::torch(1024.0));
  const Tensor before = embedding->weight.detach().clone();
  scaler.scale(embedding->forward(torch::tensor({2, 2, 5}, torch::kLong)).sum()).backward();
  CHECK_FALSE(scaler.step(optimizer).skipped);
  CHECK(torch::allclose(embedding->weight[2], before[2] - 2.0));
  CHECK(torch::allclose(embedding->weight[5], before[5] - 1.0));
  CHECK(torch::allclose(embedding->weight[1], before[1]));
}

TEST_CASE("clipping is that of torch, less what that adds to the norm") {
  torch::manual_seed(5);
  Tensor weight = parameter({40, 30}), bias = parameter({30});
  torch::optim::SGD optimizer({weight, bias}, 1.0);
  for (const double max_norm : {0.5, 1e9}) {
    for (const float scale : {1024.0F, 1000.0F}) {
      GradScaler<> scaler(presets::torch(static_cast<double>(scale)));
      const Tensor grads[] = {some({40, 30}), some({30})};
      weight.mutable_grad() = grads[0] * scale;
      bias.mutable_grad() = grads[1] * scale;
      const double norm = scaler.unscale_and_clip_(optimizer, max_norm).norm;
      const double expected = std::sqrt(grads[0].square().sum().item<double>() + grads[1].square().sum().item<double>());
      CHECK(norm == Catch::Approx(expected));
      const double factor = std::min(1.0, max_norm / expected);
      CHECK(torch::allclose(weight.grad(), grads[0] * factor));
      CHECK(torch::allclose(bias.grad(), grads[1] * factor));
      (void)scaler.step(optimizer);
      scaler.update();
    }
  }
}

TEST_CASE("training with a scale of a power of two is training without, bit for bit") {
  const auto train = [](bool enabled) {
    torch::manual_seed(6);
    torch::nn::Sequential model(torch::nn::Linear(5, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
    torch::optim::Adam optimizer(model->parameters(), 0.01);
    GradScaler<> scaler(presets::torch(1024.0, 2.0, 0.5, 7), enabled);
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

TEST_CASE("an optimizer without gradients, and one in deferred mode, are logic errors") {
  Tensor weight = parameter({3});
  torch::optim::SGD optimizer({weight}, 1.0);
  GradScaler<> scaler;
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }), ContainsSubstring("the optimizer has no gradients"));
  scaler.set_deferred(true);
  weight.mutable_grad() = torch::ones({3});
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }), ContainsSubstring("takes no GradientFactor"));
}

TEST_CASE("the optimizer may run in another thread") {
  Tensor weight = parameter({3});
  const Tensor before = weight.detach().clone();
  torch::optim::SGD optimizer({weight}, 1.0);
  headroom::AsyncGradScaler<> scaler(presets::torch(1024.0));
  for (int step = 0; step < 3; ++step) {
    scaler.synchronize();
    weight.mutable_grad() = Tensor();
    scaler.scale(weight.sum()).backward();
    (void)scaler.submit(optimizer);
    scaler.update();
  }
  scaler.synchronize();
  CHECK(torch::allclose(weight.detach(), before - 3.0));
}

TEST_CASE("gradients are changed as autograd wants to be told") {
  Tensor weight = parameter({3});
  torch::optim::SGD optimizer({weight}, 1.0);
  weight.mutable_grad() = torch::full({3}, 1024.0F);
  GradScaler<> scaler(presets::torch(1024.0));
  auto version = weight.grad()._version();
  (void)scaler.unscale_(optimizer);
  CHECK(weight.grad()._version() > version);
  scaler.update();
  version = weight.grad()._version();
  weight.mutable_grad().fill_(1024.0F);
  (void)scaler.unscale_and_clip_(optimizer, 1e-6);
  CHECK(weight.grad()._version() > version);
  CHECK_FALSE(weight.grad().requires_grad());
  scaler.update();
  {
    const c10::InferenceMode inference;  // whose tensors have no version
    weight.mutable_grad() = torch::full({3}, 1024.0F);
  }
  CHECK(scaler.unscale_(optimizer).max_abs == 1.0);
}

TEST_CASE("a gradient without elements is a step, and the other parameters are not left out") {
  Tensor frozen = parameter({0, 3}), weight = parameter({2});
  torch::optim::SGD head({frozen}, 1.0), all({frozen, weight}, 1.0);
  GradScaler<> scaler(presets::torch(1024.0));
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(head); }), ContainsSubstring("call backward first"));
  frozen.mutable_grad() = torch::zeros({0, 3});
  const auto result = scaler.step(head);
  CHECK_FALSE(result.skipped);
  CHECK(result.report.max_abs == 0.0);
  weight.mutable_grad() = torch::full({2}, 2048.0F);
  CHECK(scaler.step(all).report.max_abs == 2.0);
  scaler.update();

  // A batch without tokens.
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(10, 3).sparse(true));
  torch::optim::SGD optimizer(embedding->parameters(), 1.0);
  scaler.scale(embedding->forward(torch::zeros({0}, torch::kLong)).sum()).backward();
  REQUIRE(embedding->weight.grad().defined());
  CHECK_FALSE(scaler.step(optimizer).skipped);
  scaler.update();
  CHECK(scaler.policy().counter() == 2);
}

TEST_CASE("a subclass that has gradients() of its own is an optimizer of libtorch all the same") {
  struct Recording : torch::optim::SGD {
    using torch::optim::SGD::SGD;
    std::vector<Tensor> gradients() { return {}; }
  };
  Tensor weight = parameter({2});
  weight.mutable_grad() = torch::full({2}, 2048.0F);
  Recording optimizer({weight}, torch::optim::SGDOptions(1.0));
  GradScaler<> scaler(presets::torch(1024.0));
  CHECK(scaler.step(optimizer).report.max_abs == 2.0);
}

TEST_CASE("an optimizer that is added between unscale and step, and moves the others, unscales none twice") {
  Tensor a = parameter({2}), b = parameter({2});
  std::vector<torch::optim::SGD> optimizers;
  optimizers.emplace_back(std::vector<Tensor>{a}, torch::optim::SGDOptions(1.0));
  GradScaler<> scaler(presets::torch(1024.0));
  const Tensor before = a.detach().clone();
  a.mutable_grad() = b.mutable_grad() = torch::full({2}, 2048.0F);
  b.mutable_grad() = b.grad().clone();
  (void)scaler.unscale_(optimizers[0]);
  optimizers.reserve(10);
  optimizers.emplace_back(std::vector<Tensor>{b}, torch::optim::SGDOptions(1.0));
  for (auto& optimizer : optimizers) CHECK_FALSE(scaler.step(optimizer).skipped);
  CHECK(torch::allclose(a.detach(), before - 2.0));
}

TEST_CASE("two parameters with one sparse gradient have one after it has been coalesced") {
  Tensor a = parameter({4}), b = parameter({4});
  const Tensor sparse = torch::sparse_coo_tensor(torch::tensor({{1, 1}}, torch::kLong), torch::tensor({512.0F, 512.0F}), {4});
  a.mutable_grad() = sparse;
  b.mutable_grad() = sparse;
  torch::optim::SGD optimizer({a, b}, 1.0);
  GradScaler<> scaler(presets::torch(1024.0));
  CHECK(scaler.unscale_(optimizer).max_abs == 1.0);
  CHECK(a.grad().to_dense().equal(torch::tensor({0.0F, 1.0F, 0.0F, 0.0F})));
  CHECK(b.grad().to_dense().equal(a.grad().to_dense()));
}

TEST_CASE("what overflows when it is unscaled and clipped is an overflow") {
  Tensor weight = parameter({2}, torch::kHalf);
  weight.mutable_grad() = torch::full({2}, 60000.0F).to(torch::kHalf);
  torch::optim::SGD optimizer({weight}, 1.0);
  headroom::LossScaleConfig config;
  config.initial_scale = 0.5F;
  config.min_scale = 0.25F;
  GradScaler<> scaler{headroom::DynamicLossScale(config)};
  CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 1e9).finite);
  CHECK(scaler.step(optimizer).skipped);
}

TEST_CASE("an optimizer of one's own multiplies in its own loop") {
  struct Fused : torch::optim::SGD {
    using torch::optim::SGD::SGD;
    using torch::optim::SGD::step;
    void step(headroom::GradientFactor factor) { last = factor.value; }
    double last = 0.0;
  };
  Tensor weight = parameter({2});
  weight.mutable_grad() = torch::full({2}, 1024.0F);
  Fused optimizer({weight}, torch::optim::SGDOptions(1.0));
  GradScaler<> scaler(presets::torch(1024.0));
  scaler.set_deferred(true);
  CHECK(scaler.step(optimizer).report.max_abs == 1.0);
  CHECK(optimizer.last == 1.0 / 1024);
  CHECK(weight.grad().equal(torch::full({2}, 1024.0F)));
}

TEST_CASE("gradients in several places are measured, unscaled and clipped together") {
  using headroom::detail::aten::Gradients;
  // On other devices than the CPU ATen unscales; the 16-bit ones stand for those.
  const auto make = [](std::vector<Tensor>& tensors) {
    tensors = {torch::full({9}, 3.0F), torch::full({16}, 4.0F).to(torch::kBFloat16)};
    return Gradients(tensors, [](const Tensor& tensor) { return tensor.scalar_type() == torch::kFloat; });
  };
  const auto executor = headroom::parallel(1);
  std::vector<Tensor> tensors;
  Gradients gradients = make(tensors);
  CHECK(gradients.measure(executor).norm == Catch::Approx(std::sqrt(9 * 9.0 + 16 * 16.0)));
  CHECK(gradients.measure(executor).max_abs == 4.0);
  CHECK(gradients.unscale(executor, 2.0F).max_abs == 2.0);
  CHECK(same_bits(tensors[0], torch::full({9}, 1.5F)));
  CHECK(same_bits(tensors[1], torch::full({16}, 2.0F).to(torch::kBFloat16)));
  CHECK(gradients.scale(executor, 2.0).max_abs == 4.0);
  CHECK(same_bits(tensors[0], torch::full({9}, 3.0F)));
  CHECK(same_bits(tensors[1], torch::full({16}, 4.0F).to(torch::kBFloat16)));
  for (const std::size_t bad : {0, 1}) {
    Gradients others = make(tensors);
    tensors[bad][5] = infinity;
    CHECK_FALSE(others.measure(executor).finite);
    CHECK(others.measure(executor).norm == infinity);
    CHECK_FALSE(others.unscale(executor, 2.0F).finite);
    CHECK_FALSE(others.scale(executor, 2.0).finite);
    CHECK(tensors[1 - bad][0].item<float>() == (bad == 0 ? 4.0F : 3.0F));  // halved and doubled: none is left out
  }
}

// The route of other devices, on the CPU.
TEST_CASE("gradients elsewhere: measured and scaled by ATen") {
  torch::manual_seed(7);
  for (const auto dtype : dtypes) {
    const std::vector<Tensor> gradients = {some({5, 4}, dtype), some({7}, dtype), some({0}, dtype)};
    const auto expected = headroom::measure(gradients);
    headroom::detail::aten::DeviceGradients device(torch::kCPU);
    std::vector<Tensor> copies;
    for (const Tensor& gradient : gradients) {
      copies.push_back(gradient.clone());
      device.add(copies.back());
    }
    const auto norm = device.measure();
    CHECK(norm.finite);
    CHECK(norm.max_abs == expected.max_abs);
    CHECK(norm.norm == Catch::Approx(expected.norm));
    CHECK(device.scale(0.5).max_abs == expected.max_abs / 2);
    CHECK(same_bits(copies[0], gradients[0] * 0.5));

    const auto report = device.scale(0.25);
    CHECK(report.finite);
    CHECK(report.max_abs == expected.max_abs / 8);
    CHECK(same_bits(copies[0], gradients[0] / 8));
    for (const double bad : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
      copies[1][3] = bad;
      CHECK_FALSE(device.scale(1.0).finite);
      CHECK(device.scale(1.0).max_abs == infinity);
      CHECK_FALSE(device.measure().finite);
      CHECK(device.measure().norm == infinity);
    }
  }
  headroom::detail::aten::DeviceGradients nothing(torch::kCPU);
  CHECK(nothing.measure().norm == 0.0);
  CHECK(nothing.scale(0.25).finite);
}
