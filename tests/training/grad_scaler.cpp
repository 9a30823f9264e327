#include <headroom/dtype/half.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/optimizers.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using headroom::GradScaler;
using headroom::half;
using support::infinity;
using support::logic_error_of;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

/// What backward would leave: the gradient of the unscaled loss times the loss.
void backward(float loss, const Weights& true_grads, Weights& grads) {
  grads.resize(true_grads.size());
  for (std::size_t i = 0; i < grads.size(); ++i) grads[i] += true_grads[i] * loss;
}

}  // namespace

TEST_CASE("a step unscales, checks and steps; an update adjusts") {
  GradScaler scaler(presets::torch());
  Sgd optimizer{{1.0F, 2.0F}, {}};
  const float loss = scaler.scale(1.0F);
  CHECK(loss == 65536.0F);
  backward(loss, {0.5F, -1.0F}, optimizer.grads);
  const auto result = scaler.step(optimizer);
  static_assert(std::is_same_v<decltype(result.value), std::optional<int>>);
  CHECK_FALSE(result.skipped);
  CHECK(result.value == 1);
  CHECK(result.report.finite);
  CHECK(result.report.max_abs == 1.0);
  CHECK(optimizer.weights == Weights{0.5F, 3.0F});
  CHECK(scaler.policy() == presets::torch());
  scaler.update();
  CHECK(scaler.policy() == presets::torch().adjust(true));
}

TEST_CASE("an overflow skips the step, tells so, and backs off") {
  GradScaler<> scaler;
  Sgd optimizer{{1.0F, 2.0F}, {1.0F, infinity()}};
  const auto result = scaler.step(optimizer, 0.1F);
  CHECK(result.skipped);
  CHECK_FALSE(result.value.has_value());
  CHECK_FALSE(result.report.finite);
  CHECK(optimizer.weights == Weights{1.0F, 2.0F});
  CHECK(optimizer.steps == 0);
  CHECK(scaler.get_scale() == 32768.0F);
  scaler.update();
  CHECK(scaler.get_scale() == 16384.0F);
}

TEST_CASE("losses are scaled as a policy scales them") {
  GradScaler scaler(headroom::ConstantLossScale(1024.0F));
  CHECK(scaler.scale(half(2.0F)) == 2048.0F);
  CHECK(scaler.scale(2.0) == 2048.0);
  CHECK(scaler.scale(std::vector<float>{1.0F, 2.0F}) == std::vector<float>{1024.0F, 2048.0F});
}

TEST_CASE("each optimizer is skipped by its own gradients, and the policy changes once") {
  GradScaler<> scaler;
  Sgd good{{1.0F}, {32768.0F}}, bad{{1.0F}, {infinity()}}, other_bad{{1.0F}, {infinity()}};
  CHECK_FALSE(scaler.step(good).skipped);
  CHECK(scaler.step(bad).skipped);
  CHECK(scaler.step(other_bad).skipped);
  CHECK(good.weights == Weights{0.0F});
  CHECK(bad.weights == Weights{1.0F});
  scaler.update();
  CHECK(scaler.get_scale() == 16384.0F);

  good.grads = {16384.0F};
  bad.grads = {16384.0F};
  (void)scaler.step(bad);
  (void)scaler.step(good);
  scaler.update();
  CHECK(scaler.policy().counter() == 1);
}

TEST_CASE("gradients are unscaled once, by unscale or by step") {
  GradScaler scaler(headroom::ConstantLossScale(8.0F));
  Sgd optimizer{{1.0F}, {8.0F}};
  CHECK(scaler.unscale_(optimizer).max_abs == 1.0);
  CHECK(optimizer.grads == Weights{1.0F});
  optimizer.grads[0] = 0.25F;  // what looking at them is for
  CHECK(scaler.step(optimizer).report.max_abs == 1.0);
  CHECK(optimizer.weights == Weights{0.75F});
}

TEST_CASE("what an optimizer throws goes through, and was its step") {
  struct Throws {
    Weights grads;
    Weights& gradients() { return grads; }
    void step() { throw std::runtime_error("disk full"); }
  };
  GradScaler<> scaler;
  Throws optimizer{{1.0F}};
  CHECK_THROWS_AS(scaler.step(optimizer), std::runtime_error);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }), ContainsSubstring("stepped already"));
  scaler.update();
  CHECK(scaler.policy().counter() == 1);
}

TEST_CASE("several losses of one iteration have one scale") {
  GradScaler scaler(presets::torch());
  Sgd optimizer{{1.0F, 1.0F}, {}};
  backward(scaler.scale(1.0F), {0.5F, 0.0F}, optimizer.grads);
  backward(scaler.scale(3.0F), {0.0F, 0.25F}, optimizer.grads);
  CHECK(scaler.step(optimizer).report.max_abs == 0.75);
  CHECK(optimizer.weights == Weights{0.5F, 0.25F});
}

TEST_CASE("clipping comes after unscaling") {
  GradScaler<> scaler;
  Sgd by_hand{{0.0F, 0.0F}, {}}, by_scaler = by_hand;
  backward(scaler.scale(1.0F), {3.0F, -4.0F}, by_hand.grads);
  by_scaler.grads = by_hand.grads;

  (void)scaler.unscale_(by_hand);
  CHECK(headroom::clip_by_global_norm(by_hand.grads, 1.0).norm == 5.0);  // before unscaling it would be 163840
  (void)scaler.step(by_hand);
  const headroom::GradientNorm norm = scaler.unscale_and_clip_(by_scaler, 1.0);
  CHECK(norm.norm == 5.0);
  CHECK(norm.max_abs == 4.0);
  (void)scaler.step(by_scaler);
  for (const Weights& weights : {by_hand.weights, by_scaler.weights}) {
    CHECK(static_cast<double>(weights[0]) == Approx(-0.6));
    CHECK(static_cast<double>(weights[1]) == Approx(0.8));
  }
  CHECK_THROWS_AS(scaler.unscale_and_clip_(by_scaler, -1.0), std::invalid_argument);
}

