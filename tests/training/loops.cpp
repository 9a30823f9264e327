// Loops that ordinary users write: they run without an exception, and every gradient is divided once.
#include <headroom/dtype/half.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/spike_guard.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <array>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::GradientFactor;
using headroom::GradScaler;
using headroom::half;
using support::Sgd;
using support::Weights;

namespace {

/// Steps by what a layer has, and is made where it is needed.
struct Adapter {
  Weights& weights;
  Weights& grads;
  Weights& gradients() { return grads; }
  void step() {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= grads[i];
  }
};
struct Layer {
  Weights weights{0.0F}, grads{0.0F};
};

/// Gradients that lie in the optimizer.
struct Inline {
  std::array<float, 2> weights{}, grads{};
  std::array<float, 2>& gradients() { return grads; }
  void step() {
    for (std::size_t i = 0; i < 2; ++i) weights[i] -= grads[i];
  }
};

/// fp16 gradients, whose step multiplies.
struct FusedHalf {
  static constexpr bool takes_gradient_factor = true;
  Weights weights{0.0F};
  std::vector<half> grads{half(0.0F)};
  std::vector<half>& gradients() { return grads; }
  void step(GradientFactor factor) { weights[0] -= static_cast<float>(grads[0]) * static_cast<float>(factor.value); }
};

}  // namespace

TEST_CASE("an optimizer that sits out, and another whose gradients get its memory") {
  GradScaler<> scaler(1024.0);
  alignas(float) unsigned char memory[sizeof(float)];
  struct Views {
    std::vector<headroom::span<float>> grads;
    float weight = 0.0F;
    std::vector<headroom::span<float>>& gradients() { return grads; }
    void step() { weight -= grads[0].data()[0]; }
  } a, b;
  for (int step = 1; step <= 3; ++step) {
    const float loss = scaler.scale(1.0F);
    a.grads = {{::new (memory) float(loss), 1}};
    scaler.unscale_(a);
    a.grads.clear();  // freed: a sits out
    b.grads = {{::new (memory) float(loss), 1}};
    CHECK(scaler.step(b).report.max_abs == 1.0);
    CHECK(b.weight == -static_cast<float>(step));
    scaler.update();
  }
}

TEST_CASE("gradients replaced between unscale_ and step") {
  GradScaler<> scaler(1024.0);
  Sgd optimizer{{0.0F}, {}};
  for (int step = 1; step <= 3; ++step) {
    optimizer.grads = {scaler.scale(4.0F)};
    scaler.unscale_(optimizer);
    Weights clipped = optimizer.grads;
    headroom::clip_by_global_norm(clipped, 1.0);
    optimizer.grads = clipped;
    CHECK_FALSE(scaler.step(optimizer).skipped);
    CHECK(optimizer.weights == Weights{-static_cast<float>(step)});
    scaler.update();
  }
}

TEST_CASE("an adapter for each layer, made on the stack in a loop, clipped or not") {
  for (const bool unscales : {false, true}) {
    GradScaler<> scaler(1024.0);
    std::vector<Layer> layers(5);
    for (int step = 1; step <= 3; ++step) {
      const float loss = scaler.scale(1.0F);
      for (Layer& layer : layers) layer.grads = {4.0F * loss};
      for (Layer& layer : layers) {
        Adapter adapter{layer.weights, layer.grads};
        if (unscales) scaler.unscale_and_clip_(adapter, 1.0);
        CHECK_FALSE(scaler.step(adapter).skipped);
      }
      scaler.update();
      for (const Layer& layer : layers) CHECK(layer.weights == Weights{static_cast<float>(unscales ? -step : -4 * step)});
    }
    CHECK(scaler.policy().counter() == 3);
  }
}

TEST_CASE("weight decay, normalising and noise on gradients that lie in the optimizer, with another loss in between") {
  GradScaler<> scaler(1024.0);
  Inline generator, discriminator;
  for (int step = 0; step < 3; ++step) {
    discriminator.grads = {scaler.scale(1.0F), scaler.scale(2.0F)};
    scaler.unscale_(discriminator);
    for (std::size_t i = 0; i < 2; ++i) discriminator.grads[i] = 100.0F * discriminator.grads[i] + discriminator.weights[i];
    generator.grads = {scaler.scale(1.0F), scaler.scale(1.0F)};  // another loss, before the step
    CHECK_FALSE(scaler.step(discriminator).skipped);
    CHECK(scaler.step(generator).report.max_abs == 1.0);
    scaler.update();
  }
  CHECK(generator.weights == std::array<float, 2>{-3.0F, -3.0F});
}

TEST_CASE("two optimizers that list a shared trunk") {
  GradScaler<> scaler(1.0);
  Weights trunk, head_a, head_b;
  struct Heads {
    std::vector<Weights*> grads;
    std::vector<headroom::span<float>> views;
    auto& gradients() {
      views.clear();
      for (Weights* each : grads) views.emplace_back(each->data(), each->size());
      return views;
    }
    int steps = 0;
    void step() { ++steps; }
  } a, b;
  a.grads = {&trunk, &head_a};
  b.grads = {&trunk, &head_b};
  for (int step = 1; step <= 3; ++step) {
    for (Weights* each : {&trunk, &head_a, &head_b}) *each = {scaler.scale(1.0F)};
    CHECK_FALSE(scaler.step(a).skipped);
    CHECK_FALSE(scaler.step(b).skipped);
    scaler.update();
    CHECK(a.steps == step);
    CHECK(b.steps == step);
  }
}

