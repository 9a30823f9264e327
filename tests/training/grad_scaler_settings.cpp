#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/grad_scaler_settings.hpp>

#include <stdexcept>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using headroom::GradientFactor;
using headroom::GradientSums;
using headroom::GradScaler;
using headroom::LossScaleConfig;
using support::infinity;
using support::logic_error_of;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

/// support::Sgd, multiplying in its own loop.
struct FusedSgd {
  Weights weights;
  Weights grads;
  double factor = 0.0;

  Weights& gradients() { return grads; }
  void step(GradientFactor gradient_factor) {
    factor = gradient_factor.value;
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= static_cast<float>(static_cast<double>(grads[i]) * factor);
  }
};

}  // namespace

TEST_CASE("deferred: gradients stay as they are, and the optimizer multiplies") {
  for (const double max_norm : {1e9, 2.5}) {
    GradScaler scaler(presets::torch(4096.0)), deferred(presets::torch(4096.0));
    deferred.set_deferred(true);
    FusedSgd a{{0.0F, 0.0F}, {3.0F * 4096.0F, -4.0F * 4096.0F}}, b = a;
    const headroom::GradientNorm first = scaler.unscale_and_clip_(a, max_norm),
                                 second = deferred.unscale_and_clip_(b, max_norm);
    CHECK(first.norm == second.norm);
    CHECK(first.max_abs == second.max_abs);
    CHECK(b.grads == Weights{3.0F * 4096.0F, -4.0F * 4096.0F});
    (void)scaler.step(a);
    CHECK_FALSE(deferred.step(b).skipped);
    CHECK(a.factor == 1.0);
    CHECK(b.factor == Approx(max_norm > 5.0 ? 1.0 / 4096 : 0.5 / 4096));
    CHECK(a.weights == b.weights);
    scaler.update();
    deferred.update();
    CHECK(scaler.policy() == deferred.policy());
  }
}

TEST_CASE("deferred: what would overflow when multiplied is an overflow") {
  GradScaler scaler(headroom::ConstantLossScale(0x1p-100F));
  scaler.set_deferred(true);
  FusedSgd optimizer{{0.0F}, {0x1p30F}};
  const auto result = scaler.step(optimizer);
  CHECK(result.skipped);
  CHECK(support::bits_of(result.report.max_abs) == headroom::binary64::infinity_bits);
}

TEST_CASE("deferred: an optimizer that takes no factor is refused, and so is a change within an iteration") {
  GradScaler<> scaler;
  scaler.set_deferred(true);
  Sgd plain{{1.0F}, {1.0F}};
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(plain); }), ContainsSubstring("takes no GradientFactor"));
  CHECK(plain.weights == Weights{1.0F});
  FusedSgd fused{{1.0F}, {1.0F}};
  (void)scaler.step(fused);
  CHECK_THAT(logic_error_of([&] { scaler.set_deferred(false); }), ContainsSubstring("call update first"));
  scaler.update();
  scaler.set_deferred(false);
  CHECK_FALSE(scaler.step(plain).skipped);
}

TEST_CASE("a reducer decides for all ranks, once a step, before anything else") {
  GradScaler<> scaler;
  int calls = 0;
  bool other_rank_is_finite = false;
  scaler.set_reducer([&](const GradientSums& local) {
    ++calls;
    return GradientSums{other_rank_is_finite, local.max_abs, local.sum_of_squares};
  });
  Sgd optimizer{{1.0F}, {32768.0F}};
  CHECK_FALSE(scaler.unscale_(optimizer).finite);
  CHECK(scaler.step(optimizer).skipped);
  CHECK(calls == 1);
  scaler.update();
  CHECK(scaler.get_scale() == 16384.0F);
  other_rank_is_finite = true;
  optimizer.grads = {16384.0F};
  CHECK_FALSE(scaler.step(optimizer).skipped);
  CHECK(calls == 2);
}

