#pragma once

// A whole step of AdamW in one pass over the weights. It reads gradients of any dtype, still
// scaled, in blocks that headroom::for_each_block casts to float, and multiplies them as it reads
// them. Copy it and change it.
//
// The loop is plain C++. g++ 12 and clang 14 vectorise it with -O2 -fno-math-errno; without the
// latter std::sqrt may have to set errno. It needs no -march=native: there is a copy for AVX2 and
// one for AVX-512.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <headroom/kernel/isa.hpp>
#include <headroom/ops/for_each_block.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/tree/walk.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace fused {

/// With the names and defaults of torch.optim.AdamW.
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
};

/// Both moments of each parameter, and the number of steps taken.
struct AdamWState {
  std::vector<std::vector<float>> first, second;
  std::int64_t steps = 0;
};

/// The factors that all elements of a step share.
struct AdamWFactors {
  float beta1, rest1, beta2, rest2;  // rest: 1 - beta
  float decay;                       // 1 - lr * weight_decay
  float rate;                        // lr / (1 - beta1^t)
  float correction;                  // 1 / sqrt(1 - beta2^t)
  float eps;
  float gradient;  // the factor of the gradients

  AdamWFactors(const AdamWOptions& by, std::int64_t step, double factor = 1.0)
      : beta1(static_cast<float>(by.beta1)),
        rest1(static_cast<float>(1.0 - by.beta1)),
        beta2(static_cast<float>(by.beta2)),
        rest2(static_cast<float>(1.0 - by.beta2)),
        decay(static_cast<float>(1.0 - by.lr * by.weight_decay)),
        rate(static_cast<float>(by.lr / (1.0 - std::pow(by.beta1, static_cast<double>(step))))),
        correction(static_cast<float>(
            1.0 / std::sqrt(1.0 - std::pow(by.beta2, static_cast<double>(step))))),
        eps(static_cast<float>(by.eps)),
        gradient(static_cast<float>(factor)) {}
};

/// The loop over n elements: Loshchilov and Hutter, "Decoupled Weight Decay Regularization",
/// algorithm 2, as in torch.
[[gnu::always_inline]] inline void adamw_plain_loop(float* __restrict weights,
                                                    float* __restrict first,
                                                    float* __restrict second,
                                                    const float* __restrict gradients,
                                                    std::size_t n, const AdamWFactors& by) {
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = by.gradient * gradients[i];
    const float mean = by.beta1 * first[i] + by.rest1 * gradient;
    const float square = by.beta2 * second[i] + by.rest2 * gradient * gradient;
    first[i] = mean;
    second[i] = square;
    weights[i] =
        by.decay * weights[i] - by.rate * mean / (std::sqrt(square) * by.correction + by.eps);
  }
}

/// The same with prefetches. Roots and divisions fill the window of the processor, so it does not
/// look far enough ahead in memory by itself. A prefetch behind the end does no harm, but a pointer
/// must not point there: hence the integers.
[[gnu::always_inline]] inline void adamw_loop(float* weights, float* first, float* second,
                                              const float* gradients, std::size_t n,
                                              const AdamWFactors& by) {
  constexpr std::size_t stretch = 64, ahead = 512, line = 16;  // floats
  for (; n >= stretch; n -= stretch, weights += stretch, first += stretch, second += stretch,
                       gradients += stretch) {
    for (std::size_t i = ahead; i < ahead + stretch; i += line) {
      for (const float* each : {const_cast<const float*>(weights), const_cast<const float*>(first),
                                const_cast<const float*>(second), gradients}) {
        const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(each) + i * sizeof(float);
        __builtin_prefetch(reinterpret_cast<const void*>(at));
      }
    }
    adamw_plain_loop(weights, first, second, gradients, stretch, by);
  }
  adamw_plain_loop(weights, first, second, gradients, n, by);
}

// The same loop for AVX2 and AVX-512, also if the program is compiled for less.
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] inline void adamw_avx2(float* weights, float* first, float* second,
                                                   const float* gradients, std::size_t n,
                                                   const AdamWFactors& by) {
  adamw_loop(weights, first, second, gradients, n, by);
}
[[gnu::target("avx512f")]] inline void adamw_avx512(float* weights, float* first, float* second,
                                                    const float* gradients, std::size_t n,
                                                    const AdamWFactors& by) {
  adamw_loop(weights, first, second, gradients, n, by);
}
#endif
inline void adamw_block(float* weights, float* first, float* second, const float* gradients,
                        std::size_t n, const AdamWFactors& by) {
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
    fits = fits && leaf < weights.size() && weights[leaf].size() == size &&
           state.first[leaf].size() == size && state.second[leaf].size() == size;
    if (fits) ++leaf;
  });
  if (fits && leaf == weights.size()) return;
  throw std::invalid_argument("leaf " + std::to_string(leaf) +
                              ": weights, moments and gradients differ in number or size");
}

/// One step with `gradients`, a tree of any dtypes, times `factor`. The factor is the inverse loss
/// scale, times the clip factor if there is one, as in a GradientFactor. `weights[leaf]` are the
/// floats of the leaf with that number in the order of for_each_leaf: a std::vector<float>, a
/// headroom::span<float>, … The first step makes the moments. Throws std::invalid_argument before
/// anything is written if sizes differ.
///
/// Check first that the gradients are finite: `headroom::measure(gradients)` says so, and gives the
/// norm to clip by.
template <class Weights, class Gradients>
void adamw_step(Weights&& weights, const Gradients& gradients, AdamWState& state,
                const AdamWOptions& options, double factor) {
  if (state.steps == 0 && state.first.empty()) {
    for (const auto& each : weights) state.first.emplace_back(each.size());
    state.second = state.first;
  }
  check_sizes(weights, state, gradients);
  const AdamWFactors by(options, state.steps + 1, factor);
  headroom::for_each_block(
      gradients, [&](std::size_t leaf, std::size_t at, headroom::span<const float> block) {
        adamw_block(weights[leaf].data() + at, state.first[leaf].data() + at,
                    state.second[leaf].data() + at, block.data(), block.size(), by);
      });
  ++state.steps;
}

/// An optimizer for a GradScaler, which only measures the gradients and passes the factor.
template <class Gradients>
class AdamW {
 public:
  static constexpr bool takes_gradient_factor = true;

  AdamW(std::vector<std::vector<float>>& weights, Gradients& gradients,
        const AdamWOptions& options = {})
      : weights_(weights), gradients_(gradients), options_(options) {}

  Gradients& gradients() { return gradients_; }
  void step(headroom::GradientFactor factor) {
    adamw_step(weights_, gradients_, state_, options_, factor.value);
  }

 private:
  std::vector<std::vector<float>>& weights_;
  Gradients& gradients_;
  AdamWOptions options_;
  AdamWState state_;
};

}  // namespace fused
