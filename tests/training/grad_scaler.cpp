#include <headroom/dtype/half.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/optimizers.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using namespace headroom;
using namespace support;

namespace {

const std::string also_update = "; call update or abandon in every iteration";

}  // namespace

TEST_CASE("step unscales, checks and steps; update adjusts the policy") {
  GradScaler scaler(presets::torch());
  Sgd optimizer{{1.0F, 2.0F}, {}};
  const float loss = scaler.scale(1.0F);
  CHECK(loss == 65536.0F);
  optimizer.grads = {0.5F * loss, -loss};
  const auto result = scaler.step(optimizer);
  static_assert(std::is_same_v<decltype(result.value), std::optional<int>>);
  CHECK_FALSE(result.skipped);
  CHECK(result.reason == SkipReason::none);
  CHECK(result.value == 1);
  CHECK(result.report.finite);
  CHECK(result.report.max_abs == 1.0);
  CHECK(result.loss_scale == 65536.0F);
  CHECK(optimizer.weights == Weights{0.5F, 3.0F});
  CHECK(scaler.policy() == presets::torch());
  scaler.update();
  CHECK(scaler.policy() == presets::torch().adjust(true));
}

TEST_CASE("an overflow skips the step, is reported by path, and lowers the scale") {
  GradScaler<> scaler;
  Owner optimizer{std::vector<Weights>{{1.0F}, {1.0F, infinity(), -infinity()}}};
  const auto result = scaler.step(optimizer);
  CHECK(result.skipped);
  CHECK(result.reason == SkipReason::not_finite);
  CHECK_FALSE(result.value.has_value());
  CHECK_FALSE(result.report.finite);
  REQUIRE(result.nonfinite.has_value());
  CHECK(result.nonfinite->path == "[1]");
  CHECK(result.nonfinite->index == 1);
  CHECK(result.nonfinite->inf_count == 2);
  CHECK(optimizer.steps == 0);
  CHECK(scaler.get_scale() == 32768.0F);
  scaler.update();
  CHECK(scaler.get_scale() == 16384.0F);
}

TEST_CASE("an exception of an optimizer's step is passed on, and the step counts as taken") {
  struct Throws {
    Weights grads;
    Weights& gradients() { return grads; }
    void step() { throw std::runtime_error("disk full"); }
  };
  GradScaler<> scaler;
  Throws optimizer{{1.0F}};
  CHECK_THROWS_AS(scaler.step(optimizer), std::runtime_error);
  CHECK_LOGIC_ERROR("has been stepped", scaler.step(optimizer));
  scaler.update();
  CHECK(scaler.policy().counter() == 1);
}

TEST_CASE("clipping comes after unscaling, by hand or by the scaler") {
  GradScaler<> scaler;
  Sgd by_hand{{0.0F, 0.0F}, {scaler.scale(3.0F), scaler.scale(-4.0F)}}, by_scaler = by_hand,
                                                                        loose = by_hand;
  scaler.unscale_(by_hand);
  CHECK(headroom::clip_by_global_norm(by_hand.grads, 1.0).norm == 5.0);  // 163840 before unscaling
  const GradientNorm norm = scaler.unscale_and_clip_(by_scaler, 1.0);
  CHECK(norm.norm == 5.0);
  CHECK(norm.max_abs == 4.0);
  CHECK(scaler.unscale_and_clip_(loose, 7.0).norm == 5.0);
  for (Sgd* optimizer : {&by_hand, &by_scaler, &loose})
    CHECK_FALSE(scaler.step(*optimizer).skipped);
  for (const Weights& weights : {by_hand.weights, by_scaler.weights}) {
    CHECK(static_cast<double>(weights[0]) == Approx(-0.6));
    CHECK(static_cast<double>(weights[1]) == Approx(0.8));
  }
  CHECK(loose.weights == Weights{-3.0F, 4.0F});
  CHECK_THROWS_AS(scaler.unscale_and_clip_(by_scaler, -1.0), std::invalid_argument);
}

