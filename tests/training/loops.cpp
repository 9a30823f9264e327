// Loops that users write. They run without an exception, and every gradient is divided once.
#include <headroom/observe/spike_guard.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <array>
#include <cstddef>
#include <vector>

#include "support/catch.hpp"
#include "support/optimizers.hpp"

using headroom::GradScaler;
using namespace support;

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
    std::vector<Weights> layers(5);
    for (int step = 1; step <= 3; ++step) {
      const float loss = scaler.scale(1.0F);
      for (Weights& layer : layers) layer = {4.0F * loss};
      for (Weights& layer : layers) {
        Owner<Weights&> adapter{layer};
        if (unscales) scaler.unscale_and_clip_(adapter, 1.0);
        CHECK(scaler.step(adapter).value == 1);
        CHECK(layer == Weights{unscales ? 1.0F : 4.0F});
      }
      scaler.update();
    }
    CHECK(scaler.policy().counter() == 3);
  }
}

TEST_CASE("gradients in the optimizer change after unscale_, before another loss is scaled") {
  GradScaler<> scaler(1024.0);
  Owner generator{std::array<float, 2>()}, discriminator = generator;
  for (int step = 1; step <= 3; ++step) {
    discriminator.grads = {scaler.scale(1.0F), scaler.scale(2.0F)};
    scaler.unscale_(discriminator);
    for (float& grad : discriminator.grads) grad *= 100.0F;
    generator.grads = {scaler.scale(1.0F), scaler.scale(1.0F)};  // another loss before the step
    CHECK(scaler.step(discriminator).value == step);
    CHECK(discriminator.grads == std::array{100.0F, 200.0F});
    CHECK(scaler.step(generator).report.max_abs == 1.0);
    CHECK(generator.grads == std::array{1.0F, 1.0F});
    scaler.update();
  }
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
