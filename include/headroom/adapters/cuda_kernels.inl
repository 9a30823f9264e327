// The kernels of adapters/cuda.hpp, and what launches them.

#include <cuda_fp16.h>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// ---- arithmetic that no flag changes: -use_fast_math, -ftz=true, -prec-div=false, -fmad ----

#if defined(__CUDA_ARCH__)
#define HEADROOM_DETAIL_ROUNDED(name, sign, ptx, in_double)  \
  __device__ inline float name(float a, float b) {           \
    float result;                                            \
    asm(ptx " %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b)); \
    return result;                                           \
  }                                                          \
  __device__ inline double name(double a, double b) { return in_double(a, b); }
__device__ inline float fma(float a, float b, float c) {
  float result;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}
__device__ inline double to_double(float value) {  // -ftz=true would make a cast of a subnormal 0
  double result;
  asm("cvt.f64.f32 %0, %1;" : "=d"(result) : "f"(value));
  return result;
}
#else  // nvcc parses it for the host, which never calls it
#define HEADROOM_DETAIL_ROUNDED(name, sign, ptx, in_double) \
  template <class T>                                        \
  __device__ T name(T a, T b) {                             \
    return hd::hide_from_optimizer(a sign b);               \
  }
__device__ inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__device__ inline double to_double(float value) { return static_cast<double>(value); }
#endif
__device__ inline double to_double(double value) { return value; }
HEADROOM_DETAIL_ROUNDED(mul, *, "mul.rn.f32", __dmul_rn)
HEADROOM_DETAIL_ROUNDED(add, +, "add.rn.f32", __dadd_rn)
HEADROOM_DETAIL_ROUNDED(div, /, "div.rn.f32", __ddiv_rn)
#undef HEADROOM_DETAIL_ROUNDED

// ---- elements ----

template <class Format>
using bits_of = typename Format::bits_type;
template <class Format>
using compute_of = std::conditional_t<std::is_same_v<Format, binary64>, double, float>;

template <class Format, class Compute = compute_of<Format>>
__device__ Compute widen(bits_of<Format> bits) {
  if constexpr (std::is_same_v<Format, binary16>) {
    return __half2float(__ushort_as_half(bits));
  } else if constexpr (std::is_same_v<Format, brain16>) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
  } else if constexpr (sizeof(Compute) > sizeof bits) {
    return to_double(hd::bit_cast<float>(bits));
  } else {
    return hd::bit_cast<Compute>(bits);
  }
}
/// Rounds to nearest-even, as headroom's kernels do. A NaN may get another payload.
template <class Format, class Compute>
__device__ bits_of<Format> narrow(Compute value) {
  using From = std::conditional_t<std::is_same_v<Compute, double>, binary64, binary32>;
  if constexpr (std::is_same_v<From, binary32> && std::is_same_v<Format, binary16>) {
    return __half_as_ushort(__float2half_rn(value));
  } else if constexpr (std::is_same_v<From, binary32> && std::is_same_v<Format, brain16>) {
    const unsigned bits = __float_as_uint(value), rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
    const bool is_nan = (bits & binary32::abs_mask) > binary32::infinity_bits;
    return static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16);
  } else {
    return hd::convert_bits<From, Format>(hd::bit_cast<bits_of<From>>(value));
  }
}

/// Elements that one thread loads at once.
template <class Format, unsigned lanes>
struct alignas(lanes * sizeof(bits_of<Format>)) Pack {
  bits_of<Format> lane[lanes];

  /// Whether a part consists of whole packs.
  static __device__ bool divides(const bits_of<Format>* first, unsigned size) {
    return size == square_block && reinterpret_cast<std::uintptr_t>(first) % sizeof(Pack) == 0;
  }
  /// `left` elements exist; zeros beyond.
  static __device__ Pack load(const bits_of<Format>* from, unsigned left = lanes, bool is_whole = true) {
    if (is_whole) return *reinterpret_cast<const Pack*>(from);
    Pack result{};
    for (unsigned l = 0; l < lanes; ++l) result.lane[l] = l < left ? from[l] : bits_of<Format>{0};
    return result;
  }
  __device__ void store(bits_of<Format>* to, unsigned left = lanes, bool is_whole = true) const {
    if (is_whole) return (void)(*reinterpret_cast<Pack*>(to) = *this);
    for (unsigned l = 0; l < lanes && l < left; ++l) to[l] = lane[l];
  }
};
/// The largest of a warp.
template <class Bits>
__device__ Bits warp_max(Bits value) {
  for (int step = 16; step > 0; step /= 2)
    value = hd::larger_of(value, static_cast<Bits>(__shfl_xor_sync(0xFFFFFFFFU, value, step)));
  return value;
}

