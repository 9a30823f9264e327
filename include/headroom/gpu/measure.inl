// kernel/measure.inl, with two of its 64 sums in each thread of a warp.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu::detail {
using hd::down_exponent;
using hd::least_exponent;
using hd::most_exponent;
using hd::up_exponent;

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
/// The elements of a piece that a thread of a warp squares.
template <class Format>
struct Squares {
  using Compute = compute_of<Format>;
  using Bits = bits_of<Format>;
  using Pair = Pack<Format, 2>;
  static constexpr int pairs_each = squares_per_sum / 64;
  typename Pair::Raw pairs[pairs_each];

  __device__ void load(const TypedPiece& piece) {
    const auto* const from = reinterpret_cast<const Bits*>(piece.source) + threadIdx.x % 32 * 2;
    const int left = static_cast<int>(piece.size) - static_cast<int>(threadIdx.x % 32 * 2);
    if (piece.size == squares_per_sum && Pair::is_aligned(from)) {
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
  /// `sums` gets the 16 sums of the piece, or 0 and the sum of all rescaled squares behind them.
  __device__ void sum(double* sums, MaxAbs* all) const {
    const unsigned lane = threadIdx.x % 32;
    Bits max_abs = 0;
#pragma unroll
    for (int k = 0; k < pairs_each; ++k)
      for (const Bits bits : hd::bit_cast<Pair>(pairs[k]).lane)
        max_abs = hd::larger_of(max_abs, static_cast<Bits>(bits & Format::abs_mask));
    int exponent = 0;
    if constexpr (std::is_same_v<Format, brain16> || std::is_same_v<Format, binary32>) {
      constexpr auto power = [](int e) {
        return static_cast<Bits>((e + Format::bias) << Format::mantissa_bits);
      };
      constexpr Bits most = power(most_exponent), least = power(least_exponent);
      const auto of_piece = static_cast<Bits>(warp_max(static_cast<unsigned>(max_abs)));
      exponent = of_piece > most                      ? down_exponent
                 : of_piece != 0 && of_piece <= least ? up_exponent
                                                      : 0;
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
      rescaled = mul(
          add(low, high),
          hd::bit_cast<double>(static_cast<std::uint64_t>(binary64::bias - 2 * exponent) << 52));
      low = high = 0.0;
    }
    if (lane < 8) sums[2 * lane] = low, sums[2 * lane + 1] = high;
    if (lane == 0) sums[16] = rescaled;
    all->add<Format>(max_abs);
  }
};
/// Blocks may have any number of warps.
template <class = void>
__global__ void __launch_bounds__(most_threads, 2) measure_kernel(List list, Sums* now) {
  constexpr unsigned at_once = group_size / squares_per_sum;
  // g++ 12 takes an array that only a lambda uses for unused
  [[maybe_unused]] __shared__ double of_pieces[at_once][17];
  const BlockWork group = list.groups[blockIdx.x];
  const unsigned warps = blockDim.x / 32;
  MaxAbs max_abs;
  double sum = 0.0;  // of thread t < 16: sum t; of thread 16: the rescaled one
  for (unsigned first = 0; first < group.count; first += at_once) {
    const unsigned n = hd::smaller_of(group.count - first, at_once);
    const auto piece_of = [&](unsigned i) {
      TypedPiece piece =
          group.piece.size == 0
              ? list.pieces[group.first + first + i]
              : group.piece.cut(std::size_t{first + i} * squares_per_sum, squares_per_sum);
      if (!list.carries_scale) piece.source = piece.destination, piece.from = piece.to;
      return piece;
    };
    for (unsigned i = threadIdx.x / 32; i < n;) {
      const TypedPiece piece = piece_of(i),
                       next = i + warps < n ? piece_of(i + warps) : TypedPiece{};
      // Loads both, to wait once
      const bool is_pair = next.from == piece.from && TypedPiece::bytes_of(piece.from) == 2;
      with_format(piece.from, [&](auto format) {
        using Format = decltype(format);
        Squares<Format> squares[sizeof(bits_of<Format>) == 2 ? 2 : 1];
        squares[0].load(piece);
        if constexpr (sizeof(bits_of<Format>) == 2) {
          if (is_pair) squares[1].load(next);
          if (is_pair) squares[1].sum(of_pieces[i + warps], &max_abs);
        }
        squares[0].sum(of_pieces[i], &max_abs);
      });
      i += is_pair ? 2 * warps : warps;
    }
    __syncthreads();
    if (threadIdx.x < 17) {
#pragma unroll 16
      for (unsigned i = 0; i < n; ++i) sum = add(sum, of_pieces[i][threadIdx.x]);
    }
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    const double rescaled = __shfl_sync(0xFFFFFFFFU, sum, 16);
    fold(sum, 8, 1);
    if (threadIdx.x == 0) list.sums[blockIdx.x] = add(sum, rescaled);
  }
  add_max_abs(max_abs, divisor_of(list, *now), now);
}
}  // namespace gpu::detail
HEADROOM_DETAIL_END_NAMESPACE
