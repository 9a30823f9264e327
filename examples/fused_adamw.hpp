#pragma once

// A whole step of AdamW in one pass over the weights: gradients of any dtype, still scaled, are read in blocks that
// headroom::for_each_block widens, and multiplied on the way. To be copied and changed.
//
// The loop is plain C++, which g++ 12 and clang 14 vectorise with -O2 -fno-math-errno (without the latter std::sqrt may have to
// set errno). -march=native is not needed: there is a copy for each of the usual instruction sets of x86-64.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <headroom/kernel/isa.hpp>
#include <headroom/ops/for_each_block.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/tree/visit.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace fused {

/// With the names and defaults of torch.optim.AdamW.
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
};

/// Both moments of each parameter, and how many steps were taken.
struct AdamWState {
  std::vector<std::vector<float>> first, second;
  std::int64_t steps = 0;
};

/// What is the same for all elements of a step.
struct AdamWFactors {
  float beta1, rest1, beta2, rest2;  // rest: 1 - beta
  float decay;                       // 1 - lr * weight_decay
  float rate;                        // lr / (1 - beta1^t)
  float correction;                  // 1 / sqrt(1 - beta2^t)
  float eps;
  float gradient;  // what gradients are multiplied by

  AdamWFactors(const AdamWOptions& by, std::int64_t step, double factor = 1.0)
      : beta1(static_cast<float>(by.beta1)),
        rest1(static_cast<float>(1.0 - by.beta1)),
        beta2(static_cast<float>(by.beta2)),
        rest2(static_cast<float>(1.0 - by.beta2)),
        decay(static_cast<float>(1.0 - by.lr * by.weight_decay)),
        rate(static_cast<float>(by.lr / (1.0 - std::pow(by.beta1, static_cast<double>(step))))),
        correction(static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(by.beta2, static_cast<double>(step))))),
        eps(static_cast<float>(by.eps)),
        gradient(static_cast<float>(factor)) {}
};

/// The loop itself, over n elements. (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", algorithm 2, as in
/// torch.)
[[gnu::always_inline]] inline void adamw_plain_loop(float* __restrict weights, float* __restrict first,
                                                    float* __restrict second, const float* __restrict gradients, std::size_t n,
                                                    const AdamWFactors& by) {
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = by.gradient * gradients[i];
    const float mean = by.beta1 * first[i] + by.rest1 * gradient;
    const float square = by.beta2 * second[i] + by.rest2 * gradient * gradient;
    first[i] = mean;
    second[i] = square;
    weights[i] = by.decay * weights[i] - by.rate * mean / (std::sqrt(square) * by.correction + by.eps);
  }
}

/// The same, and what comes next is on its way from memory meanwhile: roots and divisions fill the processor up, so that by
/// itself it does not look far enough ahead. (Fetching what lies behind the end does no harm, but pointers must not go there.)
[[gnu::always_inline]] inline void adamw_loop(float* weights, float* first, float* second, const float* gradients,
                                              std::size_t n, const AdamWFactors& by) {
  constexpr std::size_t stretch = 64, ahead = 512, line = 16;  // floats
  for (; n >= stretch; n -= stretch, weights += stretch, first += stretch, second += stretch, gradients += stretch) {
    for (std::size_t i = ahead; i < ahead + stretch; i += line) {
      for (const float* each :
           {const_cast<const float*>(weights), const_cast<const float*>(first), const_cast<const float*>(second), gradients}) {
        const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(each) + i * sizeof(float);
        __builtin_prefetch(reinterpret_cast<const void*>(at));
      }
    }
    adamw_plain_loop(weights, first, second, gradients, stretch, by);
  }
  adamw_plain_loop(weights, first, second, gradients, n, by);
}

// The same loop for newer processors, whatever the rest of the program is compiled for. From memory all three are about as
// fast.
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] inline void adamw_avx2(float* weights, float* first, float* second, const float* gradients,
                                                   std::size_t n, const AdamWFactors& by) {
  adamw_loop(weights, first, second, gradients, n, by);
}
[[gnu::target("avx512f")]] inline void adamw_avx512(float* weights, float* first, float* second, const float* gradients,
                                                    std::size_t n, const AdamWFactors& by) {
  adamw_loop(weights, first, second, gradients, n, by);
}
#endif
inline void adamw_block(float* weights, float* first, float* second, const float* gradients, std::size_t n,
                        const AdamWFactors& by) {
#if defined(__x86_64__)
  const headroom::Isa isa = headroom::active_isa();
  if (isa == headroom::Isa::avx512) return adamw_avx512(weights, first, second, gradients, n, by);
  if (isa == headroom::Isa::avx2) return adamw_avx2(weights, first, second, gradients, n, by);
#endif
  adamw_loop(weights, first, second, gradients, n, by);
}

template <class Weights, class Gradients>
void check_sizes(const Weights& weights, const AdamWState& state, const Gradients& gradients) {
  std::size_t leaf = 0;
  bool fits = weights.size() == state.first.size() && weights.size() == state.second.size();
  headroom::for_each_leaf(gradients, [&](const auto& each) {
    const std::size_t size = headroom::element_count(each);
    fits = fits && leaf < weights.size() && weights[leaf].size() == size && state.first[leaf].size() == size &&
           state.second[leaf].size() == size;
    if (fits) ++leaf;
  });
  if (fits && leaf == weights.size()) return;
  throw std::invalid_argument("leaf " + std::to_string(leaf) + ": weights, moments and gradients differ in number or size");
}

/// One step with `gradients`, any tree of any dtypes, times `factor`: the inverse loss scale, times the clip factor if any, as
/// a GradientFactor has it. `weights[leaf]` are the floats that belong to a leaf of it, in the order of for_each_leaf: a
/// std::vector<float>, a headroom::span<float>, … In a new AdamWState moments are made. Throws std::invalid_argument before
/// anything is written if sizes differ.
///
/// Whether the gradients are finite has to be known by now: `headroom::measure(gradients)` says it, and the norm to clip by.
template <class Weights, class Gradients>
void adamw_step(Weights&& weights, const Gradients& gradients, AdamWState& state, const AdamWOptions& options, double factor) {
  if (state.steps == 0 && state.first.empty()) {
    for (const auto& each : weights) state.first.emplace_back(each.size());
    state.second = state.first;
  }
  check_sizes(weights, state, gradients);
  const AdamWFactors by(options, state.steps + 1, factor);
  headroom::for_each_block(gradients, [&](std::size_t leaf, std::size_t at, headroom::span<const float> block) {
    adamw_block(weights[leaf].data() + at, state.first[leaf].data() + at, state.second[leaf].data() + at, block.data(),
                block.size(), by);
  });
  ++state.steps;
}

/// For a GradScaler, which only measures the gradients and leaves the rest to the optimizer.
template <class Gradients>
class AdamW {
 public:
  static constexpr bool takes_gradient_factor = true;

  AdamW(std::vector<std::vector<float>>& weights, Gradients& gradients, const AdamWOptions& options = {})
      : weights_(weights), gradients_(gradients), options_(options) {}

  Gradients& gradients() { return gradients_; }
  void step(headroom::GradientFactor factor) { adamw_step(weights_, gradients_, state_, options_, factor.value); }

 private:
  std::vector<std::vector<float>>& weights_;
  Gradients& gradients_;
  AdamWOptions options_;
  AdamWState state_;
};

}  // namespace fused