/// The bits of a double, which order as magnitudes do. Inf stands for NaN, too.
template <class Format>
__device__ unsigned long long double_bits(bits_of<Format> magnitude) {
  return magnitude > Format::largest_finite_bits ? binary64::infinity_bits : hd::convert_bits<Format, binary64>(magnitude);
}
/// Called by all threads of a warp, each with its largest magnitude. The order of the atomics does not change a maximum.
__device__ inline void add_largest(unsigned long long mine, double divisor, Iteration* now) {
  unsigned long long bits = warp_max(mine);
  if (threadIdx.x % 32 != 0) return;
  if (bits < binary64::infinity_bits)
    bits = hd::bit_cast<std::uint64_t>(div(hd::bit_cast<double>(std::uint64_t{bits}), divisor));
  if (bits > *static_cast<volatile unsigned long long*>(&now->largest)) atomicMax(&now->largest, bits);
}
/// What measured gradients are to be divided by.
__device__ inline double divisor_of(const Iteration* now, bool carries_scale) {
  return carries_scale ? to_double(now->loss_scale) : 1.0;
}

__device__ inline Part part_of(const Group& group, const Part* parts, unsigned i) {
  return group.part.size == 0 ? parts[group.first + i] : group.part.cut(std::size_t{i} * square_block, square_block);
}
/// Calls f(format) with the format of a dtype.
template <class F>
__device__ void with_format(dtype_code dtype, const F& f) {
  if (dtype == dtype_code::fp16) return f(binary16());
  if (dtype == dtype_code::bf16) return f(brain16());
  if (dtype == dtype_code::fp32) return f(binary32());
  f(binary64());
}

// ---- unscale ----

/// One part, by a warp. Returns the largest magnitude of this thread's results; of its addends, if it adds.
template <class From, class To, bool adds>
__device__ unsigned long long unscale_part(const Part& part, float loss_scale) {
  using Compute = compute_of<From>;
  constexpr bool is_double = std::is_same_v<From, binary64>;
  using Reported = std::conditional_t<!adds, To, std::conditional_t<is_double, binary64, binary32>>;
  constexpr unsigned widest = sizeof(bits_of<From>) > sizeof(bits_of<To>) ? sizeof(bits_of<From>) : sizeof(bits_of<To>);
  constexpr unsigned lanes = 16 / widest, at_once = is_double ? 2 : square_block / (32 * lanes);  // of Packs, without spills
  using In = Pack<From, lanes>;
  using Out = Pack<To, lanes>;
  const auto scale = widen<binary32, Compute>(__float_as_uint(loss_scale));
  const bool is_exact = hd::is_power_of_two(loss_scale);  // then so is the reciprocal
  const Compute inverse = is_exact ? div(Compute{1}, scale) : Compute{0};
  const auto* const source = reinterpret_cast<const bits_of<From>*>(part.source);
  auto* const destination = reinterpret_cast<bits_of<To>*>(part.destination);
  const auto size = static_cast<unsigned>(part.size);
  bits_of<Reported> largest = 0;
  const auto unscaled = [&](bits_of<From> bits, [[maybe_unused]] bits_of<To> old) {
    const Compute scaled = widen<From>(bits), value = is_exact ? mul(scaled, inverse) : div(scaled, scale);
    const auto rounded = narrow<Reported>(value);
    largest = hd::larger_of(largest, static_cast<bits_of<Reported>>(rounded & Reported::abs_mask));
    if constexpr (adds) return narrow<To>(add(widen<To, Compute>(old), value));
    if constexpr (!adds) return rounded;
  };
  const unsigned lane = threadIdx.x % 32;
  const bool is_whole = In::divides(source, size) && Out::divides(destination, size);
  for (unsigned i = lane; !is_whole && i < size; i += 32)
    destination[i] = unscaled(source[i], adds ? destination[i] : bits_of<To>{0});
  for (unsigned first = lane * lanes; is_whole && first < square_block; first += 32 * lanes * at_once) {
    In in[at_once];
    Out out[at_once] = {};
#pragma unroll
    for (unsigned i = 0; i < at_once; ++i) {
      in[i] = In::load(source + first + 32 * lanes * i);
      if (adds) out[i] = Out::load(destination + first + 32 * lanes * i);
    }
#pragma unroll
    for (unsigned i = 0; i < at_once; ++i) {
#pragma unroll
      for (unsigned l = 0; l < lanes; ++l) out[i].lane[l] = unscaled(in[i].lane[l], out[i].lane[l]);
      out[i].store(destination + first + 32 * lanes * i);
    }
  }
  return double_bits<Reported>(largest);
}
template <bool adds>
__global__ void __launch_bounds__(threads, 2) unscale_kernel(List list, Iteration* now) {
  const Group group = list.groups[blockIdx.x];
  const float scale = now->loss_scale;
  with_format(group.part.from, [&](auto format) {
    using From = decltype(format);
    unsigned long long largest = 0;
    for (unsigned i = threadIdx.x / 32; i < group.count; i += warps) {
      const Part part = part_of(group, list.parts, i);
      if (adds || part.to != part.from) largest = hd::larger_of(largest, unscale_part<From, binary32, adds>(part, scale));
      if (!adds && part.to == part.from) largest = hd::larger_of(largest, unscale_part<From, From, false>(part, scale));
    }
    add_largest(largest, 1.0, now);
  });
}

