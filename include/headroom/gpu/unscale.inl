HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu::detail {
/// What a warp does with one piece.
template <class From, class To, bool adds>
struct Unscale {
  using Compute = compute_of<From>;
  static constexpr bool is_double = std::is_same_v<From, binary64>;
  using Reported = std::conditional_t<!adds, To, std::conditional_t<is_double, binary64, binary32>>;

  const TypedPiece& piece;
  float loss_scale;
  const bits_of<From>* source = reinterpret_cast<const bits_of<From>*>(piece.source);
  bits_of<To>* destination = reinterpret_cast<bits_of<To>*>(piece.destination);
  Compute scale = widen<binary32, Compute>(hd::bit_cast<std::uint32_t>(loss_scale)),
          inverse = div(Compute{1}, scale);
  bool is_exact = hd::is_power_of_two(loss_scale);  // then the reciprocal is exact, too
  // Of this thread's results; of its addends, if it adds
  bits_of<Reported> max_abs = 0;

  __device__ bits_of<To> unscaled(bits_of<From> bits, [[maybe_unused]] bits_of<To> old) {
    const Compute scaled = widen<From>(bits),
                  value = is_exact ? mul(scaled, inverse) : div(scaled, scale);
    const auto rounded = narrow<Reported>(value);
    max_abs = hd::larger_of(max_abs, static_cast<bits_of<Reported>>(rounded & Reported::abs_mask));
    if constexpr (adds) return narrow<To>(add(widen<To, Compute>(old), value));
    if constexpr (!adds) return rounded;
  }
  /// Elements from `begin` to `end`, `lanes` at once.
  template <unsigned lanes>
  __device__ void run(unsigned begin, unsigned end) {
    // Waits once for all; without spills
    constexpr unsigned at_once = is_double ? 4 : 8, step = 32 * lanes;
    for (unsigned first = begin + threadIdx.x % 32 * lanes; first < end; first += step * at_once) {
      typename Pack<From, lanes>::Raw in[at_once] = {};
      typename Pack<To, lanes>::Raw old[at_once] = {};
#pragma unroll
      for (unsigned i = 0; i < at_once; ++i) {
        if (first + step * i < end) in[i] = Pack<From, lanes>::raw(source + first + step * i);
        if (adds && first + step * i < end)
          old[i] = Pack<To, lanes>::raw(destination + first + step * i);
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
  __device__ void run(unsigned n, MaxAbs* all) {
    constexpr std::size_t widest =
        sizeof(bits_of<From>) > sizeof(bits_of<To>) ? sizeof(bits_of<From>) : sizeof(bits_of<To>);
    constexpr unsigned lanes = 16 / widest;
    const bool is_aligned =
        Pack<From, lanes>::is_aligned(source) && Pack<To, lanes>::is_aligned(destination);
    const unsigned whole = is_aligned ? n / lanes * lanes : 0;
    run<lanes>(0, whole);
    run<1>(whole, n);
    all->add<Reported>(max_abs);
  }
};
/// Several blocks, blockIdx.y, share a group.
template <bool adds>
__global__ void __launch_bounds__(threads, 2) unscale_kernel(List list, Sums* now) {
  // Elements of a long tensor that a warp takes at once
  constexpr unsigned most = 4 * squares_per_sum;
  const BlockWork group = list.groups[blockIdx.x];
  const float scale = now->loss_scale;
  const bool is_long = group.piece.size != 0;
  const unsigned count =
      is_long ? (static_cast<unsigned>(group.piece.size) + most - 1) / most : group.count;
  if (blockIdx.y * blockDim.x / 32 >= count) return;  // nothing is left for this block
  MaxAbs max_abs;
  for (unsigned i = (blockIdx.y * blockDim.x + threadIdx.x) / 32; i < count;
       i += gridDim.y * blockDim.x / 32) {
    const TypedPiece piece =
        is_long ? group.piece.cut(std::size_t{i} * most, most) : list.pieces[group.first + i];
    with_format(piece.from, [&](auto format) {
      using From = decltype(format);
      const auto n = static_cast<unsigned>(piece.size);
      if (adds || piece.to != piece.from)
        Unscale<From, binary32, adds>{piece, scale}.run(n, &max_abs);
      if (!adds && piece.to == piece.from)
        Unscale<From, From, false>{piece, scale}.run(n, &max_abs);
    });
  }
  add_max_abs(max_abs, 1.0, now);
}
}  // namespace gpu::detail
HEADROOM_DETAIL_END_NAMESPACE
