#include <headroom/dtype/half.hpp>
#include <headroom/ops/policy_verbs.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/optimizer_traits.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::GradientFactor;
using headroom::GradScaler;
using headroom::half;
using support::logic_error_of;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

/// An optimizer of somebody else's, with 16-bit gradients.
struct Foreign {
  std::vector<half> flat;
  bool applied = false;
};

/// Each kind of step, and whether it asks for a GradientFactor.
template <class Derived>
struct Recording {
  Weights grads{1024.0F};
  std::size_t arguments = 0;
  double factor = 0.0;
  Weights& gradients() { return grads; }
};

struct TakesAnything : Recording<TakesAnything> {
  template <class... Args>
  void step(Args&&... args) {
    arguments = sizeof...(args);
  }
};

struct TakesAnythingAndAsks : Recording<TakesAnythingAndAsks> {
  static constexpr bool takes_gradient_factor = true;
  template <class First, class... Args>
  void step(First first, Args&&... args) {
    arguments = 1 + sizeof...(args);
    if constexpr (std::is_same_v<First, GradientFactor>) factor = first.value;
  }
};

struct Overloaded : Recording<Overloaded> {
  void step() {}
  void step(GradientFactor by) { factor = by.value; }
};

struct TakesMore : Recording<TakesMore> {
  void step(GradientFactor by, float rate, const std::string& name) {
    factor = by.value * static_cast<double>(rate) * static_cast<double>(name.size());
  }
};

struct TakesMuch : Recording<TakesMuch> {
  void step(GradientFactor by, int a, int b, Weights& c, float&& d) {
    factor = by.value * static_cast<double>(a + b) * static_cast<double>(c[0]) * static_cast<double>(d);
  }
};

struct Refuses : Recording<Refuses> {
  static constexpr bool takes_gradient_factor = false;
  void step(GradientFactor by = {}) { factor = by.value; }
};

struct TakesDouble : Recording<TakesDouble> {
  void step(double by = 3.0) { factor = by; }
};

struct HandedAndGeneric {
  static constexpr bool takes_gradient_factor = true;
  double sum = 0.0;
  template <class By>
  void step(Weights& grads, By by) {
    if constexpr (std::is_same_v<By, GradientFactor>) sum += static_cast<double>(grads[0]) * by.value;
  }
};

template <class Optimizer, class... Args>
Optimizer after_step(bool deferred, Args&&... args) {
  GradScaler scaler(presets::torch(1024.0));
  scaler.set_deferred(deferred);
  Optimizer optimizer;
  (void)scaler.step(optimizer, args...);
  return optimizer;
}

}  // namespace

template <>
struct headroom::optimizer_traits<Foreign> {
  static auto gradients(Foreign& optimizer) { return std::tie(optimizer.flat); }
  static void step(Foreign& optimizer) { optimizer.applied = true; }
};

TEST_CASE("traits of a user's own, a tree of views, a step that returns nothing") {
  GradScaler scaler(headroom::ConstantLossScale(8.0F));
  Foreign optimizer{{half(8.0F), half(-4.0F)}};
  const auto result = scaler.step(optimizer);
  static_assert(std::is_same_v<decltype(result), const headroom::StepResult<void>>);
  CHECK(optimizer.applied);
  CHECK(optimizer.flat == std::vector<half>{half(1.0F), half(-0.5F)});
  CHECK(result.report.max_abs == 1.0);
}

TEST_CASE("a GradientFactor is for optimizers that ask for one") {
  CHECK(after_step<TakesAnything>(false).arguments == 0);
  CHECK(after_step<TakesAnything>(false, 1, 2).arguments == 2);
  CHECK(after_step<TakesAnythingAndAsks>(false, 7).arguments == 2);
  CHECK(after_step<TakesAnythingAndAsks>(false, 7).factor == 1.0);
  CHECK(after_step<TakesAnythingAndAsks>(true, 7).factor == 1.0 / 1024);
  CHECK(after_step<Overloaded>(true).factor == 1.0 / 1024);
  CHECK(after_step<TakesMore>(true, 0.5F, "four").factor == 2.0 / 1024);
  CHECK(after_step<Refuses>(false).factor == 1.0);
  Weights one{1.0F};
  for (const bool deferred : {false, true}) {
    GradScaler scaler(presets::torch(1024.0));
    scaler.set_deferred(deferred);
    TakesMuch optimizer;
    (void)scaler.step(optimizer, 1, 2, one, 1.0F);
    CHECK(optimizer.factor == (deferred ? 3.0 / 1024 : 3.0));
  }
  CHECK(after_step<TakesDouble>(false).factor == 3.0);
}

TEST_CASE("deferred: who takes no GradientFactor is refused at the first call, before anything is measured") {
  const auto check = [](auto optimizer) {
    GradScaler scaler(presets::torch(1024.0));
    scaler.set_deferred(true);
    const std::string expected = "takes no GradientFactor";
    CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_(optimizer); }), ContainsSubstring(expected));
    CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_and_clip_(optimizer, 1.0); }), ContainsSubstring(expected));
    CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }), ContainsSubstring(expected));
    CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("no optimizer has been unscaled"));
    CHECK(optimizer.gradients() == Weights{1024.0F});
  };
  check(Sgd{{1.0F}, {1024.0F}});
  check(TakesAnything());
  check(Refuses());
  check(TakesDouble());
}

TEST_CASE("deferred, with gradients that are handed over") {
  struct Fused {
    double sum = 0.0;
    void step(Weights& grads, GradientFactor by, double rate) { sum += static_cast<double>(grads[0]) * by.value * rate; }
  } fused;
  HandedAndGeneric generic;
  headroom::AsyncGradScaler scaler(presets::torch(1024.0));
  scaler.configure([](auto& there) { there.set_deferred(true); });
  (void)scaler.submit_gradients(fused, Weights{2048.0F}, 0.5);
  (void)scaler.submit_gradients(generic, Weights{2048.0F});
  scaler.update();
  scaler.synchronize();
  CHECK(fused.sum == 1.0);
  CHECK(generic.sum == 2.0);
}

TEST_CASE("deferred: what a step takes beside the factor, by value and by reference, is found out before it is known") {
  struct Mixed : Recording<Mixed> {
    void step(GradientFactor by, std::unique_ptr<int> number, Weights& log, const std::string&) {
      factor = by.value * static_cast<double>(*number);
      log.push_back(1.0F);
    }
  } optimizer;
  Weights log;
  GradScaler scaler(presets::torch(1024.0));
  scaler.set_deferred(true);
  CHECK(scaler.unscale_(optimizer).max_abs == 1.0);
  CHECK_FALSE(scaler.step(optimizer, std::make_unique<int>(2), log, "a name").skipped);
  CHECK(optimizer.factor == 2.0 / 1024);
  CHECK(log.size() == 1);
}