// ---- measure: kernel/measure.inl, with two of its 64 sums in each thread of a warp ----

inline constexpr int least_exponent = -40, most_exponent = 60, up_exponent = 101, down_exponent = -70;

template <class Format, class Compute>
__device__ Compute plus_square(Compute sum, Compute value) {
  if constexpr (2 * (Format::mantissa_bits + 1) <= binary32::mantissa_bits + 1) {
    return fma(value, value, sum);  // the square is exact
  } else {
    return add(sum, mul(value, value));
  }
}
/// Adds to each thread's value those of the threads `first`, first / 2, … `last` after it.
template <class Compute>
__device__ void fold(Compute& value, int first, int last) {
  for (int step = first; step >= last; step /= 2)
    value = add(value, static_cast<Compute>(__shfl_down_sync(0xFFFFFFFFU, value, step)));
}
/// One part, by a warp. `sums` gets its 16 sums, or 0 and the sum of all rescaled squares behind them. Returns the largest
/// magnitude of this thread's elements.
template <class Format>
__device__ unsigned long long measure_part(const Part& part, double* sums) {
  using Compute = compute_of<Format>;
  using Bits = bits_of<Format>;
  const unsigned lane = threadIdx.x % 32;
  const auto* const source = reinterpret_cast<const Bits*>(part.source);
  const auto size = static_cast<unsigned>(part.size);
  const bool is_whole = Pack<Format, 2>::divides(source, size);
  Pack<Format, 2> pairs[square_block / 64];
  Bits largest = 0;
#pragma unroll
  for (unsigned k = 0; k < square_block / 64; ++k) {
    const unsigned at = 64 * k + 2 * lane;
    pairs[k] = Pack<Format, 2>::load(source + at, at < size ? size - at : 0, is_whole);
    for (const Bits bits : pairs[k].lane) largest = hd::larger_of(largest, static_cast<Bits>(bits & Format::abs_mask));
  }
  int exponent = 0;
  if constexpr (std::is_same_v<Format, brain16> || std::is_same_v<Format, binary32>) {
    constexpr auto power = [](int e) { return static_cast<Bits>((e + Format::bias) << Format::mantissa_bits); };
    constexpr Bits most = power(most_exponent), least = power(least_exponent);
    const auto of_part = static_cast<Bits>(warp_max(static_cast<unsigned>(largest)));
    exponent = of_part > most ? down_exponent : of_part != 0 && of_part <= least ? up_exponent : 0;
  }
  const auto power = static_cast<Compute>(hd::power_of_two(exponent));
  Compute even = 0, odd = 0;
#pragma unroll
  for (unsigned k = 0; k < square_block / 64; ++k) {
    Compute a = widen<Format>(pairs[k].lane[0]), b = widen<Format>(pairs[k].lane[1]);
    if (exponent != 0) a = mul(a, power), b = mul(b, power);
    even = plus_square<Format>(even, a);
    odd = plus_square<Format>(odd, b);
  }
  fold(even, 16, 8);  // sum i + 32 to sum i, then i + 16 to i
  fold(odd, 16, 8);
  double low = to_double(even), high = to_double(odd), rescaled = 0.0;
  if (exponent != 0) {  // in the whole warp
    fold(low, 4, 1);
    fold(high, 4, 1);
    rescaled = mul(add(low, high), hd::bit_cast<double>(static_cast<std::uint64_t>(binary64::bias - 2 * exponent) << 52));
    low = high = 0.0;
  }
  if (lane < 8) sums[2 * lane] = low, sums[2 * lane + 1] = high;
  if (lane == 0) sums[16] = rescaled;
  return double_bits<Format>(largest);
}
template <class = void>
__global__ void __launch_bounds__(threads) measure_kernel(List list, bool carries_scale, Iteration* now) {
  constexpr unsigned batch = chunk_size / square_block;
  __shared__ double memory[batch][17];
  double(*const of_parts)[17] = memory;  // g++ 12 takes an array that only a lambda uses for unused
  const Group group = list.groups[blockIdx.x];
  unsigned long long largest = 0;
  double sum = 0.0;  // of thread t < 16: sum t; of thread 16: the rescaled one
  for (unsigned first = 0; first < group.count; first += batch) {
    const unsigned n = hd::smaller_of(group.count - first, batch);
    for (unsigned i = threadIdx.x / 32; i < n; i += warps) {
      Part part = part_of(group, list.parts, first + i);
      if (!carries_scale) part.source = part.destination, part.from = part.to;
      with_format(part.from,
                  [&](auto format) { largest = hd::larger_of(largest, measure_part<decltype(format)>(part, of_parts[i])); });
    }
    __syncthreads();
    if (threadIdx.x < 17) {
      for (unsigned i = 0; i < n; ++i) sum = add(sum, of_parts[i][threadIdx.x]);
    }
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    const double rescaled = __shfl_sync(0xFFFFFFFFU, sum, 16);
    fold(sum, 8, 1);
    if (threadIdx.x == 0) list.sums[blockIdx.x] = add(sum, rescaled);
  }
  add_largest(largest, divisor_of(now, carries_scale), now);
}

