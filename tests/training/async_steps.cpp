#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AsyncGradScaler;
using headroom::GradScaler;
using support::infinity;
using support::logic_error_of;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

struct Stateless {
  Weights weights;
  void step(Weights& grads) {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= grads[i];
  }
};

}  // namespace

TEST_CASE("what std::ref refers to stays where it is; what is copied is moved on") {
  struct Logs {
    Weights grads;
    std::vector<std::string> seen{};
    Weights& gradients() { return grads; }
    void step(std::vector<std::string>& log, std::unique_ptr<int> number) {
      log.push_back(std::to_string(*number));
      seen = log;
    }
  };
  Logs optimizer{{1024.0F}};
  std::vector<std::string> log{"a line that is too long to be kept without an allocation"};
  AsyncGradScaler scaler(presets::torch(1024.0));
  (void)scaler.submit(optimizer, std::ref(log), std::make_unique<int>(7));
  scaler.update();
  scaler.synchronize();
  CHECK(log.size() == 2);
  CHECK(log.back() == "7");
  CHECK(optimizer.seen == log);
}

TEST_CASE("clipping over there is by the scale of the loss, and by the norm of unscaled gradients") {
  Sgd by_member{{0.0F, 0.0F}, {}};
  Stateless by_hand{{0.0F, 0.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));  // grows every step
  for (int step = 0; step < 3; ++step) {
    const float loss = scaler.scale(1.0F);
    by_member.grads = {3.0F * loss, -4.0F * loss};
    auto member = scaler.submit_and_clip(by_member, 2.5);
    auto hand = scaler.submit_gradients_and_clip(by_hand, by_member.grads, 2.5);
    CHECK(member.get().norm == 5.0);
    scaler.update();
    CHECK_FALSE(hand.get().skipped);
  }
  scaler.synchronize();
  CHECK(by_member.weights == Weights{-4.5F, 6.0F});
  CHECK(by_hand.weights == Weights{-4.5F, 6.0F});
  CHECK(scaler.policy(true).loss_scale() == 8192.0F);
  CHECK_THROWS_AS(scaler.submit_and_clip(by_member, -1.0), std::invalid_argument);
  by_member.grads = {infinity(), 0.0F};
  auto overflow = scaler.submit_and_clip(by_member, 1.0);
  scaler.update();
  CHECK(overflow.get().skipped);
}

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

TEST_CASE("gradients of the iteration before are refused where they are submitted") {
  for (const bool loads : {false, true}) {
    Stateless a{{1.0F}}, b{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));
    const float loss = scaler.scale(1.0F);
    (void)scaler.submit_gradients(a, Weights{loss});
    loads ? scaler.load_state_dict(GradScaler<>().state_dict()) : scaler.update();
    CHECK_THAT(logic_error_of([&] { (void)scaler.submit_gradients(b, Weights{loss}); }),
               ContainsSubstring("no loss has been scaled since the last update"));
    (void)scaler.submit_gradients(b, Weights{scaler.scale(1.0F)});
    scaler.update();
    scaler.synchronize();
    CHECK(a.weights == Weights{0.0F});
    CHECK(b.weights == Weights{0.0F});
  }
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

TEST_CASE("one buffer handed to two optimizers is not unscaled twice") {
  Stateless a{{1.0F}};
  struct Other : Stateless {
  } b{{{1.0F}}};
  Weights buffer{1024.0F};
  AsyncGradScaler scaler(presets::torch(1024.0));
  (void)scaler.submit_gradients(a, std::ref(buffer));
  auto second = scaler.submit_gradients(b, std::ref(buffer));
  CHECK_THROWS_AS(scaler.synchronize(), std::logic_error);
  CHECK_THROWS_AS(second.get(), std::logic_error);
  CHECK(buffer == Weights{1.0F});
}

TEST_CASE("an optimizer that is the first member of another is submitted beside it") {
  struct Outer {
    Stateless inner;
    float sum = 0.0F;
    void step(Weights& grads) { sum += grads[0]; }
  };
  Outer outer{Stateless{{1.0F}}};
  AsyncGradScaler scaler(presets::torch(1024.0));
  (void)scaler.submit_gradients(outer, Weights{1024.0F});
  (void)scaler.submit_gradients(outer.inner, Weights{1024.0F});
  scaler.update();
  scaler.synchronize();
  CHECK(outer.sum == 1.0F);
  CHECK(outer.inner.weights == Weights{0.0F});
}

