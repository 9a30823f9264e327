#include <headroom/dtype/half.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/iteration.hpp>

#include <array>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using headroom::GradientFactor;
using headroom::GradScaler;
using support::infinity;
using support::logic_error_of;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

/// What backward adds: the gradient of the unscaled loss times the loss.
void backward(float loss, float gradient, Sgd& optimizer) {
  if (optimizer.grads.empty()) optimizer.grads = {0.0F};
  optimizer.grads[0] += gradient * loss;
}
const std::string not_current = "no loss has been scaled since the last update";

}  // namespace

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

TEST_CASE("any order of calls divides every gradient once, by the scale of its loss, or is a logic error") {
  std::mt19937 random(support::seed);
  int right = 0, refused = 0;
  for (int run = 0; run < 3000; ++run) {
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
  CHECK(right > 3000);
  CHECK(refused > 3000);
}

// ---- who is who ----

TEST_CASE("an optimizer that moves between unscale and step is unscaled once") {
  std::vector<Sgd> optimizers(1, Sgd{{1.0F}, {}});
  GradScaler scaler(presets::torch(1024.0));
  backward(scaler.scale(1.0F), 2.0F, optimizers[0]);
  (void)scaler.unscale_(optimizers[0]);
  const Sgd* const before = optimizers.data();
  optimizers.reserve(100);
  REQUIRE(optimizers.data() != before);
  CHECK_FALSE(scaler.step(optimizers[0]).skipped);
  CHECK(optimizers[0].weights == Weights{-1.0F});
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizers[0]); }), ContainsSubstring("stepped already"));
}

TEST_CASE("an optimizer that has moved since the last update is known by its gradients") {
  std::vector<Sgd> optimizers(1, Sgd{{1.0F}, {2048.0F}});
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(optimizers[0]);
  scaler.update();
  optimizers.reserve(100);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizers[0]); }),
             ContainsSubstring("unscaled before the last update already"));
  CHECK(optimizers[0].grads == Weights{2.0F});
}

TEST_CASE("an optimizer may come to where one was that has moved") {
  GradScaler scaler(presets::torch(1024.0));
  std::optional<Sgd> place(Sgd{{1.0F}, {2048.0F}});
  (void)scaler.unscale_(*place);
  Sgd moved = std::move(*place);
  CHECK_FALSE(scaler.step(moved).skipped);
  place.emplace(Sgd{{1.0F}, {4096.0F}});
  CHECK_FALSE(scaler.step(*place).skipped);
  CHECK(moved.weights == Weights{-1.0F});
  CHECK(place->weights == Weights{-3.0F});
}

TEST_CASE("another optimizer at the address of one that was unscaled is not taken for it") {
  GradScaler scaler(presets::torch(1024.0));
  std::optional<Sgd> optimizer(Sgd{{1.0F}, {2048.0F}});
  (void)scaler.unscale_(*optimizer);
  const Weights keeps_its_place = std::move(optimizer->grads);
  optimizer.emplace(Sgd{{1.0F}, {2048.0F}});
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(*optimizer); }), ContainsSubstring("are not where they were"));
  CHECK(optimizer->weights == Weights{1.0F});
  scaler.update();
  (void)scaler.step(*optimizer);
  CHECK(optimizer->weights == Weights{-1.0F});
}

TEST_CASE("an optimizer that is the first member of another is another one") {
  struct Outer {
    Sgd inner;
    Weights grads;
    int steps = 0;
    Weights& gradients() { return grads; }
    int step() { return ++steps; }
  };
  GradScaler scaler(presets::torch(1024.0));
  Outer outer{Sgd{{1.0F}, {2048.0F}}, {4096.0F}};
  REQUIRE(static_cast<void*>(&outer) == static_cast<void*>(&outer.inner));
  (void)scaler.step(outer.inner);
  CHECK(scaler.step(outer).report.max_abs == 4.0);
  CHECK(outer.grads == Weights{4.0F});
  CHECK(outer.inner.grads == Weights{2.0F});
}

