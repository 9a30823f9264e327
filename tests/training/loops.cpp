// Loops that users write. They run without an exception, and every gradient is divided once.
#include <headroom/observe/spike_guard.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::GradScaler;
using support::Sgd;
using support::Weights;

namespace {

/// Steps one layer. The loop makes an adapter where it needs one.
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

/// Its gradients are part of the object.
struct Inline {
  std::array<float, 2> weights{}, grads{};
  std::array<float, 2>& gradients() { return grads; }
  void step() {
    for (std::size_t i = 0; i < 2; ++i) weights[i] -= grads[i];
  }
};

}  // namespace

TEST_CASE("gradients are replaced between unscale_ and step") {
  GradScaler<> scaler(1024.0);
  Sgd optimizer{{0.0F}, {}};
  for (int step = 1; step <= 3; ++step) {
    optimizer.grads = {scaler.scale(4.0F)};
    scaler.unscale_(optimizer);
    Weights clipped = optimizer.grads;
    headroom::clip_by_global_norm(clipped, 1.0);
    optimizer.grads = clipped;
    CHECK(scaler.step(optimizer).report.max_abs == 4.0);
    CHECK(optimizer.weights == Weights{-static_cast<float>(step)});
    scaler.update();
  }
}

TEST_CASE("each layer has an adapter on the stack, with and without clipping") {
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
      for (const Layer& layer : layers)
        CHECK(layer.weights == Weights{static_cast<float>(unscales ? -step : -4 * step)});
    }
    CHECK(scaler.policy().counter() == 3);
  }
}

TEST_CASE(
    "gradients inside the optimizer are changed after unscale_, and another loss is scaled before "
    "the step") {
  GradScaler<> scaler(1024.0);
  Inline generator, discriminator;
  for (int step = 0; step < 3; ++step) {
    discriminator.grads = {scaler.scale(1.0F), scaler.scale(2.0F)};
    scaler.unscale_(discriminator);
    for (std::size_t i = 0; i < 2; ++i)
      discriminator.grads[i] = 100.0F * discriminator.grads[i] + discriminator.weights[i];
    generator.grads = {scaler.scale(1.0F), scaler.scale(1.0F)};  // another loss before the step
    CHECK_FALSE(scaler.step(discriminator).skipped);
    CHECK(scaler.step(generator).report.max_abs == 1.0);
    scaler.update();
  }
  CHECK(generator.weights == std::array<float, 2>{-3.0F, -3.0F});
}

TEST_CASE("optimizers are added to a vector during training, each with a spike guard") {
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
      optimizers[i].grads = {loss *
                             (step == 90 ? 1e4F : 1.0F + 0.01F * static_cast<float>(step % 3))};
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