TEST_CASE("twins under NoOpLossScale") {
  GradScaler scaler{headroom::NoOpLossScale()};
  Weights grads;
  struct Twin {
    Weights& grads;
    int steps = 0;
    Weights& gradients() { return grads; }
    void step() { ++steps; }
  } a{grads}, b{grads};
  for (int step = 1; step <= 3; ++step) {
    grads = {scaler.scale(3.0F)};
    CHECK_FALSE(scaler.step(a).skipped);
    CHECK_FALSE(scaler.step(b).skipped);
    scaler.update();
    CHECK(grads == Weights{3.0F});
  }
  CHECK(a.steps + b.steps == 6);
}

TEST_CASE("one workspace for the gradients of several optimizers, one after the other") {
  GradScaler<> scaler(1024.0);
  Weights workspace;
  Layer layers[3];
  for (int step = 1; step <= 3; ++step) {
    std::vector<Adapter> adapters;
    for (Layer& layer : layers) adapters.push_back({layer.weights, workspace});
    for (Adapter& adapter : adapters) {
      workspace = {scaler.scale(1.0F)};
      CHECK_FALSE(scaler.step(adapter).skipped);
    }
    scaler.update();
    for (const Layer& layer : layers) CHECK(layer.weights == Weights{-static_cast<float>(step)});
  }
}

TEST_CASE("optimizers that are added by emplace_back, and a spike guard for each") {
  GradScaler<> scaler(1024.0);
  std::vector<Sgd> optimizers;
  std::vector<headroom::SpikeGuard> guards;
  int spikes = 0;
  for (int step = 0; step < 100; ++step) {
    if (step % 40 == 0) {
      optimizers.push_back({{0.0F}, {}});
      guards.emplace_back(8);
    }
    const float loss = scaler.scale(1.0F);
    for (std::size_t i = 0; i < optimizers.size(); ++i) {
      optimizers[i].grads = {loss * (step == 90 ? 1e4F : 1.0F + 0.01F * static_cast<float>(step % 3))};
      const double norm = scaler.unscale_and_clip_(optimizers[i], 1e9).norm;
      if (guards[i].is_spike(norm)) ++spikes;
      if (!guards[i].is_spike(norm)) scaler.step(optimizers[i]);
      guards[i] = guards[i].adjust(norm);
    }
    scaler.update();
  }
  CHECK(spikes == 3);
  CHECK(optimizers[0].steps == 99);
  CHECK(scaler.policy().counter() == 100);
}

TEST_CASE("an optimizer that takes a GradientFactor is deferred without a setting, and learns from fp16 gradients") {
  GradScaler<> scaler(1024.0);
  FusedHalf optimizer;
  for (int step = 0; step < 3; ++step) {
    optimizer.grads = {half(scaler.scale(0x1p-24F))};  // 2^-14 in fp16; unscaled in it, 2^-24, the smallest there is
    CHECK_FALSE(scaler.step(optimizer).skipped);
    CHECK(optimizer.grads[0] == half(0x1p-14F));
    scaler.update();
  }
  CHECK(optimizer.weights == Weights{-3.0F * 0x1p-24F});
}

TEST_CASE("fp16 gradients in a loop of step_gradients: the weights learn what fp16 would lose") {
  GradScaler<> scaler(65536.0);
  Weights weights{0.0F};
  for (int step = 0; step < 3; ++step) {
    const std::vector<half> grads{half(scaler.scale(0x1p-30F))};
    scaler.step_gradients(grads, [&](const Weights& unscaled) { weights[0] -= unscaled[0]; });
    scaler.update();
  }
  CHECK(weights == Weights{-3.0F * 0x1p-30F});
}

TEST_CASE("a batch that throws is abandoned, and one with a NaN loss is left out") {
  GradScaler<> scaler(1024.0);
  Sgd optimizer{{0.0F}, {}};
  int taken = 0;
  for (int step = 0; step < 6; ++step) {
    try {
      optimizer.grads = {scaler.scale(1.0F)};
      if (step == 1) throw std::runtime_error("a corrupt file");
      scaler.unscale_(optimizer);
      if (step == 2) throw std::runtime_error("the disk is full");
      if (step == 3) optimizer.grads[0] = 0.5F;
      taken += scaler.step(optimizer).skipped ? 0 : 1;
      scaler.update();
    } catch (const std::runtime_error&) {
      scaler.abandon();
    }
  }
  CHECK(taken == 4);
  CHECK(scaler.policy().counter() == 4);
}

TEST_CASE("an iteration without a step, by unscale_ and a decision of one's own") {
  GradScaler<> scaler(1024.0);
  Sgd optimizer{{0.0F}, {}};
  for (int step = 0; step < 4; ++step) {
    optimizer.grads = {scaler.scale(step == 2 ? 50.0F : 1.0F)};
    if (scaler.unscale_(optimizer).max_abs < 10.0) scaler.step(optimizer);
    scaler.update();
  }
  CHECK(optimizer.weights == Weights{-3.0F});
  optimizer.grads = {scaler.scale(1.0F)};
  scaler.unscale_(optimizer);
  optimizer.grads = {scaler.scale(1.0F)};  // without the update
  CHECK_THAT(support::logic_error_of([&] { scaler.unscale_(optimizer); }),
             ContainsSubstring("call update in every iteration, also when you decide not to step"));
}