TEST_CASE("a gradient that unscaling makes Inf is an overflow, clipped or not") {
  for (const bool clips : {false, true}) {
    GradScaler scaler(ConstantLossScale(0.5F));
    Sgd optimizer{{0.0F}, {0x1.8p127F}};
    CHECK_FALSE((clips ? scaler.unscale_and_clip_(optimizer, 1.0).finite
                       : scaler.unscale_(optimizer).finite));
    CHECK(scaler.step(optimizer).skipped);
    CHECK(scaler.step(Sgd{{0.0F}, {0x1p125F}}).report.max_abs == 0x1p126);
  }
}

TEST_CASE("gradients are divided once at every scale, clipped or not") {
  for (const float scale : {0.5F, 1.0F, 2.0F}) {
    for (const double max_norm : {1e9, 2.0}) {
      GradScaler scaler(ConstantLossScale{scale});
      Sgd optimizer{{0.0F}, {4.0F * scale}};
      CHECK(scaler.unscale_and_clip_(optimizer, max_norm).norm == 4.0);
      CHECK(optimizer.grads[0] == (max_norm == 2.0 ? 2.0F : 4.0F));
    }
  }
}

TEST_CASE("a norm beyond double is an overflow only if gradients are clipped") {
  const std::vector<double> beyond(16, 1.7e308);
  for (const bool reduces : {false, true}) {
    GradScaler scaler(presets::torch(1024.0));
    if (reduces) scaler.set_reducer([](const GradientSums& here) { return here; });
    Owner clipped{beyond}, plain{beyond};
    CHECK_FALSE(scaler.unscale_and_clip_(clipped, 4.0).finite);
    const auto result = scaler.step(clipped);
    CHECK(result.reason == SkipReason::not_finite);
    CHECK_FALSE(result.nonfinite.has_value());
    CHECK_FALSE(scaler.step(plain).skipped);
  }
}

TEST_CASE("calls in the wrong order are logic errors that say what to do, and change nothing") {
  GradScaler<> scaler;
  Sgd optimizer{{1.0F}, {1.0F}};
  CHECK_LOGIC_ERROR("update: no optimizer has been unscaled or stepped", scaler.update());
  scaler.unscale_(optimizer);
  const Weights unscaled = optimizer.grads;
  const std::string twice =
      "this optimizer has been unscaled since the last update; with several micro-batches call it "
      "once, after the last backward" +
      also_update;
  CHECK_LOGIC_ERROR("unscale_: " + twice, scaler.unscale_(optimizer));
  CHECK_LOGIC_ERROR("unscale_and_clip_: " + twice, scaler.unscale_and_clip_(optimizer, 1.0));
  CHECK(optimizer.grads == unscaled);
  scaler.step(optimizer);
  CHECK_LOGIC_ERROR("step: this optimizer has been stepped since the last update" + also_update,
                    scaler.step(optimizer));
  CHECK_LOGIC_ERROR("unscale_: this optimizer has been stepped", scaler.unscale_(optimizer));
  CHECK(optimizer.steps == 1);
  scaler.update();
  CHECK_LOGIC_ERROR("update: no optimizer", scaler.update());
  scaler.step(optimizer);
  CHECK(optimizer.steps == 2);
}

TEST_CASE("after the first call of scale, each iteration must call scale before it unscales") {
  GradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));
  Sgd a{{1.0F}, {scaler.scale(2.0F)}}, b = a;
  scaler.step(a);
  scaler.update();  // too early
  CHECK_LOGIC_ERROR("no loss has been scaled since the last update",
                    scaler.unscale_and_clip_(b, 1.0));
  CHECK_LOGIC_ERROR("no loss has been scaled since the last update",
                    scaler.step_gradients(b.grads, [](Weights&) {}));
  CHECK(b.grads == Weights{2048.0F});
}

TEST_CASE("a rank without a batch scales a loss of 0, to step by the gradients of the others") {
  GradScaler scaler(presets::torch(1024.0));
  scaler.set_reducer([](const GradientSums& sums) { return sums; });
  Sgd optimizer{{3.0F}, {scaler.scale(1.0F)}};
  scaler.step(optimizer);
  scaler.update();
  optimizer.grads = {1024.0F};
  CHECK_LOGIC_ERROR(
      ": call scale and backward first, or leave out this step; on a rank "
      "without a batch call scale all the same, as in scale(0.0F); ",
      scaler.step(optimizer));
  CHECK(scaler.scale(0.0F) == 0.0F);
  CHECK_FALSE(scaler.step(optimizer).skipped);
  CHECK(optimizer.weights == Weights{1.0F});
}

