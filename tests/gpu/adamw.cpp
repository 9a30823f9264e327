// examples/cuda/adamw.cuh on the CPU, by gpu/shim.
#include "../../examples/cuda/adamw.cuh"

#include <headroom/headroom.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"

// The kernel has no fma. Compilers make fma of the CPU's loop for AVX2 and AVX-512, unless:
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif
#include "../../examples/fused_adamw.hpp"
#if !defined(__clang__)
#pragma GCC pop_options
#endif

namespace {

using namespace headroom;

/// Zeros between other values. They begin at `before`, so tensors have several alignments.
template <class T>
struct Tensor {
  std::size_t before, n;
  std::vector<T> memory;

  Tensor(std::size_t begin, std::size_t size)
      : before(begin), n(size), memory(begin + size + 3, T(7.0F)) {
    for (std::size_t i = 0; i < n; ++i) set(i, 0.0F);
  }
  void set(std::size_t i, float value) { data()[i] = static_cast<T>(value); }
  T* data() { return memory.data() + before; }
  span<T> values() { return {data(), n}; }
  /// That the values are `expected`, and that nothing was written before and after them.
  bool holds(const std::vector<float>& expected) {
    Tensor wanted{before, n};
    for (std::size_t i = 0; i < n; ++i) wanted.set(i, expected[i]);
    return support::bits_of(wanted.memory) == support::bits_of(memory);
  }
};
template <class T, class Model>
struct Layer {
  std::size_t before, n;
  bool has_copy = true;
  Tensor<T> gradients{before, n};
  Tensor<Model> copy{before, n};
  Tensor<float> weights{before, n}, first{4, n}, second{4, n}, sums{4, n};
};

/// Twelve steps of both, with scaled gradients or with the sums of two micro-batches.
template <class... Layers>
void compare(bool are_scaled, Layers... layers) {
  std::mt19937 random(1);
  const auto uniform = [&] { return static_cast<float>(random() % 4096) / 2048.0F - 1.0F; };
  std::vector<std::vector<float>> weights;  // of the CPU
  fused::AdamWState state;
  std::vector<gpu::Gradient> list;
  std::vector<fused::gpu::Parameter> parameters;
  const auto add = [&](auto& l) {
    for (float& w : l.weights.values()) w = uniform();
    weights.emplace_back(l.weights.data(), l.weights.data() + l.n);
    list.emplace_back(l.gradients.data(), l.n, are_scaled ? nullptr : l.sums.data());
    // With the sums as the destination or as the gradient
    parameters.push_back(
        {are_scaled || l.has_copy ? list.back() : gpu::Gradient(l.sums.data(), l.n),
         l.weights.data(), l.first.data(), l.second.data()});
    if (l.has_copy) parameters.back().copy = {l.copy.data(), l.n};
  };
  (add(layers), ...);

  float lr = 0.0F;
  fused::gpu::AdamWOptions options;
  options.gradients_are_scaled = are_scaled;
  const fused::gpu::AdamW adamw(parameters, &lr, options);
  const gpu::Gradients gradients(list);
  gpu::Scaler<> scaler(DynamicLossScale({1024.0F, 3}));
  for (int step = 0; step < 12; ++step) {
    const bool overflows = step % 5 == 1, clips = step % 2 == 0;
    const float size = (overflows ? std::numeric_limits<float>::infinity() : *scaler.loss_scale()) *
                       (clips ? 0.5F : 1e-4F);
    const auto fill = [&](auto& l) {
      for (std::size_t i = 0; i < l.n; ++i) l.gradients.set(i, size * uniform());
    };
    const auto clear = [](auto& l) { std::fill_n(l.sums.data(), l.n, 0.0F); };
    (clear(layers), ...);
    for (int batch = 0; batch < (are_scaled ? 1 : 2); ++batch) {
      (fill(layers), ...);
      if (!are_scaled) scaler.accumulate(gradients, nullptr);
    }
    scaler.measure(gradients, nullptr);
    scaler.update(nullptr, 10.0);
    lr = 1e-2F / static_cast<float>(1 + step);
    const unsigned launches = shim::launches;
    adamw.step(scaler.step(), nullptr);
    CHECK(shim::launches == launches + 1);

    REQUIRE(scaler.step()->taken == !overflows);
    fused::AdamWOptions by;
    by.lr = static_cast<double>(lr);
    const auto step_of_cpu = [&](const auto& tree, double factor) {
      if (!overflows) fused::adamw_step(weights, tree, state, by, factor);
    };
    if (are_scaled) step_of_cpu(std::tuple(layers.gradients.values()...), scaler.step()->factor);
    if (!are_scaled) step_of_cpu(std::tuple(layers.sums.values()...), scaler.step()->clip);
    CHECK((overflows || (scaler.step()->clip < 1.0) == clips));
    std::size_t i = 0;
    const auto check = [&](auto& l) {
      INFO("step " << step << ", tensor " << i);
      CHECK(l.weights.holds(weights[i]));
      CHECK(l.first.holds(state.first[i]));
      CHECK(l.second.holds(state.second[i]));
      CHECK(l.copy.holds(l.has_copy ? weights[i] : std::vector<float>(l.n)));
      ++i;
    };
    (check(layers), ...);
  }
}

}  // namespace

TEST_CASE("gpu: AdamW in one launch has the bits of the CPU's") {
  support::for_each_isa([](Isa) {
    for (const bool are_scaled : {true, false})
      compare(are_scaled, Layer<half, half>{4, 16390}, Layer<bfloat16, bfloat16>{1, 1000},
              Layer<float, bfloat16>{4, 40000}, Layer<float, half>{4, 5, false},
              Layer<half, float>{8, 0}, Layer<double, half>{4, 777}, Layer<half, float>{2, 2051});
  });
}
