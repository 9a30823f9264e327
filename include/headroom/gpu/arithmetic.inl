// Arithmetic that no flag changes, such as -use_fast_math, -ftz=true, -prec-div=false and -fmad.

#if !defined(__HIP__)
#include <cuda_fp16.h>
#endif

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu::detail {
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
__device__ inline float negated(float value) {
  float result;
  asm("neg.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}
__device__ inline double to_double(float value) {  // -ftz=true would make a cast of a subnormal 0
  double result;
  asm("cvt.f64.f32 %0, %1;" : "=d"(result) : "f"(value));
  return result;
}
#else  // AMD; and it is parsed for the host, which never calls it
#define HEADROOM_DETAIL_ROUNDED(name, sign, ptx, in_double) \
  template <class T>                                        \
  __device__ T name(T a, T b) {                             \
    return hd::hide_from_optimizer(a sign b);               \
  }
__device__ inline float fma(float a, float b, float c) {
  return hd::hide_from_optimizer(__builtin_fmaf(a, b, c));
}
__device__ inline float negated(float value) { return -value; }
__device__ inline double to_double(float value) { return static_cast<double>(value); }
#endif
__device__ inline double to_double(double value) { return value; }
HEADROOM_DETAIL_ROUNDED(mul, *, "mul.rn.f32", __dmul_rn)
#if defined(__HIP_DEVICE_COMPILE__)
/// Not hidden, because clang does not unroll loops with assembly.
template <class T>
__device__ T add(T a, T b) {
#pragma clang fp contract(off) reassociate(off)
  return a + b;
}
/// The compiler's own instructions, which -ffast-math would replace by an approximation.
__device__ inline double div(double a, double b) {
  bool is_scaled = false, unused = false;
  const double divisor = __builtin_amdgcn_div_scale(a, b, false, &unused),
               dividend = __builtin_amdgcn_div_scale(a, b, true, &is_scaled);
  double inverse = __builtin_amdgcn_rcp(divisor);
  for (int i = 0; i < 2; ++i) {
    const double error = hd::hide_from_optimizer(__builtin_fma(-divisor, inverse, 1.0));
    inverse = hd::hide_from_optimizer(__builtin_fma(inverse, error, inverse));
  }
  const double q = mul(dividend, inverse);
  const double rest = hd::hide_from_optimizer(__builtin_fma(-divisor, q, dividend));
  return __builtin_amdgcn_div_fixup(__builtin_amdgcn_div_fmas(rest, inverse, q, is_scaled), b, a);
}
/// A double has enough digits to round twice.
__device__ inline float div(float a, float b) {
  return static_cast<float>(div(to_double(a), to_double(b)));
}
#else
HEADROOM_DETAIL_ROUNDED(add, +, "add.rn.f32", __dadd_rn)
HEADROOM_DETAIL_ROUNDED(div, /, "div.rn.f32", __ddiv_rn)
#endif
#undef HEADROOM_DETAIL_ROUNDED

template <class Format>
using bits_of = typename Format::bits_type;
template <class Format>
using compute_of = std::conditional_t<std::is_same_v<Format, binary64>, double, float>;

template <class Format, class Compute = compute_of<Format>>
__device__ Compute widen(bits_of<Format> bits) {
  if constexpr (std::is_same_v<Format, binary16>) {
#if defined(__HIP__)
    return static_cast<float>(hd::bit_cast<_Float16>(bits));
#else
    return __half2float(__ushort_as_half(bits));
#endif
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
#if defined(__HIP__)
    return hd::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
#else
    return __half_as_ushort(__float2half_rn(value));
#endif
  } else if constexpr (std::is_same_v<From, binary32> && std::is_same_v<Format, brain16>) {
    const unsigned bits = __float_as_uint(value), rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
    const bool is_nan = (bits & binary32::abs_mask) > binary32::infinity_bits;
    return static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16);
  } else {
    return hd::convert_bits<From, Format>(hd::bit_cast<bits_of<From>>(value));
  }
}

/// The bits of two floats, rounded to a 16-bit format by one instruction: `a` in the lower half.
template <class Format>
__device__ std::uint32_t narrow_two(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t result;
  if constexpr (std::is_same_v<Format, binary16>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(b), "f"(a));
  if constexpr (std::is_same_v<Format, brain16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(b), "f"(a));
  return result;
#else
  return narrow<Format>(a) | static_cast<std::uint32_t>(narrow<Format>(b)) << 16;
#endif
}

/// The words of a load. Elements of 16 bits are taken out of them later: that waits for the load.
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

  static __device__ Raw raw(const bits_of<Format>* first) {
    return *reinterpret_cast<const Raw*>(first);
  }
  /// `left` elements exist; zeros beyond.
  static __device__ Pack load(const bits_of<Format>* from, unsigned left, bool is_aligned) {
    if (is_aligned && left >= lanes) return hd::bit_cast<Pack>(raw(from));
    Pack result{};
#pragma unroll
    for (unsigned l = 0; l < lanes; ++l) result.lane[l] = l < left ? from[l] : bits_of<Format>{0};
    return result;
  }
  __device__ void store(bits_of<Format>* to) const {
    *reinterpret_cast<Raw*>(to) = hd::bit_cast<Raw>(*this);
  }
  __device__ void store(bits_of<Format>* to, unsigned left, bool is_aligned) const {
    if (is_aligned && left >= lanes) return store(to);
#pragma unroll
    for (unsigned l = 0; l < lanes; ++l)
      if (l < left) to[l] = lane[l];
  }
};
/// Element `l` of words that were loaded at once.
template <class Format, unsigned bytes>
__device__ bits_of<Format> element(const Words<bytes>& words, unsigned l) {
  if constexpr (sizeof(bits_of<Format>) == 2)
    return static_cast<std::uint16_t>(words.word[l / 2] >> l % 2 * 16);
  if constexpr (sizeof(bits_of<Format>) == 4) return words.word[l];
  if constexpr (sizeof(bits_of<Format>) == 8)
    return words.word[2 * l] | static_cast<std::uint64_t>(words.word[2 * l + 1]) << 32;
}
/// The larger of a magnitude and those in a word: of each half, if the format has 16 bits. NaN is
/// largest. One instruction for one or two words: an integer's maximum would need a mask for each.
template <class Format>
__device__ std::uint32_t largest_words(std::uint32_t largest, std::uint32_t word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<Format, binary32>) {
    float result;
    asm("{ .reg .f32 t; abs.f32 t, %1; max.NaN.f32 %0, %2, t; }"
        : "=f"(result)
        : "f"(__uint_as_float(word)), "f"(__uint_as_float(largest)));
    return __float_as_uint(result);
  } else if constexpr (std::is_same_v<Format, binary16>) {
    asm("{ .reg .b32 t; abs.f16x2 t, %1; max.NaN.f16x2 %0, %0, t; }" : "+r"(largest) : "r"(word));
  } else {
#if __CUDA_ARCH__ >= 860
    asm("max.NaN.xorsign.abs.bf16x2 %0, %0, %1;" : "+r"(largest) : "r"(word));  // with a sign
#else
    asm("{ .reg .b32 t; abs.bf16x2 t, %1; max.NaN.bf16x2 %0, %0, t; }" : "+r"(largest) : "r"(word));
#endif
  }
  return largest;
#else
  constexpr bool is_pair = sizeof(bits_of<Format>) == 2;
  constexpr std::uint32_t low = is_pair ? 0x7FFFU : 0x7FFFFFFFU, high = is_pair ? 0x7FFF0000U : 0U;
  return hd::larger_of(largest & low, word & low) | hd::larger_of(largest & high, word & high);
#endif
}
/// The larger half, if the format has 16 bits.
template <class Format>
__device__ bits_of<Format> largest_in(std::uint32_t words) {
  if constexpr (sizeof(bits_of<Format>) == 4) return words;
  return static_cast<bits_of<Format>>(hd::larger_of(words & 0x7FFFU, words >> 16 & 0x7FFFU));
}
/// A thread's value from another of its warp. Half a wave of 64 on AMD is a warp, too: its lanes
/// read only each other, and they run together, even if the other half is in another branch.
template <class T>
__device__ T shuffle(T value, int lane) {
#if defined(__HIP__)
  return __shfl(value, lane, 32);
#else
  return __shfl_sync(0xFFFFFFFFU, value, lane);
#endif
}
template <class T>
__device__ T shuffle_xor(T value, unsigned lane_mask) {
#if defined(__HIP__)
  return __shfl_xor(value, static_cast<int>(lane_mask), 32);
#else
  return __shfl_xor_sync(0xFFFFFFFFU, value, static_cast<int>(lane_mask));
#endif
}
template <class Bits>
__device__ Bits warp_max(Bits value) {
  for (unsigned step = 16; step > 0; step /= 2)
    value = hd::larger_of(value, shuffle_xor(value, step));
  return value;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline unsigned warp_max(unsigned value) {
  return __reduce_max_sync(0xFFFFFFFFU, value);
}
#endif
__device__ inline bool warp_any(bool value) {
#if defined(__CUDA_ARCH__)
  return __any_sync(0xFFFFFFFFU, value ? 1 : 0) != 0;
#else
  return warp_max(value ? 1U : 0U) != 0;
#endif
}
/// The largest magnitude of a thread's elements, by bits, which order as numbers; NaN is largest.
/// Two numbers, because one of 64 bits costs the loop of floats three instructions.
struct MaxAbs {
  unsigned narrow = 0;  // as a float
  unsigned long long of_doubles = 0;

  template <class Format>
  __device__ void add(bits_of<Format> magnitude) {
    if constexpr (std::is_same_v<Format, binary64>)
      of_doubles = hd::larger_of<unsigned long long>(of_doubles, magnitude);
    if constexpr (!std::is_same_v<Format, binary64>)
      narrow = hd::larger_of(narrow, hd::bit_cast<std::uint32_t>(widen<Format>(magnitude)));
  }
};
/// The largest of a block, in its thread 0. Called once, by all threads.
template <class Bits>
__device__ Bits block_max(Bits value) {
  __shared__ Bits of_warps[32];
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  return threadIdx.x < 32
             ? warp_max(threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : Bits{0})
             : value;
}
/// Called by all threads of a block. The order of the atomics does not change a maximum.
__device__ inline void add_max_abs(const MaxAbs& mine, double divisor, Sums* now) {
  const std::uint64_t of_floats = hd::convert_bits<binary32, binary64>(mine.narrow);
  const std::uint64_t bits =
      block_max(hd::larger_of<unsigned long long>(mine.of_doubles, of_floats));
  // Inf stands for NaN, too
  const double max_abs = hd::bit_cast<double>(hd::smaller_of(bits, binary64::infinity_bits));
  if (threadIdx.x == 0)
    atomicMax(&now->max_abs, hd::bit_cast<unsigned long long>(div(max_abs, divisor)));
}
/// The first tensor of the step with an overflow, if `piece` is of it. Reads first, because atomics
/// of all threads would take longer than the step.
__device__ inline void note_overflow(const List& list, const TypedPiece& piece, Sums* now) {
  const unsigned mine = ~(list.n_before + piece.tensor);
  if (*static_cast<volatile unsigned*>(&now->overflow) < mine) atomicMax(&now->overflow, mine);
}
/// Elements of a long tensor that a warp unscales at once.
inline constexpr unsigned most_of_warp = 4 * squares_per_sum;
__device__ inline unsigned count_pieces(const TypedPiece& head, const BlockWork& group) {
  return head.size > squares_per_sum ? (head.size + most_of_warp - 1) / most_of_warp : group.count;
}
/// As `measure` reads it.
__device__ inline TypedPiece piece_of(const List& list, unsigned i) {
  TypedPiece piece = list.pieces[i];
  if (!list.carries_scale) piece.source = piece.destination, piece.from = piece.to;
  return piece;
}
/// What measured gradients are to be divided by.
__device__ inline double divisor_of(const List& list, const Sums& now) {
  return list.carries_scale ? to_double(now.loss_scale) : 1.0;
}

template <class F>
__device__ void with_format(dtype_code dtype, const F& f) {
  if (dtype == dtype_code::fp16) return f(binary16());
  if (dtype == dtype_code::bf16) return f(brain16());
  if (dtype == dtype_code::fp32) return f(binary32());
  f(binary64());
}
}  // namespace gpu::detail
HEADROOM_DETAIL_END_NAMESPACE