// ---- the decision ----

inline constexpr unsigned update_threads = 256;

/// The sum of the groups of a list, in the order of ops/run.hpp, by one block of threads.
__device__ inline double sum_of(const List& list) {
  const unsigned n = list.n_groups;
  __shared__ double partials[update_threads];
  double sum = 0.0;
  for (unsigned first = 0; first < n; first += update_threads * groups_per_sum) {
    const unsigned begin = first + threadIdx.x * groups_per_sum;
    const unsigned count = begin < n ? hd::smaller_of(n - begin, groups_per_sum) : 0;
    double partial = 0.0;
#pragma unroll 16
    for (unsigned i = 0; i < count; ++i) partial = add(partial, list.sums[begin + i]);
    partials[threadIdx.x] = partial;
    __syncthreads();
    for (unsigned k = 0; k < update_threads && first + k * groups_per_sum < n; ++k) sum = add(sum, partials[k]);
    __syncthreads();
  }
  return sum;
}
template <class = void>
__global__ void __launch_bounds__(update_threads) total_kernel(Iteration* now, List list, bool carries_scale, double replicas) {
  const double sum = sum_of(list);
  if (threadIdx.x != 0) return;
  const double divisor = divisor_of(now, carries_scale);
  now->sum_of_squares = div(add(now->sum_of_squares, div(div(sum, divisor), divisor)), replicas);
  if (now->inf_elsewhere != 0.0F) now->largest = binary64::infinity_bits;
}
template <class Policy>
__global__ void __launch_bounds__(update_threads)
    update_kernel(State<Policy>* state, List list, bool carries_scale, double max_norm) {
  const double sum = sum_of(list);
  if (threadIdx.x != 0) return;
  const Iteration now = state->now;
  const double divisor = divisor_of(&now, carries_scale);
  Snapshot<Policy>& snapshot = state->snapshot;
  GradientNorm& report = snapshot.report;
  // The norm of a single list has the bits of the CPU's.
  report.norm = now.sum_of_squares == 0.0 ? div(hd::square_root(sum), divisor)
                                          : hd::square_root(add(now.sum_of_squares, div(div(sum, divisor), divisor)));
  report.max_abs = hd::bit_cast<double>(std::uint64_t{now.largest});
  report.finite = now.largest < binary64::infinity_bits && now.inf_elsewhere == 0.0F &&
                  hd::bit_cast<std::uint64_t>(report.norm) < binary64::infinity_bits;
  if (!report.finite) report = hd::overflow();
  snapshot.loss_scale = now.loss_scale;
  snapshot.skipped = !report.finite;
  snapshot.steps += 1;
  snapshot.skips += report.finite ? 0 : 1;
  snapshot.policy = snapshot.policy.adjust(static_cast<const GradientReport&>(report));
  const double clip = hd::clip_factor(report, max_norm);
  state->step = {report.finite ? 0.0F : 1.0F,    report.finite, div(clip, to_double(now.loss_scale)), clip, now.loss_scale,
                 snapshot.steps - snapshot.skips};
  state->now = {snapshot.policy.loss_scale()};
}
__host__ __device__ inline GradientReport trial_report(unsigned i) {
  return i % 5 == 3 ? GradientReport{hd::overflow()} : GradientReport{true, 1e-7 * (1 + i * i % 17)};
}
/// Writes the scales after `n` trial reports.
template <class Policy>
__global__ void try_kernel(Policy policy, float* scales, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    policy = policy.adjust(trial_report(i));
    scales[i] = policy.loss_scale();
  }
}

