// kernel/measure.inl, with 8, 4 or 2 of its 64 sums in each thread.

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
template <class Compute>
__device__ Compute plus_other(Compute value, unsigned lane_mask) {
  return add(value, shuffle_xor(value, lane_mask));
}
/// Loads 16 bytes past the L1 cache, from `offset` bytes behind `from`.
template <int offset>
__device__ Words<16> read_once(const void* from) {
#if defined(__CUDA_ARCH__)
  Words<16> result;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4 + %5];"
      : "=r"(result.word[0]), "=r"(result.word[1]), "=r"(result.word[2]), "=r"(result.word[3])
      : "l"(__cvta_generic_to_global(from)), "n"(offset));
  return result;
#else
  return *reinterpret_cast<const Words<16>*>(static_cast<const unsigned char*>(from) + offset);
#endif
}
/// The squares of a piece of up to `squares_per_sum` elements. 8, 16 or 32 threads, by the width of
/// the elements, have one piece; a warp has 4, 2 or 1 pieces at once.
///
/// Each thread loads 16 bytes of each row of 64 elements: those at multiples of 16. If the piece
/// begins between these, all rows begin `shift` elements before it, there is one row more, and the
/// sums are rotated by `shift` places. They are added in pairs, so the results are the same.
template <class Format>
struct Squares {
  using Bits = bits_of<Format>;
  using Compute = compute_of<Format>;
  static constexpr int lanes = 16 / sizeof(Bits);
  static constexpr unsigned threads_each = 64 / lanes, at_once = 32 / threads_each;
  static constexpr bool may_rescale =
      std::is_same_v<Format, brain16> || std::is_same_v<Format, binary32>;

