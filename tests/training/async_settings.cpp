#include <headroom/detail/detect.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AsyncGradScaler;
using headroom::AsyncGradScalerConfig;
using headroom::GradScaler;
using support::infinity;
using support::Sgd;
using support::Stateless;
using support::Weights;
namespace presets = headroom::presets;

namespace {

template <class T>
using scales_t = decltype(std::declval<T&>().scale(1.0F));
template <class T>
using unscales_t = decltype(std::declval<T&>().unscale_(std::declval<Sgd&>()));
template <class T>
using clips_t = decltype(std::declval<T&>().unscale_and_clip_(std::declval<Sgd&>(), 1.0));
template <class T>
using steps_t = decltype(std::declval<T&>().step(std::declval<Sgd&>()));
template <class T>
using updates_t = decltype(std::declval<T&>().update());
template <class T>
inline constexpr bool only_sets_v =
    !headroom::detail::is_detected_v<scales_t, T> && !headroom::detail::is_detected_v<unscales_t, T> &&
    !headroom::detail::is_detected_v<clips_t, T> && !headroom::detail::is_detected_v<steps_t, T> &&
    !headroom::detail::is_detected_v<updates_t, T> && !std::is_copy_assignable_v<T> && !std::is_copy_constructible_v<T>;

}  // namespace

TEST_CASE("a scale that is set over there counts from the next update on, whoever is faster") {
  for (const bool waits : {false, true}) {
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0));
    scaler.configure([](auto& there) { there.update(8.0F); });
    (void)scaler.submit_gradients(optimizer, Weights{1.0F});
    if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    scaler.update();
    CHECK(scaler.get_scale() == 1024.0F);
    (void)scaler.submit_gradients(optimizer, Weights{1.0F});
    scaler.update();
    CHECK(scaler.get_scale() == 8.0F);
  }
}

TEST_CASE("two overflows of one scale above the floor are not at the floor") {
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::jmp(2.0));
  std::atomic<int> calls{0};
  scaler.configure([&](auto& there) { there.set_on_floor([&](const headroom::DynamicLossScale&) { ++calls; }); });
  for (int step = 0; step < 2; ++step) {
    (void)scaler.submit_gradients(optimizer, Weights{infinity()});
    scaler.update();
  }
  scaler.synchronize();
  CHECK(scaler.get_scale() == 1.0F);
  CHECK(calls == 0);
}

TEST_CASE("getters are up to date where that is asked for, settings are changed over there") {
  AsyncGradScaler scaler(presets::torch());
  scaler.configure([](auto& there) { there.set_growth_factor(3.0); });
  scaler.configure([](auto& there) { there.set_growth_interval(1); });
  CHECK(scaler.get_growth_factor(true) == 3.0);
  CHECK(scaler.get_growth_interval() == 1);
  CHECK(scaler.get_backoff_factor() == 0.5);
  Stateless optimizer{{1.0F}};
  (void)scaler.submit_gradients(optimizer, Weights{1.0F});
  scaler.update();
  CHECK(scaler.get_scale() == 65536.0F);
  CHECK(scaler.policy(true).loss_scale() == 196608.0F);
  scaler.synchronize();
  CHECK(scaler.get_scale() == 196608.0F);
  scaler.configure([](auto& there) { there.set_growth_factor(0.5); });
  CHECK_THROWS_AS(scaler.synchronize(), std::invalid_argument);
  CHECK(scaler.get_growth_factor(true) == 3.0);
}

TEST_CASE("a resumed run is equal to one that never stopped") {
  const auto policy = presets::torch(65536.0, 2.0, 0.5, 3);
  Stateless a{{1.0F}}, b{{1.0F}};
  AsyncGradScaler scaler(policy);
  auto resumed = std::make_unique<AsyncGradScaler<>>(policy);
  std::mt19937 random(support::seed);
  for (int step = 0; step < 100; ++step) {
    const headroom::StateDict state = resumed->state_dict();
    resumed = std::make_unique<AsyncGradScaler<>>(presets::torch());
    resumed->load_state_dict(state);
    const float grad = random() % 4 == 0 ? infinity() : 0.5F;
    (void)scaler.submit_gradients(a, Weights{grad * scaler.scale(1.0F)});
    (void)resumed->submit_gradients(b, Weights{grad * resumed->scale(1.0F)});
    scaler.update();
    resumed->update();
    REQUIRE(scaler.get_scale() == resumed->get_scale());
    REQUIRE(scaler.policy(true) == resumed->policy(true));
    REQUIRE(a.weights == b.weights);
  }
  GradScaler<> synchronous(presets::torch(8.0));
  resumed->load_state_dict(synchronous.state_dict());
  CHECK(resumed->get_scale() == 8.0F);
  headroom::StateDict bad = synchronous.state_dict();
  bad.add("main_scale", 0.0);
  CHECK_THAT(support::message_of([&] { resumed->load_state_dict(bad); }), ContainsSubstring("main_scale is 0"));
  CHECK(resumed->get_scale() == 8.0F);
}

