#pragma once

// A step of AdamW for a list of tensors in one launch: examples/fused_adamw.hpp for a GPU. It
// unscales and clips the gradients as it reads them, and does nothing if the step is skipped. Copy
// it and change it. The results have the bits of that loop without fma, unless CUDA's pow differs
// in the last bit of a double from the host's. -use_fast_math changes the root.

#include <headroom/gpu.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace fused::gpu {
namespace d = headroom::gpu::detail;

/// With the names and defaults of torch.optim.AdamW.
struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
  /// false: read what `unscale` or `accumulate` wrote, also to destinations
  bool gradients_are_scaled = true;
};
/// Tensors in the memory of the device, all of the gradient's size. The moments begin with zeros.
struct Parameter {
  headroom::gpu::Gradient gradient;
  float *weights, *first_moment, *second_moment;
  /// Of the weights, for the model; if any
  headroom::gpu::Gradient copy = {nullptr, 0, headroom::dtype_code::fp16};
};
/// What one block of threads works on.
struct Chunk {
  Parameter of;
  std::size_t begin, end;
};
/// The factors that all elements of a step share.
struct Factors {
  float beta1, rest1, beta2, rest2, decay, rate, correction, eps, gradient;
};
__device__ inline Factors factors_of(const headroom::gpu::Step& step, double lr,
                                     const AdamWOptions& by) {
  const auto f = [](double value) { return static_cast<float>(value); };
  const auto t = static_cast<double>(step.count);
  return {f(by.beta1),
          f(1.0 - by.beta1),
          f(by.beta2),
          f(1.0 - by.beta2),
          f(d::add(1.0, -d::mul(lr, by.weight_decay))),
          f(lr / (1.0 - pow(by.beta1, t))),
          f(1.0 / sqrt(1.0 - pow(by.beta2, t))),
          f(by.eps),
          f(by.gradients_are_scaled ? step.factor : step.clip)};
}
/// What a thread loads and stores at once.
template <class T, unsigned lanes>
struct alignas(lanes * sizeof(T)) Pack {
  T lane[lanes];
  __device__ static Pack& at(void* tensor, std::size_t i) {
    return *reinterpret_cast<Pack*>(static_cast<T*>(tensor) + i);
  }
};
/// Elements from `begin` to `end`, `lanes` at once. d::mul and d::add are not contracted to fma.
template <class G, class C, unsigned lanes>
__device__ void update(const Parameter& of, const Factors& by, std::size_t begin, std::size_t end) {
  using Floats = Pack<float, lanes>;
  for (std::size_t i = begin + threadIdx.x * lanes; i < end; i += d::threads * lanes) {
    Floats w = Floats::at(of.weights, i), m = Floats::at(of.first_moment, i),
           v = Floats::at(of.second_moment, i);
    const auto g = Pack<d::bits_of<G>, lanes>::at(of.gradient.data, i);
    Pack<d::bits_of<C>, lanes> copy;
    for (unsigned l = 0; l < lanes; ++l) {
      const float gradient = d::mul(
          by.gradient, __uint_as_float(d::narrow<headroom::binary32>(d::widen<G>(g.lane[l]))));
      m.lane[l] = d::add(d::mul(by.beta1, m.lane[l]), d::mul(by.rest1, gradient));
      v.lane[l] = d::add(d::mul(by.beta2, v.lane[l]), d::mul(d::mul(by.rest2, gradient), gradient));
      const float divisor = d::add(d::mul(sqrtf(v.lane[l]), by.correction), by.eps);
      w.lane[l] = d::add(d::mul(by.decay, w.lane[l]), -d::div(d::mul(by.rate, m.lane[l]), divisor));
      copy.lane[l] = d::narrow<C>(w.lane[l]);
    }
    Floats::at(of.weights, i) = w;
    Floats::at(of.first_moment, i) = m;
    Floats::at(of.second_moment, i) = v;
    if (of.copy.data != nullptr) Pack<d::bits_of<C>, lanes>::at(of.copy.data, i) = copy;
  }
}
template <class = void>
__global__ void __launch_bounds__(d::threads)
    adamw_kernel(const Chunk* chunks, const headroom::gpu::Step* step, const float* lr,
                 AdamWOptions options) {
  __shared__ Factors by;
  if (!step->taken) return;
  const Parameter of = chunks[blockIdx.x].of;
  const std::size_t begin = chunks[blockIdx.x].begin, end = chunks[blockIdx.x].end;
  if (threadIdx.x == 0) by = factors_of(*step, static_cast<double>(*lr), options);
  __syncthreads();
  d::with_format(of.gradient.dtype, [&](auto g) {
    d::with_format(of.copy.dtype, [&](auto c) {
      constexpr unsigned lanes = 4;  // 16 bytes of floats
      const auto fits = [](void* p, std::size_t each) {
        return reinterpret_cast<std::uintptr_t>(p) % (lanes * each) == 0;
      };
      const bool is_aligned = fits(of.weights, 4) && fits(of.first_moment, 4) &&
                              fits(of.second_moment, 4) &&
                              fits(of.gradient.data, sizeof(d::bits_of<decltype(g)>)) &&
                              fits(of.copy.data, sizeof(d::bits_of<decltype(c)>));
      const std::size_t whole = is_aligned ? end - end % lanes : begin;
      update<decltype(g), decltype(c), lanes>(of, by, begin, whole);
      update<decltype(g), decltype(c), 1>(of, by, whole, end);
    });
  });
}
/// Of parameters whose addresses stay the same while it lives, and while a graph uses it.
class AdamW {
 public:
  /// `lr` is on the device: your kernel may change it before any step. Waits for the device.
  AdamW(const std::vector<Parameter>& parameters, const float* lr, const AdamWOptions& by = {})
      : lr_(lr), by_(by) {
    std::vector<Chunk> chunks;
    for (Parameter of : parameters) {
      if (!by.gradients_are_scaled && of.gradient.destination != nullptr)
        of.gradient = {of.gradient.destination, of.gradient.size};
      for (std::size_t at = 0; at < of.gradient.size; at += 16384)
        chunks.push_back({of, at, std::min(at + 16384, of.gradient.size)});
    }
    n_chunks_ = static_cast<unsigned>(chunks.size());
    chunks_ = d::copied(chunks.size(), chunks.data());
    d::load(adamw_kernel<>);
  }
  /// After the `update` that writes this step. One launch.
  void step(const headroom::gpu::Step* step, cudaStream_t stream) const {
    d::launch("adamw_kernel", adamw_kernel<>, n_chunks_, d::threads, stream, chunks_.get(), step,
              lr_, by_);
  }

 private:
  const float* lr_;
  AdamWOptions by_;
  unsigned n_chunks_ = 0;
  d::Memory<Chunk> chunks_;
};
}  // namespace fused::gpu