TEST_CASE("an optimizer without gradients is skipped, which does not change the policy") {
  for (unsigned call = 0; call < 3; ++call) {
    GradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 2));
    Owner optimizer{std::vector<Weights>(call)};  // also leaves without elements
    (void)scaler.scale(1.0F);
    if (call == 1) CHECK(scaler.unscale_(optimizer).finite);
    if (call == 2) CHECK(scaler.unscale_and_clip_(optimizer, 1.0).norm == 0.0);
    const auto result = scaler.step(optimizer);
    CHECK(result.skipped);
    CHECK(result.reason == SkipReason::no_gradients);
    CHECK(result.report.finite);
    CHECK(result.report.max_abs == 0.0);
    CHECK_FALSE(result.nonfinite.has_value());
    scaler.update();
    CHECK(scaler.policy() == presets::torch(1024.0, 2.0, 0.5, 2));
    CHECK(scaler.step(optimizer).reason == SkipReason::no_gradients);
    scaler.update();
    CHECK(optimizer.steps == 0);
  }
}

TEST_CASE("a temporary optimizer is not remembered; an unscaled one may be moved into step") {
  GradScaler scaler(presets::torch(1024.0));
  std::vector<Weights> layers(3, Weights{1024.0F});
  for (Weights& layer : layers) {
    const auto result = scaler.step(Owner<Weights&>{layer});
    CHECK((result.value == 1 && result.report.max_abs == 1.0));
  }
  Sgd optimizer{{1.0F}, {1024.0F}};
  scaler.unscale_(optimizer);
  scaler.step(std::move(optimizer));
  CHECK(optimizer.weights == Weights{0.0F});
  // A temporary at the address of one that has been stepped, with the same gradients
  optimizer.grads = {1024.0F};
  scaler.step(std::move(optimizer));
  CHECK(optimizer.weights == Weights{-1.0F});
  scaler.update();
  CHECK(scaler.policy().counter() == 1);
}

TEST_CASE("step_gradients unscales floats and doubles in place") {
  GradScaler scaler(presets::torch(1024.0));
  Weights floats{2048.0F};
  std::vector<double> doubles{0x1p40};
  (void)scaler.scale(1.0F);
  const auto result = scaler.step_gradients(floats, [&](Weights& grads) {
    CHECK(&grads == &floats);
    return grads[0];
  });
  CHECK(result.value == 2.0F);
  CHECK(result.report.max_abs == 2.0);
  CHECK(result.loss_scale == 1024.0F);
  CHECK(scaler.step_gradients(doubles, [](std::vector<double>& grads) { return grads[0]; }).value ==
        0x1p30);
  std::tuple<Weights, double> mixed{{1024.0F}, 0x1p40};
  CHECK(scaler
            .step_gradients(mixed,
                            [](std::tuple<Weights, double>& grads) { return std::get<1>(grads); })
            .value == 0x1p30);
  CHECK(scaler.step_gradients(Weights{1024.0F}, [](Weights& grads) { return grads[0]; }).value ==
        1.0F);
  floats[0] = infinity();
  const auto overflow = scaler.step_gradients(floats, [](Weights&) { FAIL("stepped by an Inf"); });
  CHECK(overflow.reason == SkipReason::not_finite);
  CHECK(overflow.nonfinite->inf_count == 1);
  scaler.update();
  CHECK(scaler.get_scale() == 512.0F);
}

