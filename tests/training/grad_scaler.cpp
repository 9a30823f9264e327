#include <headroom/dtype/half.hpp>
#include <headroom/ops/policy_verbs.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/optimizers.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using headroom::GradientFactor;
using headroom::GradientReport;
using headroom::GradientSums;
using headroom::GradScaler;
using headroom::half;
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
/// An optimizer of somebody else's, with 16-bit gradients.
struct Foreign {
  std::vector<half> flat;
  bool applied = false;
};

/// What backward would leave: the gradient of the unscaled loss times the loss.
void backward(float loss, const Weights& true_grads, Weights& grads) {
  grads.resize(true_grads.size());
  for (std::size_t i = 0; i < grads.size(); ++i) grads[i] += true_grads[i] * loss;
}

/// An optimizer whose gradients nobody but its traits may touch.
struct Remote {
  Weights grads;
  std::vector<std::string> calls;
  std::size_t threads = 0;
};

}  // namespace

template <>
struct headroom::optimizer_traits<Remote> {
  static Weights& gradients(Remote& optimizer) {
    current = &optimizer;
    return optimizer.grads;
  }
  static void step(Remote&, GradientFactor) {}
  static GradientReport unscale(const ParallelExecutor& executor, Weights& grads, float scale) {
    current->threads = executor.concurrency();
    current->calls.push_back("unscale");
    return ConstantLossScale(scale).unscale_in_place(executor, grads);
  }
  static GradientNorm measure(const ParallelExecutor& executor, const Weights& grads) {
    current->calls.push_back("measure");
    return headroom::measure(executor, grads);
  }
  static GradientReport scale(const ParallelExecutor& executor, Weights& grads, double factor) {
    current->calls.push_back("scale");
    return ConstantLossScale(static_cast<float>(1.0 / factor)).unscale_in_place(executor, grads);
  }
  static inline Remote* current = nullptr;
};

template <>
struct headroom::optimizer_traits<Foreign> {
  static auto gradients(Foreign& optimizer) { return std::tie(optimizer.flat); }
  static void step(Foreign& optimizer) { optimizer.applied = true; }
};

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

TEST_CASE("traits of a user's own, a tree of views, a step that returns nothing") {
  GradScaler scaler(headroom::ConstantLossScale(8.0F));
  Foreign optimizer{{half(8.0F), half(-4.0F)}};
  const auto result = scaler.step(optimizer);
  static_assert(std::is_same_v<decltype(result), const headroom::StepResult<void>>);
  CHECK(optimizer.applied);
  CHECK(optimizer.flat == std::vector<half>{half(1.0F), half(-0.5F)});
  CHECK(result.report.max_abs == 1.0);
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

TEST_CASE("the combined report is that of all optimizers") {
  const GradientReport small{true, 1.0}, large{true, 2.0}, bad{false, static_cast<double>(infinity())};
  CHECK(headroom::detail::combined(small, large).max_abs == 2.0);
  CHECK(headroom::detail::combined(large, small).max_abs == 2.0);
  CHECK_FALSE(headroom::detail::combined(bad, small).finite);
  CHECK_FALSE(headroom::detail::combined(small, bad).finite);
  CHECK_FALSE(headroom::detail::combined(GradientReport{false, 0.0}, small).finite);  // as traits of a user's own may say it
  CHECK_FALSE(headroom::detail::combined(small, GradientReport{false, 0.0}).finite);
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

TEST_CASE("calls in the wrong order are logic errors that say what to do") {
  GradScaler<> scaler;
  Sgd optimizer{{1.0F}, {1.0F}};
  CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("update: no optimizer has been unscaled or stepped"));
  (void)scaler.unscale_(optimizer);
  const Weights unscaled = optimizer.grads;
  CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_(optimizer); }),
             ContainsSubstring("have been unscaled already since the last update"));
  CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_and_clip_(optimizer, 1.0); }),
             ContainsSubstring("have been unscaled already"));
  CHECK(optimizer.grads == unscaled);
  (void)scaler.step(optimizer);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }),
             ContainsSubstring("step: this optimizer has been stepped already"));
  CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_(optimizer); }),
             ContainsSubstring("unscale_: this optimizer has been stepped already"));
  CHECK(optimizer.steps == 1);
  scaler.update();
  CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("update: no optimizer"));
  (void)scaler.step(optimizer);
  CHECK(optimizer.steps == 2);
}

TEST_CASE("no gradients at all is a logic error") {
  struct Nothing {
    std::vector<Weights> grads;
    std::vector<Weights>& gradients() { return grads; }
    void step() {}
  };
  GradScaler<> scaler;
  Nothing optimizer;
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }),
             ContainsSubstring("the optimizer has no gradients; call backward first"));
  CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("update: no optimizer"));
  optimizer.grads = {{}, {1.0F}};
  CHECK_FALSE(scaler.step(optimizer).skipped);
}