TEST_CASE("two optimizers of the same gradients do not unscale them twice") {
  struct Wrapper {
    Sgd& wrapped;
    Weights& gradients() { return wrapped.grads; }
    int step() { return wrapped.step(); }
  };
  GradScaler scaler(presets::torch(1024.0));
  Sgd optimizer{{1.0F}, {2048.0F}};
  Wrapper wrapper{optimizer};
  (void)scaler.unscale_(optimizer);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(wrapper); }), ContainsSubstring("as another one's"));
  CHECK(optimizer.grads == Weights{2.0F});
}

TEST_CASE("two optimizers that share some of their gradients, in whatever order, do not unscale them twice") {
  struct Shares {
    std::vector<Weights*> all;
    std::vector<headroom::span<float>> gradients() {
      std::vector<headroom::span<float>> spans;
      for (Weights* part : all) spans.emplace_back(*part);
      return spans;
    }
    void step() {}
  };
  for (const bool steps : {false, true}) {
    for (const bool shared_first : {false, true}) {
      Weights own(3, 2048.0F), shared(2, 4096.0F), other(1, 1024.0F);
      Shares a{{&own, &shared}}, b{{&other, &shared}};
      if (shared_first) std::swap(b.all[0], b.all[1]);
      GradScaler scaler(presets::torch(1024.0));
      steps ? (void)scaler.step(a) : (void)scaler.unscale_(a);
      CHECK_THAT(logic_error_of([&] { (void)scaler.step(b); }), ContainsSubstring("as another one's"));
      CHECK(shared[0] == 4.0F);
      CHECK(other[0] == 1024.0F);
      CHECK(b.all.size() == 2);
    }
  }
}

TEST_CASE("an optimizer inside of another one, and gradients of both, are not unscaled twice") {
  struct Outer {
    Weights more{1024.0F};
    Sgd inner;
    auto gradients() { return std::tie(more, inner.grads); }
    void step() {}
  } outer{{1024.0F}, Sgd{{1.0F}, {2048.0F}}};
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(outer.inner);
  CHECK_THROWS_AS(scaler.unscale_(outer), std::logic_error);
  CHECK(outer.inner.grads == Weights{2.0F});
}

TEST_CASE("an optimizer is the same one by a reference to its base") {
  struct Derived : Sgd {
    int other = 0;
  } derived;
  derived.weights = {1.0F};
  derived.grads = {2048.0F};
  Sgd& base = derived;
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(base);
  CHECK_FALSE(scaler.step(derived).skipped);
  CHECK(derived.weights == Weights{-1.0F});
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(base); }), ContainsSubstring("stepped already"));
}

TEST_CASE("one buffer may have the gradients of one optimizer after the other") {
  struct Uses {
    Weights& buffer;
    float weight = 0.0F;
    Weights& gradients() { return buffer; }
    void step() { weight -= buffer[0]; }
  };
  Weights buffer{0.0F};
  Uses a{buffer}, b{buffer};
  GradScaler scaler(presets::torch(1024.0));
  const float loss = scaler.scale(1.0F);
  buffer = {2.0F * loss};
  (void)scaler.step(a);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(b); }), ContainsSubstring("as another one's"));
  buffer[0] = 3.0F * loss;
  (void)scaler.step(b);
  CHECK(a.weight == -2.0F);
  CHECK(b.weight == -3.0F);
}

TEST_CASE("clipped gradients are those that were left, however they were rounded, when another loss has been scaled") {
  std::mt19937 random(support::seed);
  for (const double scale : {32768.0, 30000.0, 1.0}) {
    for (int run = 0; run < 200; ++run) {
      const auto gradient = static_cast<float>(random() % 1000 + 1) * 0.001F;
      struct Narrow {
        std::vector<headroom::half> grads;
        std::vector<headroom::half>& gradients() { return grads; }
        void step() {}
      };
      GradScaler scaler(presets::torch(scale));
      Sgd d{{0.0F, 0.0F}, {}}, g{{0.0F}, {}};
      d.grads = {scaler.scale(gradient), scaler.scale(0.3F)};
      Narrow narrow{{headroom::half(gradient), headroom::half(0.3F)}};
      const double max_norm = run % 2 == 0 ? 0.05 : 10.0;
      (void)scaler.unscale_and_clip_(d, max_norm);
      (void)scaler.unscale_and_clip_(narrow, max_norm * 1e-5);
      g.grads = {scaler.scale(1.0F)};
      REQUIRE_FALSE(scaler.step(d).skipped);
      REQUIRE_FALSE(scaler.step(narrow).skipped);
      REQUIRE_FALSE(scaler.step(g).skipped);
    }
  }
}