TEST_CASE("step_gradients makes a new tree if gradients are const, of floats if narrower") {
  GradScaler scaler(presets::torch(1024.0));
  const std::vector<std::vector<half>> halves{{half(0x1p-14F)}, {half(2.0F)}};
  const auto expect = [](const std::vector<Weights>& grads) {
    return grads[0][0] == 0x1p-24F && grads[1][0] == 2.0F / 1024;
  };
  (void)scaler.scale(1.0F);
  CHECK(scaler.step_gradients(halves, [&](std::vector<Weights>& grads) { return expect(grads); })
            .value == true);
  CHECK(halves[1][0] == half(2.0F));
  const Weights floats{1024.0F};
  CHECK(scaler.step_gradients(floats, [](const Weights& grads) { return grads[0]; }).value == 1.0F);
  CHECK(floats[0] == 1024.0F);
  const std::vector<double> doubles{0x1p300};
  CHECK(scaler.step_gradients(doubles, [](const auto& grads) { return grads[0]; }).value ==
        0x1p290);
  CHECK(scaler.step_gradients(std::vector<bfloat16>(1), [](Weights& grads) { return grads.size(); })
            .value == 1);
  const auto overflow =
      scaler.step_gradients(std::vector<half>{half(infinity())}, [](Weights&) { return 1; });
  CHECK(overflow.skipped);
  CHECK(overflow.nonfinite->index == 0);
  CHECK(scaler.step_gradients(std::vector<std::vector<half>>(), [](auto&) {}).reason ==
        SkipReason::no_gradients);
  CHECK(scaler.step_gradients(std::vector<Weights>(), [](auto&) {}).reason ==
        SkipReason::no_gradients);
  scaler.update();
  CHECK(scaler.get_scale() == 512.0F);
}

TEST_CASE("a disabled scaler neither scales nor skips") {
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
  CHECK(result.loss_scale == 1.0F);
  CHECK(optimizer.grads == Weights{infinity()});
  scaler.step(optimizer);
  CHECK(scaler.step_gradients(optimizer.grads, [](Weights&) { return 2; }).value == 2);
  CHECK(
      scaler.step_gradients(std::vector<half>{half(3.0F)}, [](Weights& grads) { return grads[0]; })
          .value == 3.0F);
  scaler.update();
  scaler.update(7.0F);
  scaler.abandon();
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
  for (const GradScaler<>* scaler : {&from_double, &from_int, &from_float})
    CHECK(scaler->policy() == presets::torch());
  const GradScaler all(1024.0, 4.0, 0.25, 7, false);
  static_assert(std::is_same_v<decltype(all), const GradScaler<>>);
  CHECK(all.policy() == presets::torch(1024.0, 4.0, 0.25, 7));
  CHECK_FALSE(all.is_enabled());
  CHECK(GradScaler<>(1024.0, 4.0).policy() == presets::torch(1024.0, 4.0));
  CHECK(GradScaler<>(0x1p-126).policy() == presets::torch(0x1p-126));
  CHECK(GradScaler().policy() == DynamicLossScale());
  CHECK_FALSE(GradScaler(ConstantLossScale(2.0F), false).is_enabled());
  static_assert(!std::is_constructible_v<GradScaler<ConstantLossScale>, double>);
  static_assert(!std::is_constructible_v<GradScaler<HysteresisScale>, double>);
  CHECK_INVALID("init_scale is 0; it must be in", GradScaler(0.0));
}

TEST_CASE("a GradScaler takes any policy, and follows torch's recorded sequences") {
  for (const auto& trace : support::golden("torch")) {
    GradScaler scaler(
        AnyLossScale(presets::torch(trace.real("init_scale"), trace.real("growth_factor"),
                                    trace.real("backoff_factor"), trace.whole("growth_interval"))));
    Sgd optimizer{{1.0F}, {1.0F}};
    for (std::size_t step = 0; step < trace.scale.size(); ++step) {
      const bool overflow = trace.overflow[step] != 0.0;
      optimizer.grads = {overflow ? infinity() : 0.5F};
      REQUIRE(scaler.step(optimizer).skipped == overflow);
      scaler.update();
      REQUIRE(static_cast<double>(scaler.get_scale()) == trace.scale[step]);
    }
  }
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
  CHECK_INVALID("growth_factor is 0.5", scaler.set_growth_factor(0.5));
  CHECK_INVALID("growth_interval is 0", scaler.set_growth_interval(0));
  CHECK_THROWS_AS(scaler.update(0.0F), std::invalid_argument);
  CHECK_INVALID("the key 'version' is missing", scaler.load_state_dict({}));
  CHECK(scaler.policy() == presets::torch(65536.0, 3.0, 0.25, 5));
  GradScaler hysteresis(presets::apex());
  hysteresis.set_growth_interval(7);
  CHECK(hysteresis.policy() == presets::apex(65536.0, 2.0, 0.5, 7));
}