TEST_CASE("gradients that are not finite are neither clipped nor stepped by") {
  GradScaler<> scaler;
  Sgd optimizer{{1.0F, 1.0F}, {32768.0F, infinity()}};
  CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 0.1).finite);
  CHECK(scaler.step(optimizer).skipped);
}

TEST_CASE("disabled, everything passes through") {
  GradScaler scaler(presets::torch(), false);
  Sgd optimizer{{1.0F}, {infinity()}};
  CHECK(scaler.scale(3.0F) == 3.0F);
  CHECK(scaler.scale(half(3.0F)) == 3.0F);
  const std::vector<float> outputs{1.0F, 2.0F};
  CHECK(scaler.scale(outputs) == outputs);
  CHECK(scaler.unscale_(optimizer).finite);
  CHECK(scaler.unscale_(optimizer).finite);
  const auto result = scaler.step(optimizer, 0.0F);
  CHECK_FALSE(result.skipped);
  CHECK(result.value == 1);
  CHECK(optimizer.grads == Weights{infinity()});
  (void)scaler.step(optimizer);
  scaler.update();
  scaler.update(7.0F);
  CHECK(scaler.get_scale() == 1.0F);
  CHECK_FALSE(scaler.is_enabled());
  CHECK(scaler.state_dict().empty());
  scaler.load_state_dict({});
  optimizer.grads = {3.0F};
  CHECK(scaler.unscale_and_clip_(optimizer, 1.5).norm == 3.0);
  CHECK(optimizer.grads == Weights{1.5F});
}

TEST_CASE("a scaler made with torch's arguments has torch's rule and defaults") {
  const GradScaler from_double(65536.0), from_int(65536), from_float(65536.0F);
  for (const GradScaler<>* scaler : {&from_double, &from_int, &from_float}) CHECK(scaler->policy() == presets::torch());
  const GradScaler all(1024.0, 4.0, 0.25, 7, false);
  static_assert(std::is_same_v<decltype(all), const GradScaler<>>);
  CHECK(all.policy() == presets::torch(1024.0, 4.0, 0.25, 7));
  CHECK_FALSE(all.is_enabled());
  CHECK(GradScaler<>(1024.0, 4.0).policy() == presets::torch(1024.0, 4.0));
  CHECK(GradScaler<>(0x1p-126).policy() == presets::torch(0x1p-126));
  CHECK(GradScaler<>().policy() == headroom::DynamicLossScale());
  CHECK(GradScaler().policy() == headroom::DynamicLossScale());
  CHECK_FALSE(GradScaler(headroom::ConstantLossScale(2.0F), false).is_enabled());
  CHECK(GradScaler<headroom::ConstantLossScale>(headroom::ConstantLossScale(2.0F)).get_scale() == 2.0F);
  static_assert(!std::is_constructible_v<GradScaler<>, bool>);
  static_assert(!std::is_constructible_v<GradScaler<headroom::ConstantLossScale>, double>);
  static_assert(!std::is_constructible_v<GradScaler<headroom::HysteresisScale>, double>);
  CHECK_THAT(support::message_of([] { (void)GradScaler(0.0); }), ContainsSubstring("init_scale is 0; it must be in"));
  CHECK_THAT(support::message_of([] { (void)GradScaler(1e39); }), ContainsSubstring("init_scale is 1e+39"));
  CHECK_THAT(support::message_of([] { (void)GradScaler(1.0, 1.0); }), ContainsSubstring("growth_factor is 1"));
  CHECK_THAT(support::message_of([] { (void)GradScaler(1.0, 2.0, 1.0); }), ContainsSubstring("backoff_factor is 1"));
  CHECK_THAT(support::message_of([] { (void)GradScaler(1.0, 2.0, 0.5, 0); }), ContainsSubstring("growth_interval is 0"));
}

TEST_CASE("it takes any policy, and follows torch's recorded sequences") {
  for (const auto& trace : support::golden("torch.trace")) {
    GradScaler scaler(headroom::AnyLossScale(presets::torch(
        trace.config_or("initial_scale", 65536.0), trace.config_or("growth_factor", 2.0),
        trace.config_or("backoff_factor", 0.5), static_cast<std::int64_t>(trace.config_or("growth_interval", 2000.0)))));
    Sgd optimizer{{1.0F}, {1.0F}};
    const std::vector<double>& scales = trace.scales.at("scale");
    for (std::size_t step = 0; step < scales.size(); ++step) {
      optimizer.grads = {trace.overflow[step] ? infinity() : 0.5F};
      REQUIRE(scaler.step(optimizer).skipped == trace.overflow[step]);
      scaler.update();
      REQUIRE(static_cast<double>(scaler.get_scale()) == scales[step]);
    }
  }
}

TEST_CASE("a scaler can be a member of an aggregate") {
  struct Trainer {
    GradScaler<> scaler;
    int steps;
  };
  Trainer trainer{};
  CHECK(trainer.scaler.get_scale() == 32768.0F);
  CHECK(trainer.steps == 0);
  struct Background {
    headroom::AsyncGradScaler<> scaler;
    int steps;
  };
  Background background{};
  CHECK(background.scaler.get_scale() == 32768.0F);
}
