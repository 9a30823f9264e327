#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/iteration.hpp>

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::GradientFactor;
using headroom::GradScaler;
using headroom::SkipReason;
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

/// What backward adds: the gradient of the unscaled loss times the loss.
void backward(float loss, float gradient, Sgd& optimizer) {
  if (optimizer.grads.empty()) optimizer.grads = {0.0F};
  optimizer.grads[0] += gradient * loss;
}

const std::string not_current = "no loss has been scaled since the last update";

}  // namespace

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

TEST_CASE("an optimizer without gradients is skipped, whatever is called for it, and the policy stays as it is") {
  struct Nothing {
    std::vector<Weights> grads;
    int steps = 0;
    std::vector<Weights>& gradients() { return grads; }
    void step() { ++steps; }
    void step(GradientFactor) { ++steps; }
  };
  for (const bool deferred : {false, true}) {
    for (int call = 0; call < 3; ++call) {
      GradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 2));
      scaler.set_deferred(deferred);
      Nothing optimizer;
      (void)scaler.scale(1.0F);
      if (call == 1) CHECK(scaler.unscale_(optimizer).finite);
      if (call == 2) CHECK(scaler.unscale_and_clip_(optimizer, 1.0).norm == 0.0);
      const auto result = scaler.step(optimizer);
      CHECK(result.skipped);
      CHECK(result.reason == SkipReason::no_gradients);
      CHECK(result.report.finite);
      CHECK(result.report.max_abs == 0.0);
      CHECK_FALSE(result.nonfinite.has_value());
      CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }), ContainsSubstring("stepped already"));
      scaler.update();
      CHECK(scaler.policy() == presets::torch(1024.0, 2.0, 0.5, 2));
      CHECK(scaler.step(optimizer).reason == SkipReason::no_gradients);  // without a loss either
      scaler.update();

      // It has some now, and another has none.
      Nothing other;
      (void)scaler.scale(1.0F);
      optimizer.grads = {{}, {1024.0F}};
      CHECK(scaler.step(other).skipped);
      CHECK_FALSE(scaler.step(optimizer).skipped);
      CHECK(optimizer.steps == 1);
      CHECK(other.steps == 0);
      scaler.update();
      CHECK(scaler.policy() == presets::torch(1024.0, 2.0, 0.5, 2).adjust(true));
      (void)scaler.scale(1.0F);
      optimizer.grads = {{infinity()}};
      CHECK(scaler.step(other).reason == SkipReason::no_gradients);
      CHECK(scaler.step(optimizer).reason == SkipReason::not_finite);
      scaler.update();
      CHECK(scaler.get_scale() == 512.0F);
    }
  }
}

TEST_CASE("gradients that come after unscale_ found none are not stepped by") {
  GradScaler scaler(presets::torch(1024.0));
  struct Tree : Sgd {
    std::vector<Weights> all;
    std::vector<Weights>& gradients() { return all; }
  } optimizer;
  const float loss = scaler.scale(1.0F);
  (void)scaler.unscale_(optimizer);
  optimizer.all = {{loss}};
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }), ContainsSubstring("not where they were"));
  CHECK(optimizer.steps == 0);
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

TEST_CASE("an iteration that ends between the steps of two optimizers leaves no gradient divided by another scale") {
  for (const bool sets_scale : {false, true}) {
    GradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));
    Sgd a{{1.0F}, {}}, b = a;
    const float loss = scaler.scale(1.0F);
    backward(loss, 2.0F, a);
    backward(loss, 2.0F, b);
    (void)scaler.step(a);
    CHECK(a.weights == Weights{-1.0F});
    sets_scale ? scaler.update(32.0F) : scaler.update();
    CHECK_THAT(logic_error_of([&] { (void)scaler.step(b); }), ContainsSubstring(not_current));
    CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_(b); }), ContainsSubstring(not_current));
    CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_and_clip_(b, 1.0); }), ContainsSubstring(not_current));
    CHECK(b.weights == Weights{1.0F});
    CHECK(b.grads == Weights{2048.0F});

    b.grads.clear();
    backward(scaler.scale(1.0F), 2.0F, b);
    (void)scaler.step(b);
    CHECK(b.weights == Weights{-1.0F});
  }
}

TEST_CASE("gradients that were unscaled before an update are not unscaled after it") {
  for (const bool has_loss : {false, true}) {
    for (const bool clips : {false, true}) {
      GradScaler scaler(presets::torch(1024.0));
      Sgd optimizer{{1.0F}, {}};
      backward(has_loss ? scaler.scale(1.0F) : scaler.get_scale(), 2.0F, optimizer);
      clips ? (void)scaler.unscale_and_clip_(optimizer, 0.7) : (void)scaler.unscale_(optimizer);
      const Weights unscaled = optimizer.grads;
      scaler.update();
      const std::string already = "unscaled before the last update already";
      CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }), ContainsSubstring(already));
      CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_(optimizer); }), ContainsSubstring(already));
      CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_and_clip_(optimizer, 1.0); }), ContainsSubstring(already));
      CHECK(optimizer.grads == unscaled);
      CHECK(optimizer.weights == Weights{1.0F});

      // Another backward, for who multiplies the loss himself; the step of the last iteration had better be left out.
      optimizer.grads = {3.0F * scaler.get_scale()};
      (void)scaler.step(optimizer);
      CHECK(optimizer.weights == Weights{-2.0F});
    }
  }
}

