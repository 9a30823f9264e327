#pragma once

#include <headroom/adapters/cuda.hpp>
#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/quantize/rules.hpp>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu {
/// headroom::TensorScales in the memory of a GPU: codes, scales and histories have the CPU's bits. A step is `quantize`,
/// kernels that read the codes and inverse_scales(), `update`. A graph may capture both. If .cpp files use it, a .cu file that
/// is compiled with the same -m flags has the line `template class headroom::gpu::TensorScales<headroom::float8_e4m3>;`.
template <class To, class Rule = DelayedScaling>
class TensorScales {
  using Format = hd::format_of<To>;
  static_assert(std::is_same_v<Format, e4m3> || std::is_same_v<Format, e5m2>, "headroom: To is float8_e4m3 or float8_e5m2");

 public:
  /// Any tensor whose address and size stay the same. Gradient::destination is not used.
  struct Tensor : Gradient {
    To* codes;  ///< the first of as many, in the memory of the device
  };
  /// Waits for the device. Throws std::invalid_argument if a dtype or a setting of the rule is not allowed.
  explicit TensorScales(const std::vector<Tensor>& tensors, const Rule& rule = {}) : rule_(rule), n_(tensors.size()) {
    rule.check();
    if constexpr (!Rule::is_current) capacity_ = static_cast<std::size_t>(rule.history);
    std::vector<float> start(n_ * (4 + capacity_));
    std::vector<detail::Group> parts;  // `first` is the index of the tensor, `count` 1 for its first part
    for (std::size_t i = 0; i < n_; ++i) {
      const Tensor& t = tensors[i];
      if (const int index = hd::dtype_index(t.dtype); index < 0 || index > 3)
        hd::throw_invalid_argument({"tensors[", std::to_string(i), "].dtype is none of fp16, bf16, fp32 and fp64"});
      auto* const to = reinterpret_cast<unsigned char*>(t.codes);
      const detail::Part all{static_cast<unsigned char*>(t.data), to, t.size, t.dtype, dtype_code::fp8_e4m3};
      for (std::size_t at = 0, most = detail::chunk_size / 4; at == 0 || at < t.size; at += most)
        parts.push_back({all.cut(at, most), static_cast<unsigned>(i), at == 0 ? 1U : 0U});
      start[i] = start[n_ + i] = 1.0F;
    }
    parts_ = detail::copied(n_parts_ = parts.size(), parts.data());
    state_ = detail::copied(start.size(), start.data());
  }
  /// Writes the codes: an element times the scale, rounded once, saturated; NaN stays NaN. One launch, which also finds the
  /// largest magnitudes since `update`. Three launches with a current rule: the first two find the magnitudes and the scales.
  void quantize(cudaStream_t stream);
  /// Ends a step: computes the next scales. One launch. No effect with a current rule.
  void update(cudaStream_t stream);
  // On the device: a number for each tensor, at addresses that stay the same while the object lives, even if it is moved.
  [[nodiscard]] const float* scales() const { return state_.get(); }  ///< of the next `quantize`; of a current rule's last
  [[nodiscard]] const float* inverse_scales() const { return state_.get() + n_; }  ///< of the last `quantize`
  [[nodiscard]] float* max_abs() const { return state_.get() + 2 * n_; }  ///< for ranks: make it the largest before `update`
  /// All that changes. For checkpoints, copy it to the host, and back to scales of as many tensors with the same rule.
  [[nodiscard]] span<float> state() const { return {state_.get(), n_ * (4 + capacity_)}; }