TEST_CASE("an optimizer that moves with its gradients in it is refused") {
  struct Inline {
    std::array<float, 2> grads{2048.0F, 1024.0F};
    float weight = 0.0F;
    std::array<float, 2>& gradients() { return grads; }
    void step() { weight -= grads[0]; }
  };
  {
    std::vector<Inline> two(2);
    GradScaler scaler(presets::torch(1024.0));
    (void)scaler.unscale_(two[0]);
    two.erase(two.begin());
    CHECK_THAT(logic_error_of([&] { (void)scaler.step(two[0]); }), ContainsSubstring("have become larger"));
  }
  std::vector<Inline> optimizers(1);
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(optimizers[0]);
  optimizers.reserve(100);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizers[0]); }), ContainsSubstring("has moved since"));
  Inline other;
  CHECK_FALSE(scaler.step(other).skipped);  // whose gradients are scaled
  CHECK(other.weight == -2.0F);
}

// ---- gradients that are not there ----

TEST_CASE("gradients without elements are a step with nothing to unscale; no gradients at all are an error") {
  struct Module {
    std::vector<Weights> grads;
    int steps = 0;
    std::vector<Weights>& gradients() { return grads; }
    int step() { return ++steps; }
  };
  GradScaler scaler(presets::torch(1024.0));
  Module frozen{{{}, {}}}, before_backward{};
  const auto result = scaler.step(frozen);
  CHECK_FALSE(result.skipped);
  CHECK(result.report.finite);
  CHECK(result.report.max_abs == 0.0);
  CHECK(frozen.steps == 1);
  scaler.update();
  CHECK(scaler.policy().counter() == 1);
  CHECK(scaler.unscale_and_clip_(frozen, 1.0).norm == 0.0);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(before_backward); }), ContainsSubstring("call backward first"));
  CHECK(before_backward.steps == 0);
}

// ---- norms that are no doubles ----

TEST_CASE("a norm beyond all doubles counts as an overflow where gradients are clipped, and nowhere else") {
  struct Doubles {
    std::vector<double> grads;
    std::vector<double>& gradients() { return grads; }
    void step() {}
    void step(GradientFactor) {}
  };
  for (const bool enabled : {true, false}) {
    GradScaler scaler(presets::torch(1024.0), enabled);
    Doubles large{{1e100 * static_cast<double>(scaler.get_scale())}};
    CHECK(scaler.unscale_and_clip_(large, 1e-100).norm == Approx(1e100));
    CHECK(large.grads[0] == Approx(1e-100));
  }
  const std::vector<double> beyond(16, 1.7e308);
  for (const bool deferred : {true, false}) {
    for (const bool reduces : {true, false}) {
      GradScaler scaler(presets::torch(1024.0));
      scaler.set_deferred(deferred);
      if (reduces) scaler.set_reducer([](const headroom::GradientSums& here) { return here; });
      Doubles optimizer{beyond}, other{beyond};
      CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 4.0).finite);
      CHECK(scaler.step(optimizer).skipped);
      CHECK(scaler.unscale_(other).finite);
      CHECK_FALSE(scaler.step(other).skipped);
    }
  }
  GradScaler disabled(presets::torch(), false);
  Doubles optimizer{beyond};
  CHECK_FALSE(disabled.unscale_and_clip_(optimizer, 4.0).finite);
  CHECK(optimizer.grads == beyond);
}

// ---- gradients that were unscaled and are added to ----

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
