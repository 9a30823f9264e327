#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AsyncGradScaler;
using headroom::GradScaler;
using support::logic_error_of;
using support::Sgd;
using support::Stateless;
using support::Weights;
namespace presets = headroom::presets;

TEST_CASE("what is thrown over there arrives here, and the next iteration begins anew") {
  struct Throws {
    Weights grads{1.0F};
    bool throws = true;
    std::atomic<bool> may_go_on{true};
    Weights& gradients() { return grads; }
    void step() {
      while (!may_go_on) std::this_thread::yield();
      if (throws) throw std::runtime_error("disk full");
    }
  };
  Throws optimizer, behind;
  AsyncGradScaler scaler(presets::torch());
  const auto calls = {+[](AsyncGradScaler<>& s, Throws&) { s.synchronize(); },
                      +[](AsyncGradScaler<>& s, Throws&) { (void)s.policy(true); },
                      +[](AsyncGradScaler<>& s, Throws& o) {
                        for (int i = 0; i < 1000000; ++i) {  // a submit does not wait
                          (void)s.submit(o);
                          s.update();
                        }
                      }};
  for (const auto call : calls) {
    optimizer.throws = true;
    optimizer.may_go_on = false;
    auto thrown = scaler.submit(optimizer);
    auto dropped = scaler.submit(behind);
    optimizer.may_go_on = true;
    try {
      call(scaler, optimizer);
      CHECK(false);
    } catch (const std::runtime_error& error) {
      CHECK(std::string(error.what()) == "disk full");
    } catch (const std::logic_error&) {  // the last one: submitted twice, before the error was seen
      CHECK_THROWS_AS(scaler.synchronize(), std::runtime_error);
    }
    CHECK_THROWS_AS(thrown.get(), std::runtime_error);
    CHECK_THROWS_AS(dropped.get(), std::future_error);
    CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("nothing has been submitted"));
    optimizer.throws = false;
    const auto before = scaler.policy(true);
    optimizer.grads = {1.0F};
    auto result = scaler.submit(optimizer);
    scaler.update();
    CHECK_FALSE(result.get().skipped);
    CHECK(scaler.policy(true) == before.adjust(true));
  }
}

TEST_CASE("several optimizers are handed gradients of their own, each once an iteration") {
  Stateless a{{1000.0F}}, b{{1000.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0));
  std::vector<std::future<headroom::StepResult<void>>> results;
  for (int step = 0; step < 300; ++step) {
    for (Stateless* optimizer : {&a, &b}) {
      results.push_back(scaler.submit_gradients(*optimizer, Weights{scaler.scale(1.0F)}));
      results.back().wait();  // what has been handed over is gone, and its place in memory free
      if (optimizer == &b) {
        CHECK_THAT(logic_error_of([&] { (void)scaler.submit_gradients(b, Weights{1.0F}); }), ContainsSubstring("already"));
      }
    }
    scaler.update();
  }
  scaler.synchronize();
  for (auto& result : results) CHECK_FALSE(result.get().skipped);
  CHECK(a.weights == Weights{700.0F});
  CHECK(b.weights == Weights{700.0F});
}

TEST_CASE("a loss keeps its scale where an error arrives before its gradients are submitted") {
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));
  (void)scaler.submit_gradients(optimizer, Weights{1024.0F});
  scaler.update();
  const float loss = scaler.scale(1.0F);
  scaler.configure([](auto&) { throw std::runtime_error("refused"); });
  CHECK_THROWS_AS(scaler.synchronize(), std::runtime_error);
  CHECK(scaler.policy(true).loss_scale() == 2048.0F);
  (void)scaler.submit_gradients(optimizer, Weights{loss});
  scaler.update();
  scaler.synchronize();
  CHECK(optimizer.weights == Weights{-1.0F});
}

TEST_CASE("errors of bad gradients arrive as well") {
  struct Null {
    headroom::span<float> grads{static_cast<float*>(nullptr), 3};
    headroom::span<float>& gradients() { return grads; }
    void step() {}
  };
  Null optimizer;
  AsyncGradScaler<> scaler;
  (void)scaler.submit(optimizer);
  CHECK_THROWS_AS(scaler.synchronize(), std::invalid_argument);
}

