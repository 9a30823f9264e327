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

/// What a load brings. Elements of 16 bits are taken out later: to take them out is to wait for the load.
template <unsigned bytes>
struct alignas(bytes) Words {
  using Word = std::conditional_t<bytes == 2, std::uint16_t, std::uint32_t>;
  Word word[bytes / sizeof(Word)];
};
/// Elements that one thread loads at once.
template <class Format, unsigned lanes>
struct alignas(lanes * sizeof(bits_of<Format>)) Pack {
  using Raw = Words<lanes * sizeof(bits_of<Format>)>;
  bits_of<Format> lane[lanes];

  static __device__ bool is_aligned(const bits_of<Format>* first) {
    return reinterpret_cast<std::uintptr_t>(first) % sizeof(Pack) == 0;
  }
  static __device__ Raw raw(const bits_of<Format>* first) { return *reinterpret_cast<const Raw*>(first); }
  /// `left` elements exist; zeros beyond.
  static __device__ Pack load(const bits_of<Format>* from, unsigned left, bool is_aligned) {
    if (is_aligned && left >= lanes) return hd::bit_cast<Pack>(raw(from));
    Pack result{};
#pragma unroll
    for (unsigned l = 0; l < lanes; ++l) result.lane[l] = l < left ? from[l] : bits_of<Format>{0};
    return result;
  }
  __device__ void store(bits_of<Format>* to) const { *reinterpret_cast<Raw*>(to) = hd::bit_cast<Raw>(*this); }
  __device__ void store(bits_of<Format>* to, unsigned left, bool is_aligned) const {
    if (is_aligned && left >= lanes) return store(to);
#pragma unroll
    for (unsigned l = 0; l < lanes; ++l)
      if (l < left) to[l] = lane[l];
  }
};
/// The largest of a warp.
template <class Bits>
__device__ Bits warp_max(Bits value) {
  for (int step = 16; step > 0; step /= 2)
    value = hd::larger_of(value, static_cast<Bits>(__shfl_xor_sync(0xFFFFFFFFU, value, step)));
  return value;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline unsigned warp_max(unsigned value) { return __reduce_max_sync(0xFFFFFFFFU, value); }
#endif
/// The largest magnitude of a thread's elements. Bits of floating-point numbers >= 0 order as the numbers do, below those of
/// NaN.
struct Largest {
  unsigned narrow = 0;  // as a float
  unsigned long long of_doubles = 0;

  template <class Format>
  __device__ void add(bits_of<Format> magnitude) {
    if constexpr (std::is_same_v<Format, binary64>) of_doubles = hd::larger_of<unsigned long long>(of_doubles, magnitude);
    if constexpr (!std::is_same_v<Format, binary64>)
      narrow = hd::larger_of(narrow, hd::bit_cast<std::uint32_t>(widen<Format>(magnitude)));
  }
  /// Inf stands for NaN, too.
  __device__ unsigned long long double_bits() const {
    const bool is_finite = narrow < binary32::infinity_bits && of_doubles < binary64::infinity_bits;
    const std::uint64_t of_floats = hd::convert_bits<binary32, binary64>(narrow);
    return is_finite ? hd::larger_of<unsigned long long>(of_doubles, of_floats) : binary64::infinity_bits;
  }
};
/// The largest of a block, in its thread 0. Called once, by all threads.
template <class Bits>
__device__ Bits block_max(Bits value) {
  __shared__ Bits memory[32];
  Bits* const of_warps = memory;
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  return threadIdx.x < 32 ? warp_max(threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : Bits{0}) : value;
}
/// Called by all threads of a block, each with its largest magnitude. The order of the atomics does not change a maximum.
__device__ inline void add_largest(unsigned long long mine, double divisor, Iteration* now) {
  unsigned long long bits = block_max(mine);
  if (threadIdx.x != 0) return;
  if (bits < binary64::infinity_bits)
    bits = hd::bit_cast<std::uint64_t>(div(hd::bit_cast<double>(std::uint64_t{bits}), divisor));
  atomicMax(&now->largest, bits);
}
/// What measured gradients are to be divided by.
__device__ inline double divisor_of(const Iteration* now, bool carries_scale) {
  return carries_scale ? to_double(now->loss_scale) : 1.0;
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

/// What a warp does with one part.
template <class From, class To, bool adds>
struct Unscale {
  using Compute = compute_of<From>;
  static constexpr bool is_double = std::is_same_v<From, binary64>;
  using Reported = std::conditional_t<!adds, To, std::conditional_t<is_double, binary64, binary32>>;

  const bits_of<From>* source;
  bits_of<To>* destination;
  Compute scale, inverse;
  bool is_exact;                  // a power of two: then the reciprocal is exact, too
  bits_of<Reported> largest = 0;  // of this thread's results; of its addends, if it adds

  __device__ Unscale(const Part& part, float loss_scale)
      : source(reinterpret_cast<const bits_of<From>*>(part.source)),
        destination(reinterpret_cast<bits_of<To>*>(part.destination)),
        scale(widen<binary32, Compute>(hd::bit_cast<std::uint32_t>(loss_scale))),
        inverse(div(Compute{1}, scale)),
        is_exact(hd::is_power_of_two(loss_scale)) {}

  __device__ bits_of<To> unscaled(bits_of<From> bits, [[maybe_unused]] bits_of<To> old) {
    const Compute scaled = widen<From>(bits), value = is_exact ? mul(scaled, inverse) : div(scaled, scale);
    const auto rounded = narrow<Reported>(value);
    largest = hd::larger_of(largest, static_cast<bits_of<Reported>>(rounded & Reported::abs_mask));
    if constexpr (adds) return narrow<To>(add(widen<To, Compute>(old), value));
    if constexpr (!adds) return rounded;
  }
  /// Elements from `begin` to `end`, `lanes` at once.
  template <unsigned lanes>
  __device__ void run(unsigned begin, unsigned end) {
    constexpr unsigned at_once = is_double ? 4 : 8, step = 32 * lanes;  // waits once for all; without spills
    for (unsigned first = begin + threadIdx.x % 32 * lanes; first < end; first += step * at_once) {
      typename Pack<From, lanes>::Raw in[at_once] = {};
      typename Pack<To, lanes>::Raw old[at_once] = {};
#pragma unroll
      for (unsigned i = 0; i < at_once; ++i) {
        if (first + step * i < end) in[i] = Pack<From, lanes>::raw(source + first + step * i);
        if (adds && first + step * i < end) old[i] = Pack<To, lanes>::raw(destination + first + step * i);
      }
#pragma unroll
      for (unsigned i = 0; i < at_once; ++i) {
        const auto pack = hd::bit_cast<Pack<From, lanes>>(in[i]);
        auto out = hd::bit_cast<Pack<To, lanes>>(old[i]);
#pragma unroll
        for (unsigned l = 0; l < lanes; ++l) out.lane[l] = unscaled(pack.lane[l], out.lane[l]);
        if (first + step * i < end) out.store(destination + first + step * i);
      }
    }
  }
  __device__ void run(unsigned n, Largest* all) {
    constexpr std::size_t widest = sizeof(bits_of<From>) > sizeof(bits_of<To>) ? sizeof(bits_of<From>) : sizeof(bits_of<To>);
    constexpr unsigned lanes = 16 / widest;
    const bool is_aligned = Pack<From, lanes>::is_aligned(source) && Pack<To, lanes>::is_aligned(destination);
    const unsigned whole = is_aligned ? n / lanes * lanes : 0;
    run<lanes>(0, whole);
    run<1>(whole, n);
    all->add<Reported>(largest);
  }
};
/// Several blocks, blockIdx.y, share a group.
template <bool adds>
__global__ void __launch_bounds__(threads, 2) unscale_kernel(List list, Iteration* now) {
  constexpr unsigned most = 4 * square_block;  // elements of a long tensor that a warp takes at once
  const Group group = list.groups[blockIdx.x];
  const float scale = now->loss_scale;
  const bool is_long = group.part.size != 0;
  const unsigned count = is_long ? (static_cast<unsigned>(group.part.size) + most - 1) / most : group.count;
  if (blockIdx.y * blockDim.x / 32 >= count) return;  // nothing is left for this block
  Largest largest;
  for (unsigned i = (blockIdx.y * blockDim.x + threadIdx.x) / 32; i < count; i += gridDim.y * blockDim.x / 32) {
    const Part part = is_long ? group.part.cut(std::size_t{i} * most, most) : list.parts[group.first + i];
    with_format(part.from, [&](auto format) {
      using From = decltype(format);
      const auto n = static_cast<unsigned>(part.size);
      if (adds || part.to != part.from) Unscale<From, binary32, adds>(part, scale).run(n, &largest);
      if (!adds && part.to == part.from) Unscale<From, From, false>(part, scale).run(n, &largest);
    });
  }
  add_largest(largest.double_bits(), 1.0, now);
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
/// The elements of a part that a thread of a warp squares.
template <class Format>
struct Squares {
  using Compute = compute_of<Format>;
  using Bits = bits_of<Format>;
  using Pair = Pack<Format, 2>;
  static constexpr int pairs_each = square_block / 64;
  typename Pair::Raw pairs[pairs_each];

  __device__ void load(const Part& part) {
    const auto* const from = reinterpret_cast<const Bits*>(part.source) + threadIdx.x % 32 * 2;
    const int left = static_cast<int>(part.size) - static_cast<int>(threadIdx.x % 32 * 2);
    if (part.size == square_block && Pair::is_aligned(from)) {
#pragma unroll
      for (int k = 0; k < pairs_each; ++k) pairs[k] = Pair::raw(from + 64 * k);
    } else {
#pragma unroll
      for (int k = 0; k < pairs_each; ++k) {
        Pair pair;
        for (int l = 0; l < 2; ++l) pair.lane[l] = 64 * k + l < left ? from[64 * k + l] : Bits{0};
        pairs[k] = hd::bit_cast<typename Pair::Raw>(pair);
      }
    }
  }
  /// `sums` gets the 16 sums of the part, or 0 and the sum of all rescaled squares behind them.
  __device__ void sum(double* sums, Largest* all) const {
    const unsigned lane = threadIdx.x % 32;
    Bits largest = 0;
#pragma unroll
    for (int k = 0; k < pairs_each; ++k)
      for (const Bits bits : hd::bit_cast<Pair>(pairs[k]).lane)
        largest = hd::larger_of(largest, static_cast<Bits>(bits & Format::abs_mask));
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
    for (int k = 0; k < pairs_each; ++k) {
      const Pair pair = hd::bit_cast<Pair>(pairs[k]);
      Compute a = widen<Format>(pair.lane[0]), b = widen<Format>(pair.lane[1]);
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
    all->add<Format>(largest);
  }
};
/// Blocks may have any number of warps.
template <class = void>
__global__ void __launch_bounds__(most_threads, 2) measure_kernel(List list, bool carries_scale, Iteration* now) {
  constexpr unsigned batch = chunk_size / square_block;
  __shared__ double memory[batch][17];
  double(*const of_parts)[17] = memory;  // g++ 12 takes an array that only a lambda uses for unused
  const Group group = list.groups[blockIdx.x];
  const unsigned warps = blockDim.x / 32;
  Largest largest;
  double sum = 0.0;  // of thread t < 16: sum t; of thread 16: the rescaled one
  for (unsigned first = 0; first < group.count; first += batch) {
    const unsigned n = hd::smaller_of(group.count - first, batch);
    const auto part_of = [&](unsigned i) {
      Part part = group.part.size == 0 ? list.parts[group.first + first + i]
                                       : group.part.cut(std::size_t{first + i} * square_block, square_block);
      if (!carries_scale) part.source = part.destination, part.from = part.to;
      return part;
    };
    for (unsigned i = threadIdx.x / 32; i < n;) {
      const Part part = part_of(i), next = i + warps < n ? part_of(i + warps) : Part{};
      const bool is_pair = next.from == part.from && Part::bytes_of(part.from) == 2;  // loads both, to wait once
      with_format(part.from, [&](auto format) {
        using Format = decltype(format);
        Squares<Format> squares[sizeof(bits_of<Format>) == 2 ? 2 : 1];
        squares[0].load(part);
        if constexpr (sizeof(bits_of<Format>) == 2) {
          if (is_pair) squares[1].load(next);
          if (is_pair) squares[1].sum(of_parts[i + warps], &largest);
        }
        squares[0].sum(of_parts[i], &largest);
      });
      i += is_pair ? 2 * warps : warps;
    }
    __syncthreads();
    if (threadIdx.x < 17) {
#pragma unroll 16
      for (unsigned i = 0; i < n; ++i) sum = add(sum, of_parts[i][threadIdx.x]);
    }
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    const double rescaled = __shfl_sync(0xFFFFFFFFU, sum, 16);
    fold(sum, 8, 1);
    if (threadIdx.x == 0) list.sums[blockIdx.x] = add(sum, rescaled);
  }
  add_largest(largest.double_bits(), divisor_of(now, carries_scale), now);
}

// ---- the decision ----

/// The sum of the groups of a list, in the order of ops/run.hpp, by one block of `threads`: thread t < 16 adds groups_per_sum.
__device__ inline double sum_of(const List& list) {
  constexpr unsigned n_partials = 16;
  __shared__ double memory[n_partials][groups_per_sum + 1];  // one more, for the banks
  __shared__ double partials[n_partials];
  double(*const groups)[groups_per_sum + 1] = memory;
  double sum = 0.0;
  for (unsigned first = 0; first < list.n_groups; first += n_partials * groups_per_sum) {
    const unsigned n = hd::smaller_of(list.n_groups - first, n_partials * groups_per_sum);
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < n; i += threads) groups[i / groups_per_sum][i % groups_per_sum] = list.sums[first + i];
    __syncthreads();
    const unsigned begin = threadIdx.x * groups_per_sum;
    const unsigned count = begin < n ? hd::smaller_of(n - begin, groups_per_sum) : 0;
    double partial = 0.0;
#pragma unroll 16
    for (unsigned i = 0; i < count; ++i) partial = add(partial, groups[threadIdx.x][i]);
    if (count != 0) partials[threadIdx.x] = partial;
    __syncthreads();
    for (unsigned k = 0; k * groups_per_sum < n; ++k) sum = add(sum, partials[k]);
  }
  return sum;
}
template <class = void>
__global__ void __launch_bounds__(threads) total_kernel(Iteration* now, List list, bool carries_scale, double replicas) {
  const double sum = sum_of(list);
  if (threadIdx.x != 0) return;
  const double divisor = divisor_of(now, carries_scale);
  now->sum_of_squares = div(add(now->sum_of_squares, div(div(sum, divisor), divisor)), replicas);
  if (now->inf_elsewhere != 0.0F) now->largest = binary64::infinity_bits;
}
template <class Policy>
__global__ void __launch_bounds__(threads) update_kernel(State<Policy>* state, List list, bool carries_scale, double max_norm) {
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
void launch(const char* name, void (*kernel)(Parameters...), dim3 blocks, unsigned threads_each, cudaStream_t stream,
            std::common_type_t<Parameters>... arguments) {
  if (blocks.x == 0) return;
  void* addresses[] = {&arguments...};
  check(name, cudaLaunchKernel(kernel, blocks, dim3(threads_each), addresses, 0, stream));
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
  const unsigned threads_each = measured_.n_groups < detail::few_groups ? detail::most_threads : detail::few_threads;
  detail::launch("measure_kernel", detail::measure_kernel<>, measured_.n_groups, threads_each, stream, measured_, carries_scale,
                 &state_->now);
}
template <class Policy>
void LossScale<Policy>::launch_unscale(const Gradients& gradients, cudaStream_t stream, bool adds) {
  is_begun_ = true;
  const unsigned n = gradients.list_.n_groups;
  detail::launch("unscale_kernel", adds ? detail::unscale_kernel<true> : detail::unscale_kernel<false>,
                 dim3(n, n < detail::few_groups ? detail::sharing : 1), detail::threads, stream, gradients.list_, &state_->now);
}
template <class Policy>
void LossScale<Policy>::total(cudaStream_t stream, int replicas) {
  hd::check_in("replicas", replicas, 1, std::numeric_limits<int>::max(), "1 or more");
  detail::launch("total_kernel", detail::total_kernel<>, 1, detail::threads, stream, &state_->now, measured_, carries_scale_,
                 static_cast<double>(replicas));
  measured_ = {};
}
template <class Policy>
void LossScale<Policy>::update(cudaStream_t stream, const double& max_norm) {
  hd::check_max_norm(max_norm);
  if (!is_begun_) hd::throw_logic_error({"update: no gradients were unscaled or measured since the last update"});
  if (!is_measured_ && !hd::is_infinite(max_norm))
    hd::throw_logic_error({"update: max_norm is ", hd::to_text(max_norm), ", but nothing was measured in this step"});
  detail::launch("update_kernel", detail::update_kernel<Policy>, 1, detail::threads, stream, state_.get(), measured_,
                 carries_scale_, max_norm);
  begin_step();
}

}  // namespace gpu
HEADROOM_DETAIL_END_NAMESPACE