TEST_CASE("on_floor is called for an overflow at the floor, after the update") {
  headroom::LossScaleConfig config;
  config.initial_scale = 2.0F;
  GradScaler scaler{headroom::DynamicLossScale(config)};
  int calls = 0;
  const auto overflow = [&] {
    Sgd optimizer{{1.0F}, {infinity()}};
    CHECK(scaler.step(optimizer).skipped);  // at the floor as well
    CHECK(optimizer.weights == Weights{1.0F});
    scaler.update();
  };
  overflow();  // without a callback the training goes on
  overflow();
  CHECK(scaler.get_scale() == 1.0F);
  scaler.set_on_floor([&](const headroom::DynamicLossScale& policy) {
    ++calls;
    CHECK(policy.loss_scale() == 1.0F);
    if (calls == 2) throw std::runtime_error("the training has diverged");
  });
  scaler.update(4.0F);
  overflow();
  overflow();
  CHECK(calls == 0);
  overflow();
  CHECK(calls == 1);
  CHECK_THROWS_AS(overflow(), std::runtime_error);
  CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("update: no optimizer"));  // it was done
}

TEST_CASE("an overflow of a scale above the floor is none at the floor, even if somebody has set the scale since") {
  GradScaler scaler(presets::jmp(4.0));
  int calls = 0;
  scaler.set_on_floor([&](const headroom::DynamicLossScale&) { ++calls; });
  (void)scaler.scale(1.0F);
  scaler.update(1.0F);
  Sgd optimizer{{1.0F}, {infinity()}};
  CHECK(scaler.step(optimizer).skipped);  // scaled by 4
  scaler.update();
  CHECK(calls == 0);
  (void)scaler.step(optimizer);
  scaler.update();
  CHECK(calls == 1);
}

TEST_CASE("where the reducer throws the gradients count as unscaled, and nobody steps by them") {
  GradScaler scaler(presets::torch(1024.0));
  Sgd optimizer{{1.0F}, {1024.0F}};
  bool throws = true;
  scaler.set_reducer([&](const GradientSums& local) {
    if (throws) throw std::runtime_error("timeout");
    return local;
  });
  CHECK_THROWS_AS(scaler.step(optimizer), std::runtime_error);
  CHECK(optimizer.grads == Weights{1.0F});
  throws = false;
  CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_(optimizer); }), ContainsSubstring("unscaled already"));
  CHECK(scaler.step(optimizer).skipped);
  CHECK(optimizer.weights == Weights{1.0F});
  CHECK(optimizer.grads == Weights{1.0F});
}

TEST_CASE("settings are read and set as in torch") {
  GradScaler scaler(presets::torch());
  CHECK(scaler.get_growth_factor() == 2.0);
  CHECK(scaler.get_backoff_factor() == 0.5);
  CHECK(scaler.get_growth_interval() == 2000);
  scaler.set_growth_factor(3.0);
  scaler.set_backoff_factor(0.25);
  scaler.set_growth_interval(5);
  CHECK(scaler.policy() == presets::torch(65536.0, 3.0, 0.25, 5));
  CHECK_THAT(support::message_of([&] { scaler.set_growth_factor(1.0); }), ContainsSubstring("growth_factor is 1"));
  CHECK_THAT(support::message_of([&] { scaler.set_growth_interval(0); }), ContainsSubstring("growth_interval is 0"));
  CHECK(scaler.policy() == presets::torch(65536.0, 3.0, 0.25, 5));
  GradScaler hysteresis(presets::apex());
  hysteresis.set_growth_interval(7);
  CHECK(hysteresis.policy() == presets::apex(65536.0, 2.0, 0.5, 7));
}

TEST_CASE("a scaler that was saved and loaded goes on as the other one") {
  GradScaler scaler(presets::torch(65536.0, 2.0, 0.5, 3)), resumed(presets::torch());
  for (int step = 0; step < 50; ++step) {
    Sgd optimizer{{1.0F}, {step % 7 == 3 ? infinity() : 1.0F}}, same = optimizer;
    resumed = GradScaler(presets::torch());
    resumed.load_state_dict(scaler.state_dict());
    (void)scaler.step(optimizer);
    (void)resumed.step(same);
    CHECK(optimizer.weights == same.weights);
    scaler.update();
    resumed.update();
    CHECK(scaler.policy() == resumed.policy());
  }
  const auto before = resumed.policy();
  CHECK_THAT(support::message_of([&] { resumed.load_state_dict({}); }), ContainsSubstring("the key 'version' is missing"));
  CHECK(resumed.policy() == before);
}