template <class... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), unsigned blocks, unsigned threads_each, cudaStream_t stream,
            std::common_type_t<Parameters>... arguments) {
  if (blocks == 0) return;
  void* addresses[] = {&arguments...};
  check(name, cudaLaunchKernel(kernel, dim3(blocks), dim3(threads_each), addresses, 0, stream));
}

}  // namespace detail

template <class Policy>
void LossScale<Policy>::compare_with_host(const Policy& policy) {
  constexpr unsigned n = 40;
  std::vector<float> scales(n);
  const auto there = detail::copied(n, scales.data());
  detail::launch("try_kernel", detail::try_kernel<Policy>, 1, 1, nullptr, policy, there.get(), n);
  detail::check("cudaMemcpy", cudaMemcpy(scales.data(), there.get(), n * sizeof(float), cudaMemcpyDeviceToHost));
  Policy expected = policy;
  for (unsigned i = 0; i < n; ++i) {
    expected = expected.adjust(detail::trial_report(i));
    if (!(scales[i] == expected.loss_scale()))
      hd::throw_logic_error(
          {"the policy's adjust has another result on the device than on the host: write __host__ __device__ "
           "before it and before all that it calls"});
  }
}
template <class Policy>
void LossScale<Policy>::launch_measure(const Gradients& gradients, cudaStream_t stream, bool carries_scale) {
  if (measured_.n_groups != 0) total(stream);
  measured_ = gradients.list_;
  carries_scale_ = carries_scale;
  is_begun_ = is_measured_ = true;
  detail::launch("measure_kernel", detail::measure_kernel<>, measured_.n_groups, detail::threads, stream, measured_,
                 carries_scale, &state_->now);
}
template <class Policy>
void LossScale<Policy>::launch_unscale(const Gradients& gradients, cudaStream_t stream, bool adds) {
  is_begun_ = true;
  detail::launch("unscale_kernel", adds ? detail::unscale_kernel<true> : detail::unscale_kernel<false>,
                 gradients.list_.n_groups, detail::threads, stream, gradients.list_, &state_->now);
}
template <class Policy>
void LossScale<Policy>::total(cudaStream_t stream, int replicas) {
  hd::check_in("replicas", replicas, 1, std::numeric_limits<int>::max(), "1 or more");
  detail::launch("total_kernel", detail::total_kernel<>, 1, detail::update_threads, stream, &state_->now, measured_,
                 carries_scale_, static_cast<double>(replicas));
  measured_ = {};
}
template <class Policy>
void LossScale<Policy>::update(cudaStream_t stream, const double& max_norm) {
  hd::check_max_norm(max_norm);
  if (!is_begun_) hd::throw_logic_error({"update: no gradients were unscaled or measured since the last update"});
  if (!is_measured_ && !hd::is_infinite(max_norm))
    hd::throw_logic_error({"update: max_norm is ", hd::to_text(max_norm), ", but nothing was measured in this step"});
  detail::launch("update_kernel", detail::update_kernel<Policy>, 1, detail::update_threads, stream, state_.get(), measured_,
                 carries_scale_, max_norm);
  begin_step();
}

}  // namespace gpu
HEADROOM_DETAIL_END_NAMESPACE