  TypedPiece piece;
  unsigned place = threadIdx.x % threads_each;
  const Bits* source = reinterpret_cast<const Bits*>(piece.source);
  int shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(source) % 16 / sizeof(Bits));
  int begin = static_cast<int>(place) * lanes - shift;  // of the first row
  Words<16> rows[9] = {};

  __device__ Words<16> ends(int first) const {  // elements that exist, and zeros
    Pack<Format, lanes> pack{};
#pragma unroll
    for (int l = 0; l < lanes; ++l)
      if (first + l >= 0 && first + l < static_cast<int>(piece.size))
        pack.lane[l] = source[first + l];
    return hd::bit_cast<Words<16>>(pack);
  }
  template <bool is_whole, int... i>
  __device__ void load(std::integer_sequence<int, i...> = {}) {
    constexpr int row_bytes = 64 * sizeof(Bits);
    const int size = static_cast<int>(piece.size);
    const auto has_all = [&](int first) {
      return is_whole || (first >= 0 && first + lanes <= size);
    };
    ((has_all(begin + 64 * i) ? void(rows[i] = read_once<row_bytes * i>(source + begin)) : void()),
     ...);
    if (is_whole) return;
    if (begin < 0 && size > 0) rows[0] = ends(begin);
    const int last = (size - begin) / 64, first = begin + 64 * last;  // row with the end
    if (first >= 0 && first < size && first + lanes > size) {
      const Words<16> row = ends(first);
#pragma unroll
      for (int k = 0; k < 9; ++k)
        if (k == last) rows[k] = row;
    }
  }
  template <int n, bool rescales>
  __device__ void add_squares(Compute (&sums)[lanes], [[maybe_unused]] Compute power) const {
#pragma unroll
    for (int k = 0; k < n; ++k)
#pragma unroll
      for (int l = 0; l < lanes; ++l) {
        Compute value = widen<Format>(element<Format>(rows[k], static_cast<unsigned>(l)));
        if (rescales) value = mul(value, power);
        sums[l] = plus_square<Format>(sums[l], value);
      }
  }
  template <int n>
  [[nodiscard]] __device__ Bits max_abs() const {
    if constexpr (sizeof(Bits) == 8) {
      Bits result = 0;
#pragma unroll
      for (int i = 0; i < n * lanes; ++i)
        result = hd::larger_of(
            result,
            element<Format>(rows[i / lanes], static_cast<unsigned>(i % lanes)) & Format::abs_mask);
      return result;
    } else {
      std::uint32_t result = 0;
#pragma unroll
      for (int i = 0; i < n * 4; ++i)
        result = largest_words<Format>(result, rows[i / 4].word[i % 4]);
      return largest_in<Format>(result);
    }
  }
  /// `row` gets the 16 sums of the piece; or zeros, and *rescaled the sum of all rescaled squares.
  template <bool is_whole>
  __device__ Bits sum(Compute* row, double* rescaled) const {
    constexpr int n = is_whole ? 8 : 9;
    const Bits largest = max_abs<n>();
    int exponent = 0;
    if constexpr (may_rescale) {
      constexpr auto power = [](int e) {
        return static_cast<Bits>((e + Format::bias) << Format::mantissa_bits);
      };
      constexpr Bits most = power(most_exponent), least = power(least_exponent);
      unsigned of_piece = largest;
#pragma unroll
      for (unsigned step = threads_each / 2; step > 0; step /= 2)
        of_piece = hd::larger_of(of_piece, shuffle_xor(of_piece, step));
      exponent = of_piece > most                      ? down_exponent
                 : of_piece != 0 && of_piece <= least ? up_exponent
                                                      : 0;
    }
    alignas(16) Compute sums[lanes] = {};
    const bool rescales = may_rescale && warp_any(exponent != 0);
    if (rescales) {  // the other pieces by 1
      add_squares<n, true>(sums, static_cast<Compute>(hd::power_of_two(exponent)));
    } else {
      add_squares<n, false>(sums, Compute{1});
    }
#pragma unroll
    for (int l = 0; l < lanes; ++l)
      sums[l] = plus_other(plus_other(sums[l], threads_each / 2), threads_each / 4);
    if (rescales) {
      double all[lanes];
#pragma unroll
      for (int l = 0; l < lanes; ++l) all[l] = to_double(sums[l]);
#pragma unroll
      for (int step = 8; step >= 1; step /= 2)
#pragma unroll
        for (int l = 0; l < (step < lanes ? step : lanes); ++l)
          all[l] = step < lanes ? add(all[l], all[(l + step) % lanes])
                                : plus_other(all[l], static_cast<unsigned>(step / lanes));
      if (exponent == 0) all[0] = 0.0;
      if (piece.size != 0 && place == 0)
        *rescaled = mul(
            all[0],
            hd::bit_cast<double>(static_cast<std::uint64_t>(binary64::bias - 2 * exponent) << 52));
#pragma unroll
      for (int l = 0; l < lanes; ++l)
        if (exponent != 0) sums[l] = 0;
    } else if (may_rescale && piece.size != 0 && place == 0) {
      *rescaled = 0.0;
    }
    if (piece.size != 0 && place < threads_each / 4) {
      struct alignas(16) Some {
        Compute each[16 / sizeof(Compute)];
      };
      constexpr int some = 16 / sizeof(Compute);
#pragma unroll
      for (int l = 0; is_whole && l < lanes; l += some)
        *reinterpret_cast<Some*>(row + lanes * place + l) =
            *reinterpret_cast<const Some*>(sums + l);
      for (int l = 0; !is_whole && l < lanes; ++l) row[(begin + l) & 15] = sums[l];
    }
    return largest;
  }
};
/// All blocks of a group. Returns the largest magnitude of this thread's elements.
template <class Format>
__device__ bits_of<Format> sum_blocks(const List& list, const BlockWork& group,
                                      const TypedPiece& head, double* memory, Sums* now,
                                      double& sum) {
  using S = Squares<Format>;
  auto* const rows = reinterpret_cast<typename S::Compute*>(memory);
  double* const rescaled = memory + std::size_t{most_blocks} * 16;
  bits_of<Format> max_abs = 0;
  const unsigned step = blockDim.x / S::threads_each;
  for (unsigned first = 0; first < group.count; first += step) {
    const unsigned i = first + threadIdx.x / S::threads_each;
    const bool is_long = head.size > squares_per_sum;
    TypedPiece piece = head;
    if (!is_long && i < group.count) piece = piece_of(list, group.first + i);
    if (is_long && i < group.count) piece = head.cut(i * squares_per_sum, squares_per_sum);
    if (i >= group.count) piece.size = 0;
    S squares{piece};
    bits_of<Format> here;
    if (!warp_any(piece.size != squares_per_sum || squares.shift != 0)) {
      squares.template load<true>(std::make_integer_sequence<int, 8>());
      here = squares.template sum<true>(rows + 16 * i, rescaled + i);
    } else {
      squares.template load<false>(std::make_integer_sequence<int, 9>());
      here = squares.template sum<false>(rows + 16 * i, rescaled + i);
    }
    if (here >= Format::infinity_bits) note_overflow(list, piece, now);
    max_abs = hd::larger_of(max_abs, here);
  }
  __syncthreads();
  if (threadIdx.x < 16) {
#pragma unroll 16
    for (unsigned i = 0; i < group.count; ++i)
      sum = add(sum, to_double(rows[16 * i + threadIdx.x]));
  } else if (S::may_rescale && threadIdx.x == 16) {
#pragma unroll 16
    for (unsigned i = 0; i < group.count; ++i) sum = add(sum, rescaled[i]);
  }
  return max_abs;
}
/// Blocks may have any number of warps.
template <class = void>
__global__ void __launch_bounds__(most_threads, 2) measure_kernel(List list, Sums* now) {
  // g++ 12 takes an array that only a lambda uses for unused
  [[maybe_unused]] alignas(16) __shared__ double memory[most_blocks * 17];
  const BlockWork group = list.groups[blockIdx.x];
  const TypedPiece head = piece_of(list, group.first);
  MaxAbs max_abs;
  double sum = 0.0;  // of thread t < 16: sum t; of thread 16: the rescaled one
  with_format(head.from, [&](auto format) {
    using Format = decltype(format);
    max_abs.add<Format>(sum_blocks<Format>(list, group, head, memory, now, sum));
  });
  if (threadIdx.x < 32) {
    const double rescaled = shuffle(sum, 16);
#pragma unroll
    for (unsigned step = 8; step > 0; step /= 2) sum = plus_other(sum, step);
    if (threadIdx.x == 0) list.sums[group.number] = add(sum, rescaled);
  }
  add_max_abs(max_abs, divisor_of(list, *now), now);
}
}  // namespace gpu::detail
HEADROOM_DETAIL_END_NAMESPACE