TEST_CASE("a scaler may be destroyed in its own thread") {
  for (const bool by_argument : {false, true}) {
    struct Owns {
      std::unique_ptr<AsyncGradScaler<>> scaler = std::make_unique<AsyncGradScaler<>>();
      int steps = 0;
      void step(Weights&, std::shared_ptr<Owns>) { ++steps; }
      void step(Weights&) {
        ++steps;
        scaler.reset();
      }
    };
    auto owner = std::make_shared<Owns>();
    std::promise<void> may_begin;
    struct Waits {
      std::shared_future<void> begin;
      void step(Weights&) { begin.wait(); }
    } first{may_begin.get_future().share()};
    AsyncGradScaler<>& scaler = *owner->scaler;
    (void)scaler.submit_gradients(first, Weights{1.0F});
    auto done =
        by_argument ? scaler.submit_gradients(*owner, Weights{1.0F}, owner) : scaler.submit_gradients(*owner, Weights{1.0F});
    struct Never {
      int steps = 0;
      void step(Weights&) { ++steps; }
    } never;
    std::future<headroom::StepResult<void>> dropped;
    if (!by_argument) dropped = scaler.submit_gradients(never, Weights{1.0F});
    const std::weak_ptr<Owns> gone = owner;
    if (by_argument) owner.reset();
    may_begin.set_value();
    CHECK_FALSE(done.get().skipped);
    if (by_argument) {
      while (!gone.expired()) std::this_thread::yield();
    } else {
      CHECK_THROWS_AS(dropped.get(), std::future_error);
      CHECK(never.steps == 0);
      CHECK(owner->steps == 1);
      CHECK(owner->scaler == nullptr);
    }
  }
}

TEST_CASE("a finite iteration at a scale that has been lowered since still counts") {
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 10));
  (void)scaler.submit_gradients(optimizer, Weights{infinity()});
  scaler.update();
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});  // by 1024 still
  scaler.update();
  scaler.synchronize();
  CHECK(scaler.policy(true).loss_scale() == 512.0F);
  CHECK(scaler.policy(true).counter() == 1);
  CHECK(optimizer.weights == Weights{0.0F});
}

TEST_CASE("an update that was dropped with an error is not waited for") {
  struct Throws {
    std::shared_future<void> begin;
    void step(Weights&) {
      begin.wait();
      throw std::runtime_error("disk full");
    }
  };
  std::promise<void> may_begin;
  Throws throws{may_begin.get_future().share()};
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0));
  (void)scaler.submit_gradients(throws, Weights{1.0F});
  scaler.update();  // behind the error
  may_begin.set_value();
  CHECK_THROWS_AS(scaler.synchronize(), std::runtime_error);
  auto result = scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  scaler.update();
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  scaler.update(false);
  CHECK_FALSE(result.get().skipped);
  CHECK(optimizer.weights == Weights{-1.0F});
  CHECK(scaler.policy().counter() == 2);
}

TEST_CASE("an iteration that begins with a synchronize has the scale decided last, one that has begun keeps its own") {
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  scaler.update();
  scaler.synchronize();
  CHECK(scaler.get_scale() == 2048.0F);  // nobody has scaled a loss since the update
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  scaler.configure([](auto& there) { there.update(16.0F); });
  scaler.synchronize();
  CHECK(scaler.get_scale() == 2048.0F);  // something has been submitted
  scaler.update();
  scaler.synchronize();
  (void)scaler.submit_gradients(optimizer, Weights{scaler.get_scale()});  // by who multiplies himself
  scaler.configure([](auto& there) { there.update(16.0F); });
  scaler.synchronize();
  CHECK(scaler.get_scale() == 32.0F);
  scaler.load_state_dict(GradScaler(presets::torch(64.0)).state_dict());
  CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("nothing has been submitted"));
  CHECK(scaler.get_scale() == 64.0F);
  scaler.synchronize();
  CHECK(scaler.get_scale() == 64.0F);
}