TEST_CASE("misuse is a logic error, and never a deadlock") {
  AsyncGradScaler scaler(presets::torch());
  Sgd optimizer{{1.0F}, {1.0F}};
  CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("update: nothing has been submitted"));
  (void)scaler.submit(optimizer);
  CHECK_THAT(logic_error_of([&] { (void)scaler.submit(optimizer); }),
             ContainsSubstring("submitted already since the last update"));
  CHECK_THAT(logic_error_of([&] { (void)scaler.state_dict(); }), ContainsSubstring("state_dict: call update before"));
  scaler.update();
  scaler.synchronize();

  struct CallsBack {
    AsyncGradScaler<>& scaler;
    Weights grads{1.0F};
    std::vector<std::string> errors{};
    Weights& gradients() { return grads; }
    void step() {
      errors.push_back(logic_error_of([&] { scaler.update(); }));
      errors.push_back(logic_error_of([&] { scaler.synchronize(); }));
      errors.push_back(logic_error_of([&] { (void)scaler.policy(true); }));
      errors.push_back(logic_error_of([&] { (void)scaler.get_growth_factor(true); }));
      errors.push_back(logic_error_of([&] { (void)scaler.submit(*this); }));
      errors.push_back(logic_error_of([&] { scaler.load_state_dict({}); }));
      errors.push_back(logic_error_of([&] { (void)scaler.scale(1.0F); }));
      errors.push_back(logic_error_of([&] { (void)scaler.get_scale(); }));
      errors.push_back(logic_error_of([&] { (void)scaler.state_dict(); }));
      errors.push_back(logic_error_of([&] { scaler.configure([](auto&) {}); }));
    }
  };
  CallsBack calls_back{scaler};
  (void)scaler.submit(calls_back);
  scaler.update();
  scaler.synchronize();
  CHECK(calls_back.errors.size() == 10);
  for (const std::string& error : calls_back.errors) CHECK_THAT(error, ContainsSubstring("not from the optimizer's thread"));
}

TEST_CASE("destruction finishes what was submitted") {
  struct Slow {
    std::atomic<int> steps{0};
    void step(Weights&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++steps;
    }
  };
  Slow first, second;
  {
    AsyncGradScaler<> scaler;
    (void)scaler.submit_gradients(first, Weights{1.0F});
    (void)scaler.submit_gradients(second, Weights{1.0F});
  }
  CHECK(first.steps == 1);
  CHECK(second.steps == 1);
  { const AsyncGradScaler<> idle; }
}

TEST_CASE("a submit rethrows what has been thrown, whatever else is wrong with it") {
  struct Throws {
    Weights grads{1.0F};
    Weights& gradients() { return grads; }
    void step() { throw std::runtime_error("disk full"); }
  } optimizer;
  AsyncGradScaler scaler(presets::torch());
  scaler.submit(optimizer).wait();
  bool is_rethrown = false;
  for (int i = 0; i < 100000 && !is_rethrown; ++i) {
    try {
      (void)scaler.submit(optimizer);
    } catch (const std::runtime_error&) {
      is_rethrown = true;
    } catch (const std::logic_error&) {  // submitted twice: the error has been stored a moment later than the result
      std::this_thread::yield();
    }
  }
  CHECK(is_rethrown);
}

TEST_CASE("what a piece of work holds is gone when a synchronize returns") {
  struct Slow {
    std::atomic<bool>& is_gone;
    ~Slow() {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      is_gone = true;
    }
  };
  std::atomic<bool> is_gone{false};
  AsyncGradScaler scaler(presets::torch());
  scaler.configure([held = std::shared_ptr<Slow>(new Slow{is_gone})](auto&) { (void)held; });
  scaler.synchronize();
  CHECK(is_gone);
}

TEST_CASE("after an error the scale is the one decided last") {
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  scaler.update();
  scaler.configure([](auto&) { throw std::runtime_error("disk full"); });
  CHECK_THROWS_AS(scaler.synchronize(), std::runtime_error);
  CHECK(scaler.get_scale() == 2048.0F);
}

TEST_CASE("an optimizer is not taken for another one, of which the gradients are as unknown here") {
  Sgd a{{1.0F}, {1024.0F}}, b{{1.0F}, {1024.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0));
  (void)scaler.scale(1.0F);
  (void)scaler.submit(a);
  scaler.update();
  CHECK_THAT(logic_error_of([&] { (void)scaler.submit(b); }),
             ContainsSubstring("no loss has been scaled since the last update"));
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