TEST_CASE("a second step without another backward is refused where losses are scaled") {
  GradScaler scaler(presets::torch(1024.0));
  Sgd optimizer{{1.0F}, {}};
  backward(scaler.scale(1.0F), 2.0F, optimizer);
  (void)scaler.step(optimizer);
  scaler.update();
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }),
             ContainsSubstring("unscaled before the last update already"));
  CHECK(optimizer.weights == Weights{-1.0F});
  CHECK(optimizer.grads == Weights{2.0F});
  (void)scaler.scale(1.0F);
  (void)scaler.step(optimizer);  // nobody can know what backward has done
}

TEST_CASE("a state that is loaded ends the iteration, and its gradients are refused") {
  for (const bool unscales : {false, true}) {
    GradScaler scaler(presets::torch(1024.0));
    const GradScaler other(presets::torch(32.0));
    Sgd optimizer{{1.0F}, {}};
    backward(scaler.scale(1.0F), 2.0F, optimizer);
    if (unscales) (void)scaler.unscale_(optimizer);
    scaler.load_state_dict(other.state_dict());
    CHECK_THROWS_AS(scaler.step(optimizer), std::logic_error);
    CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("no optimizer has been unscaled"));
    CHECK(optimizer.weights == Weights{1.0F});
    optimizer.grads = {};
    backward(scaler.scale(1.0F), 2.0F, optimizer);
    CHECK(optimizer.grads == Weights{64.0F});
    (void)scaler.step(optimizer);
    CHECK(optimizer.weights == Weights{-1.0F});
  }
}

TEST_CASE("a state that is loaded between iterations makes no gradients of the last one current") {
  for (const bool unscales : {false, true}) {
    for (const int loads : {0, 1, 2}) {
      GradScaler scaler(presets::torch(1024.0));
      Sgd first{{1.0F}, {}}, second{{1.0F}, {}};
      const float loss = scaler.scale(1.0F);
      backward(loss, 2.0F, first);
      backward(loss, 2.0F, second);
      if (unscales) (void)scaler.unscale_(first);
      (void)scaler.step(second);
      scaler.update();
      for (int i = 0; i < loads; ++i) scaler.load_state_dict(scaler.state_dict());
      CHECK_THAT(logic_error_of([&] { (void)scaler.step(first); }), ContainsSubstring("no loss has been scaled since"));
      CHECK_THAT(logic_error_of([&] { (void)scaler.step(second); }), ContainsSubstring("no loss has been scaled since"));
      CHECK(first.weights == Weights{1.0F});
      first.grads = {};
      backward(scaler.scale(1.0F), 2.0F, first);
      (void)scaler.step(first);
      CHECK(first.weights == Weights{-1.0F});
    }
  }
}

TEST_CASE("any order of calls divides every gradient once, by the scale of its loss, or is a logic error") {
  std::mt19937 random(support::seed);
  int right = 0, refused = 0;
  for (int run = 0; run < support::cases(3000); ++run) {
    GradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1 + random() % 2));
    Sgd optimizers[2] = {{{0.0F}, {0.0F}}, {{0.0F}, {0.0F}}};
    float taken[2] = {0.0F, 0.0F};  // the sum of the true gradients that each has to have stepped by
    float pending[2] = {0.0F, 0.0F};
    for (int call = 0; call < 12; ++call) {
      const auto which = random() % 2;
      Sgd& optimizer = optimizers[which];
      try {
        switch (random() % 6) {
          case 0:
          case 1: {  // zero_grad and backward, of both
            const float loss = scaler.scale(1.0F);
            for (int i = 0; i < 2; ++i) {
              pending[i] = static_cast<float>(1U << random() % 4);
              optimizers[i].grads = {pending[i] * loss};
            }
            break;
          }
          case 2:
            (void)scaler.unscale_(optimizer);
            break;
          case 3:
            if (!scaler.step(optimizer).skipped) {
              taken[which] += pending[which];
              pending[which] = 0.0F;
            }
            break;
          case 4:
            scaler.update();
            break;
          default:
            scaler.update(static_cast<float>(256U << random() % 4));
        }
        ++right;
      } catch (const std::logic_error&) {
        ++refused;
      }
      REQUIRE(optimizer.weights[0] == -taken[which]);
    }
  }
  CHECK(right > support::cases(3000));
  CHECK(refused > support::cases(3000));
}

TEST_CASE("scaled gradients that are added to unscaled ones are refused where they make them larger") {
  for (const bool deferred : {false, true}) {
    struct Fused : Sgd {
      using Sgd::step;
      void step(GradientFactor) {}
    };
    GradScaler scaler(presets::torch(1024.0));
    scaler.set_deferred(deferred);
    Fused optimizer;
    optimizer.weights = {1.0F};
    backward(scaler.scale(1.0F), 2.0F, optimizer);
    (void)scaler.unscale_(optimizer);
    backward(scaler.scale(1.0F), 2.0F, optimizer);
    CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }),
               ContainsSubstring("have become larger since they were unscaled"));
    optimizer.grads[0] = infinity();
    CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizer); }),
               ContainsSubstring("have become larger since they were unscaled"));
  }
  // A loss of another optimizer is none of its business.
  GradScaler scaler(presets::torch(1024.0));
  Sgd a{{1.0F}, {}}, b = a;
  backward(scaler.scale(1.0F), 2.0F, a);
  (void)scaler.unscale_(a);
  backward(scaler.scale(1.0F), 2.0F, b);
  CHECK_FALSE(scaler.step(a).skipped);
  CHECK_FALSE(scaler.step(b).skipped);
  CHECK(a.weights == b.weights);
}