TEST_CASE("a GradScaler of AnyLossScale runs without settings; to read or set one is an error") {
  for (const AnyLossScale& policy :
       {AnyLossScale(NoOpLossScale()), AnyLossScale(ConstantLossScale(8.0F))}) {
    GradScaler<AnyLossScale> scaler(policy);
    int at_floor = 0;
    scaler.set_on_floor([&](const AnyLossScale&) { ++at_floor; });
    Sgd optimizer{{1.0F}, {infinity()}};
    CHECK(scaler.step(optimizer).skipped);
    scaler.update();
    CHECK(at_floor == 0);
    CHECK(scaler.policy() == policy);
    const std::string none = ": the policy '" + policy.policy_name() + "' has none";
    CHECK_LOGIC_ERROR("config" + none, scaler.get_growth_factor());
    CHECK_LOGIC_ERROR("config" + none, scaler.set_growth_interval(3));
    const bool is_noop = policy.policy_name() == "noop";
    if (is_noop) CHECK_LOGIC_ERROR("the policy 'noop' has none", scaler.update(4.0F));
    if (!is_noop) scaler.update(4.0F);
    CHECK(scaler.get_scale() == (is_noop ? 1.0F : 4.0F));
  }
}

TEST_CASE("set_policy applies from the next iteration on; the current one does not adjust it") {
  for (const bool scales : {true, false}) {
    GradScaler scaler(presets::torch(1024.0));
    Sgd a{{1.0F}, {infinity()}}, b{{1.0F}, {1024.0F}};
    if (scales) (void)scaler.scale(1.0F);
    scaler.step(a);
    scaler.set_policy(presets::torch(64.0, 4.0));
    CHECK(scaler.get_scale() == 64.0F);  // for the next iteration
    const auto result = scaler.step(b);
    CHECK(result.loss_scale == 1024.0F);
    CHECK(b.weights == Weights{0.0F});
    scaler.update();
    CHECK(scaler.policy() == presets::torch(64.0, 4.0));
    b.grads = {scaler.scale(1.0F)};
    scaler.step(b);
    scaler.update();
    CHECK(scaler.policy() == presets::torch(64.0, 4.0).adjust(true));
    CHECK(b.weights == Weights{-1.0F});
    scaler.set_policy(presets::torch(32.0));  // between two iterations
    b.grads = {scaler.scale(infinity())};
    CHECK(scaler.step(b).loss_scale == 32.0F);
    scaler.update();
    CHECK(scaler.get_scale() == 16.0F);
    scaler.update(0.5F);
    b.grads = {scaler.scale(infinity())};
    CHECK(scaler.step(b).loss_scale == 0.5F);
    scaler.set_policy(presets::torch(64.0));
    scaler.update();
    CHECK(scaler.get_scale() == 64.0F);
  }
}