 private:
  Rule rule_;
  std::size_t n_, capacity_ = 0, n_parts_ = 0;
  detail::Memory<detail::Group> parts_;
  detail::Memory<float> state_;  // rows of n_: scales, inverse scales, max_abs, place of the oldest amax, history
};
#if defined(__CUDACC__)
namespace detail {
template <class From, class Fp8>
__device__ std::uint8_t to_fp8(bits_of<From> bits, float scale) {
  if ((bits & From::abs_mask) >= From::smallest_nan_bits) return hd::convert_bits<From, Fp8>(bits);  // keeps the sign
  const auto value = mul(widen<From>(bits), widen<binary32, compute_of<From>>(__float_as_uint(scale)));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t two = 0;  // 0 and the value
  const auto single = static_cast<float>(value);
  if constexpr (std::is_same_v<Fp8, e4m3>) asm("cvt.rn.satfinite.e4m3x2.f32 %0, 0f00000000, %1;" : "=h"(two) : "f"(single));
  if constexpr (std::is_same_v<Fp8, e5m2>) asm("cvt.rn.satfinite.e5m2x2.f32 %0, 0f00000000, %1;" : "=h"(two) : "f"(single));
  if constexpr (!std::is_same_v<From, binary64>) return static_cast<std::uint8_t>(two);
#endif
  return narrow<hd::saturating<Fp8>>(value);
}
template <class Fp8, bool writes>
__global__ void __launch_bounds__(few_threads, 16) quantize_kernel(const Group* parts, float* state, std::size_t n) {
  const Part part = parts[blockIdx.x].part;
  float* const own = state + parts[blockIdx.x].first;
  unsigned mine = 0;
  with_format(part.from, [&, scale = own[0]](auto format) {
    using From = decltype(format);
    using Bits = bits_of<From>;
    constexpr unsigned lanes = 16 / sizeof(Bits);
    const auto* const source = reinterpret_cast<const Bits*>(part.source);
    const auto from = reinterpret_cast<std::uintptr_t>(source), to = reinterpret_cast<std::uintptr_t>(part.destination);
    const bool is_aligned = (from | to * sizeof(Bits)) % 16 == 0;
    Bits largest = 0;
    for (unsigned at = threadIdx.x * lanes; at < part.size; at += few_threads * lanes) {
      const auto left = static_cast<unsigned>(part.size) - at;
      const auto in = Pack<From, lanes>::load(source + at, left, is_aligned);
      Pack<Fp8, lanes> out;
      for (unsigned l = 0; l < lanes; ++l) {
        largest = hd::larger_of(largest, static_cast<Bits>(in.lane[l] & From::abs_mask));
        if (writes) out.lane[l] = to_fp8<From, Fp8>(in.lane[l], scale);
      }
      if (writes) out.store(part.destination + at, left, is_aligned);
    }
    const bool is_finite = largest <= From::largest_finite_bits;  // floats >= 0 order as their bits do
    mine = is_finite ? hd::convert_bits<From, binary32>(largest) : binary32::infinity_bits;
  });
  const unsigned of_block = block_max(mine);
  if (threadIdx.x != 0) return;
  atomicMax(reinterpret_cast<unsigned*>(own + 2 * n), of_block);
  if (writes && parts[blockIdx.x].count == 1)
    own[n] = hd::saturated_float(hd::quotient_bits(1.0, hd::widened(hd::magnitude_bits(own[0]))));
}
/// As ScaleState. The history is full from the start, of zeros, which count as no amax. Neighbouring threads read neighbours.
struct DeviceScaleState {
  float scale;
  struct {
    float* slots;
    std::size_t stride, count, oldest;
    __device__ std::size_t size() const { return count; }
    __device__ std::size_t begin() const { return oldest; }
    __device__ void erase(std::size_t) { --count; }
    __device__ void push_back(float amax) { slots[oldest * stride] = amax, oldest = oldest + 1 == ++count ? 0 : oldest + 1; }
    __device__ float operator[](std::size_t i) const { return slots[i * stride]; }
  } history;
};
template <class Rule>
__global__ void update_scales_kernel(Rule rule, float* state, std::size_t n, std::size_t capacity, float fp8_max) {
  float* const own = state + blockIdx.x * 32 + threadIdx.x;
  if (own >= state + n) return;
  DeviceScaleState tensor{own[0], {own + 4 * n, n, capacity, static_cast<std::size_t>(own[3 * n])}};
  rule.update(tensor, own[2 * n], fp8_max);
  own[0] = hd::bit_cast<std::uint32_t>(tensor.scale) - 1 < binary32::infinity_bits - 1 ? tensor.scale : 1.0F;
  own[3 * n] = static_cast<float>(tensor.history.oldest);
  if (!Rule::is_current) own[2 * n] = 0.0F;
}
}  // namespace detail

template <class To, class Rule>
void TensorScales<To, Rule>::update(cudaStream_t stream) {
  detail::launch("update", detail::update_scales_kernel<Rule>, static_cast<unsigned>((n_ + 31) / 32), 32, stream, rule_,
                 state_.get(), n_, capacity_, std::is_same_v<Format, e4m3> ? 448.0F : 57344.0F);
}
template <class To, class Rule>
void TensorScales<To, Rule>::quantize(cudaStream_t stream) {
  const auto run = [&](auto* kernel) {
    detail::launch("quantize", kernel, static_cast<unsigned>(n_parts_), detail::few_threads, stream, parts_.get(), state_.get(),
                   n_);
  };
  if (Rule::is_current && n_ != 0) {
    detail::check("cudaMemsetAsync", cudaMemsetAsync(max_abs(), 0, n_ * sizeof(float), stream));
    run(&detail::quantize_kernel<Format, false>);
    update(stream);
  }
  run(&detail::quantize_kernel<Format, true>);
}
#endif
}  // namespace gpu
HEADROOM_DETAIL_END_NAMESPACE