TEST_CASE("an optimizer may go away between steps, and another come to its place") {
  GradScaler scaler(presets::torch());
  for (int step = 0; step < 100; ++step) {
    const auto optimizer = std::make_unique<Sgd>(Sgd{{1.0F}, {scaler.scale(1.0F)}});
    CHECK_FALSE(scaler.step(*optimizer).skipped);
    scaler.update();
  }
  CHECK(scaler.policy().counter() == 100);
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

TEST_CASE("gradients are unscaled by the scale of their loss, even if somebody sets it between") {
  GradScaler<> scaler;
  Sgd optimizer{{1.0F}, {}};
  backward(scaler.scale(1.0F), {0.5F}, optimizer.grads);
  scaler.update(1024.0F);
  CHECK(scaler.get_scale() == 1024.0F);
  CHECK(scaler.scale(1.0F) == 32768.0F);  // the rest of the same iteration
  CHECK(scaler.unscale_(optimizer).max_abs == 0.5);
  CHECK(optimizer.grads == Weights{0.5F});
  (void)scaler.step(optimizer);
  scaler.update();
  CHECK(scaler.scale(1.0F) == 1024.0F);
}

TEST_CASE("update(new_scale) ends the iteration and adjusts nothing") {
  GradScaler<> scaler;
  Sgd optimizer{{1.0F}, {infinity()}};
  (void)scaler.step(optimizer);
  scaler.update(8.0F);
  CHECK(scaler.get_scale() == 8.0F);
  CHECK(scaler.scale(1.0F) == 8.0F);
  CHECK_THROWS_AS(scaler.update(0.0F), std::invalid_argument);
  CHECK(scaler.get_scale() == 8.0F);
}

TEST_CASE("accumulation: every part is scaled, the sum is unscaled once") {
  GradScaler<> scaler;
  Sgd optimizer{{1.0F}, {}};
  for (const float part : {0.25F, 0.5F, 0.125F}) backward(scaler.scale(1.0F), {part}, optimizer.grads);
  (void)scaler.step(optimizer);
  CHECK(optimizer.weights == Weights{1.0F - 0.875F});
  scaler.update();

  // The classic mistake: to unscale inside of the accumulation. The second time it is refused.
  optimizer.grads.clear();
  backward(scaler.scale(1.0F), {0.25F}, optimizer.grads);
  (void)scaler.unscale_(optimizer);
  backward(scaler.scale(1.0F), {0.5F}, optimizer.grads);
  CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_(optimizer); }), ContainsSubstring("have been unscaled already"));
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
    (void)scaler.step(optimizer);
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

TEST_CASE("gradients elsewhere are left to the functions of their optimizer_traits") {
  Remote optimizer{{2048.0F}, {}, 0};
  GradScaler scaler(presets::torch(1024.0));
  CHECK(scaler.unscale_(optimizer).max_abs == 2.0);
  CHECK(optimizer.calls == std::vector<std::string>{"unscale"});
  scaler.update();
  optimizer = {{2048.0F}, {}, 0};
  CHECK(scaler.unscale_and_clip_(optimizer, 0.5).norm == 2.0);
  CHECK(optimizer.grads == Weights{0.5F});
  CHECK(optimizer.calls == std::vector<std::string>{"measure", "scale"});
  scaler.update();
  optimizer = {{2048.0F}, {}, 0};
  CHECK(scaler.unscale_and_clip_(optimizer, 5.0).norm == 2.0);
  CHECK(optimizer.grads == Weights{2.0F});
  CHECK(optimizer.calls == std::vector<std::string>{"measure", "unscale"});
  scaler.update();
  scaler.set_deferred(true);
  optimizer = {{2048.0F}, {}, 0};
  CHECK(scaler.unscale_(optimizer).max_abs == 2.0);
  CHECK(optimizer.calls == std::vector<std::string>{"measure"});
}

TEST_CASE("what overflows when it is unscaled and clipped is an overflow") {
  LossScaleConfig config;
  config.initial_scale = 0.5F;
  config.min_scale = 0.25F;
  GradScaler scaler{headroom::DynamicLossScale(config)};
  Remote optimizer{{0x1.8p127F}, {}, 0};
  const auto norm = scaler.unscale_and_clip_(optimizer, 1e300);
  CHECK_FALSE(norm.finite);
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

TEST_CASE("an executor that is set is the one that works") {
  Remote optimizer{{2048.0F}, {}, 0};
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(optimizer);
  CHECK(optimizer.threads == 1);
  scaler.update();
  scaler.set_executor(headroom::parallel(3));
  (void)scaler.scale(1.0F);
  (void)scaler.unscale_(optimizer);
  CHECK(optimizer.threads == 3);
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

TEST_CASE("several threads find the same") {
  GradScaler scaler(presets::torch());
  scaler.set_executor(headroom::parallel(2));
  Sgd optimizer{Weights(1000000, 1.0F), Weights(1000000, 65536.0F)};
  optimizer.grads.back() = -131072.0F;
  CHECK(scaler.step(optimizer).report.max_abs == 2.0);
  CHECK(optimizer.weights.front() == 0.0F);
  CHECK(optimizer.weights.back() == 3.0F);
}