TEST_CASE("on_floor is called for an overflow at the floor, after the update") {
  GradScaler scaler(presets::jmp(2.0));
  int calls = 0;
  const auto overflow = [&] {
    Sgd optimizer{{1.0F}, {infinity()}};
    CHECK(scaler.step(optimizer).skipped);  // also at the floor
    CHECK(optimizer.weights == Weights{1.0F});
    scaler.update();
  };
  overflow();  // without a callback training continues
  overflow();
  CHECK(scaler.get_scale() == 1.0F);
  scaler.set_on_floor([&](const DynamicLossScale& policy) {
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
  Sgd finite{{1.0F}, {1.0F}};
  CHECK_FALSE(scaler.step(finite).skipped);
  scaler.update();
  CHECK(calls == 1);
  CHECK_THROWS_AS(overflow(), std::runtime_error);
  CHECK_LOGIC_ERROR("update: no optimizer", scaler.update());  // the update before was complete
  scaler.update(4.0F);
  (void)scaler.scale(1.0F);
  scaler.update(1.0F);  // after the loss was scaled, so its overflow is not at the floor
  overflow();
  CHECK(calls == 2);
}

TEST_CASE("gradients of an optimizer that waits for its step are refused for another object") {
  using Adapter = Owner<Weights&>;
  GradScaler<> scaler(4.0);
  Weights grads{8.0F, 4.0F};
  const auto is_refused = [&](auto call) {
    CHECK_THAT(support::logic_error_of(call),
               ContainsSubstring(
                   "have been unscaled already, for an optimizer that has not been stepped"));
    CHECK(grads == Weights{2.0F, 1.0F});
  };
  Adapter first{grads}, second{grads};
  (void)scaler.unscale_(first);
  is_refused([&] { (void)scaler.step(second); });
  is_refused([&] { (void)scaler.step(Adapter{grads}); });
  is_refused([&] { (void)scaler.unscale_(second); });
  is_refused([&] { (void)scaler.unscale_and_clip_(second, 1.0); });
  is_refused([&] { (void)scaler.step_gradients(grads, [](auto&) {}); });
  is_refused([&] { (void)scaler.step_gradients(std::as_const(grads), [](auto&) {}); });
  std::vector<Adapter> moved{first};
  is_refused([&] { (void)scaler.step(moved[0]); });
  CHECK_FALSE(scaler.step(first).skipped);
  grads = {8.0F, 4.0F};
  // The first one has been stepped: its memory may serve another one
  CHECK(scaler.step(second).report.max_abs == 2.0);
  scaler.update();
  CHECK(scaler.policy() == presets::torch(4.0).adjust(true));
  (void)scaler.scale(1.0F);
  (void)scaler.unscale_(first);
  scaler.abandon();
  (void)scaler.scale(1.0F);
  CHECK_FALSE(scaler.step(second).skipped);
}

/// Throws in its second pass.
struct FailingPool {
  mutable int passes = 0;
  static std::size_t concurrency() { return 2; }
  void run(std::size_t n, const std::function<void(std::size_t)>& task) const {
    if (++passes == 2) throw std::runtime_error("no thread");
    for (std::size_t i = 0; i < n; ++i) task(i);
  }
};
TEST_CASE("gradients count as an overflow if the pass after the measurement threw") {
  for (const double max_norm : {1e30, 1e-3}) {
    const FailingPool pool;
    GradScaler<> scaler;
    scaler.set_executor(pool);
    Owner optimizer{std::vector<float>(std::size_t{1} << 18, 32768.0F)};
    CHECK_THROWS_AS(scaler.unscale_and_clip_(optimizer, max_norm), std::runtime_error);
    CHECK(scaler.step(optimizer).skipped);
    CHECK(optimizer.steps == 0);
    scaler.update();
    CHECK(scaler.get_scale() == 16384.0F);
  }
}

TEST_CASE("the reducer is called once per optimizer, and its result decides on all ranks") {
  GradScaler<> scaler;
  int calls = 0;
  bool other_rank_is_finite = false;
  scaler.set_reducer([&](const GradientSums& local) {
    ++calls;
    return GradientSums{other_rank_is_finite, local.max_abs, local.sum_of_squares};
  });
  Sgd optimizer{{1.0F}, {32768.0F}};
  CHECK_FALSE(scaler.unscale_(optimizer).finite);
  const auto result = scaler.step(optimizer);
  CHECK(result.skipped);
  CHECK_FALSE(result.nonfinite.has_value());  // it is on the other rank
  CHECK(calls == 1);
  scaler.update();
  CHECK(scaler.get_scale() == 16384.0F);
  other_rank_is_finite = true;
  optimizer.grads = {16384.0F};
  CHECK_FALSE(scaler.step(optimizer).skipped);
  CHECK(calls == 2);
  scaler.update();
  // This rank has no gradients, but others have
  CHECK_FALSE(scaler.step(Owner{std::vector<Weights>()}).skipped);
  CHECK(scaler.step_gradients(std::vector<std::vector<half>>(), [](auto&) { return 1; }).value ==
        1);
  CHECK(calls == 4);
  scaler.update();
  scaler.set_reducer(nullptr);
  CHECK(scaler.step(Owner{std::vector<Weights>()}).skipped);
  CHECK(calls == 4);
}