TEST_CASE("disabled, everything passes through, over there") {
  AsyncGradScalerConfig config;
  config.enabled = false;
  AsyncGradScaler scaler(presets::torch(), config);
  Sgd optimizer{{1.0F}, {scaler.scale(0.25F)}};
  auto result = scaler.submit(optimizer);
  scaler.update();
  CHECK_FALSE(result.get().skipped);
  CHECK(optimizer.weights == Weights{0.75F});
  CHECK(scaler.get_scale() == 1.0F);
  CHECK(scaler.state_dict().empty());
  scaler.update();  // as a GradScaler that is disabled
  scaler.synchronize();
}

TEST_CASE("configure changes settings, in the middle of an iteration too, and nothing else") {
  const GradScaler saved(presets::torch(8.0));
  for (const bool loads : {false, true}) {
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0));
    (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
    scaler.configure([&](auto& there) { loads ? there.load_state_dict(saved.state_dict()) : there.update(8.0F); });
    scaler.update();
    scaler.synchronize();
    CHECK(scaler.get_scale() == 8.0F);
    CHECK(scaler.policy(true).counter() == 1);
    (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
    scaler.update();
    scaler.synchronize();
    CHECK(optimizer.weights == Weights{-1.0F});
  }
  Sgd optimizer{{1.0F}, {1024.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0));
  CHECK(optimizer.grads == Weights{1024.0F});
  static_assert(only_sets_v<headroom::GradScalerSettings<headroom::DynamicLossScale>> && !only_sets_v<GradScaler<>>);
  scaler.configure([](headroom::GradScalerSettings<headroom::DynamicLossScale>&) { throw std::runtime_error("refused"); });
  CHECK_THROWS_AS(scaler.synchronize(), std::runtime_error);
  (void)scaler.submit(optimizer);  // the settings end with the call, also with one that throws
  scaler.update();
  scaler.synchronize();
  CHECK(optimizer.weights == Weights{0.0F});
}

TEST_CASE("each scaler and the policy itself go on from the state of any of them") {
  const auto policy = presets::torch(1024.0, 2.0, 0.5, 2);
  Stateless optimizer{{1.0F}};
  AsyncGradScaler async(policy);
  for (const float gradient : {1.0F, infinity(), 1.0F}) {
    (void)async.submit_gradients(optimizer, Weights{gradient * async.scale(1.0F)});
    async.update();
  }
  const headroom::StateDict state = async.state_dict();
  REQUIRE(state.contains("main_scale"));
  const auto decided = async.policy(true);
  CHECK(decided.counter() == 1);
  CHECK(headroom::DynamicLossScale::from_state_dict(state) == decided);
  GradScaler<> scaler;
  scaler.load_state_dict(state);
  CHECK(scaler.policy() == decided);
  AsyncGradScaler<> back;
  back.load_state_dict(scaler.state_dict());
  CHECK(back.policy() == decided);
  CHECK(back.get_scale() == scaler.get_scale());
  back.load_state_dict(decided.state_dict());
  CHECK(back.policy() == decided);

  const headroom::StateDict of_disabled = GradScaler<>(policy, false).state_dict();
  CHECK_THAT(support::message_of([&] { scaler.load_state_dict(of_disabled); }), ContainsSubstring("disabled scaler"));
  CHECK_THAT(support::message_of([&] { back.load_state_dict(of_disabled); }), ContainsSubstring("disabled scaler"));
  CHECK(scaler.policy() == decided);
  CHECK(back.policy() == decided);
}
