HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu::detail {
/// What a warp does with one piece. Doubles are divided one at a time.
template <class From, class To, bool adds, bool is_exact>
struct Unscale {
  using Compute = compute_of<From>;
  using Reported =
      std::conditional_t<!adds, To,
                         std::conditional_t<std::is_same_v<From, binary64>, binary64, binary32>>;
  static constexpr unsigned from_bytes = sizeof(bits_of<From>), to_bytes = sizeof(bits_of<To>),
                            lanes = 16 / (from_bytes > to_bytes ? from_bytes : to_bytes);
  using In = Words<lanes * from_bytes>;
  using Out = Words<lanes * to_bytes>;
  // Loads under way at once. More would spill.
  static constexpr unsigned at_once = adds && from_bytes == 4 ? 4 : 8, step = 32 * lanes;

  float scale, inverse;
  std::uint32_t least;  // 2 * bits - 1 of the least magnitude whose remainder is exact
  bool divides;         // the scale is not in [1, 2^60]

  __device__ Unscale(float loss_scale)
      : scale(loss_scale),
        inverse(div(1.0F, loss_scale)),
        least(2 * hd::larger_of(hd::bit_cast<std::uint32_t>(mul(loss_scale, 0x1p-125F)),
                                0x18800000U) -
              1),
        divides(hd::bit_cast<std::uint32_t>(loss_scale) - 0x3F800000U > 60U << 23) {}

  /// The results, and the largest words of magnitudes. Returns whether all were exact: see
  /// docs/notes/numerics.md.
  __device__ bool unscale(const In& in, Out& out, std::uint32_t& max_abs) const {
    std::uint32_t smallest = 0xFFFFFFFFU, words[lanes * sizeof(bits_of<Reported>) / 4];
    float value[lanes];
#pragma unroll
    for (unsigned l = 0; l < lanes; ++l) {
      const float x = widen<From>(element<From>(in, l)), q = mul(x, inverse);
      value[l] = is_exact ? q : fma(negated(fma(q, scale, negated(x))), inverse, q);
      if (!is_exact && !std::is_same_v<From, binary16>)
        smallest = hd::smaller_of(smallest, __float_as_uint(x) * 2 - 1);
    }
#pragma unroll
    for (unsigned i = 0; i < sizeof words / 4; ++i) {
      if constexpr (sizeof(bits_of<Reported>) == 2)
        words[i] = narrow_two<To>(value[2 * i], value[2 * i + 1]);
      if constexpr (sizeof(bits_of<Reported>) == 4) words[i] = __float_as_uint(value[i]);
    }
#pragma unroll
    for (const std::uint32_t word : words) max_abs = largest_words<Reported>(max_abs, word);
#pragma unroll
    for (unsigned i = 0; i < sizeof words / 4; ++i)
      out.word[i] =
          adds ? __float_as_uint(add(__uint_as_float(out.word[i]), value[i % lanes])) : words[i];
    return is_exact || std::is_same_v<From, binary16> || smallest >= least;
  }
  /// The same by division, of one element.
  __device__ bits_of<Reported> unscale_one(bits_of<From> bits, bits_of<To>& result) const {
    const Compute x = widen<From>(bits),
                  by = widen<binary32, Compute>(__float_as_uint(is_exact ? inverse : scale)),
                  value = is_exact ? mul(x, by) : div(x, by);
    const auto rounded = narrow<Reported>(value);
    if constexpr (adds) result = narrow<To>(add(widen<To, Compute>(result), value));
    if constexpr (!adds) result = rounded;
    return static_cast<bits_of<Reported>>(rounded & Reported::abs_mask);
  }
  /// Elements from `begin` to `end`, which are aligned. Returns their largest magnitude.
  __device__ bits_of<Reported> run(const bits_of<From>* source, bits_of<To>* destination,
                                   unsigned begin, unsigned end) const {
    bits_of<Reported> max_abs = 0;
    for (unsigned first = begin + threadIdx.x % 32 * lanes; first < end; first += step * at_once) {
      In in[at_once] = {};
      Out old[at_once] = {}, out[at_once];
#pragma unroll
      for (unsigned i = 0; i < at_once; ++i)
        if (first + step * i < end) {
          in[i] = Pack<From, lanes>::raw(source + first + step * i);
          if (adds) old[i] = Pack<To, lanes>::raw(destination + first + step * i);
        }
      bool is_right = true;
      std::uint32_t words = 0;
#pragma unroll
      for (unsigned i = 0; i < at_once; ++i) {
        out[i] = old[i];
        const bool is_this = unscale(in[i], out[i], words);
        is_right = is_right && is_this;
      }
      bits_of<Reported> here = largest_in<Reported>(words);
      // Of Inf and NaN the remainder is NaN
      if (!is_exact && (divides || !is_right || here >= Reported::infinity_bits)) {
        here = 0;
#pragma unroll 1
        for (unsigned i = 0; i < at_once; ++i) {
          In its_in = in[0];
          Out its_out = old[0];
#pragma unroll
          for (unsigned k = 1; k < at_once; ++k)  // registers have no index
            if (k == i) its_in = in[k], its_out = old[k];
          auto pack = hd::bit_cast<Pack<To, lanes>>(its_out);
#pragma unroll
          for (unsigned l = 0; l < lanes; ++l)
            here = hd::larger_of(here, unscale_one(element<From>(its_in, l), pack.lane[l]));
          if (first + step * i < end) pack.store(destination + first + step * i);
        }
      } else {
#pragma unroll
        for (unsigned i = 0; i < at_once; ++i)
          if (first + step * i < end)
            hd::bit_cast<Pack<To, lanes>>(out[i]).store(destination + first + step * i);
      }
      max_abs = hd::larger_of(max_abs, here);
    }
    return max_abs;
  }
  __device__ bits_of<Reported> run(const TypedPiece& piece) const {
    const auto* const source = reinterpret_cast<const bits_of<From>*>(piece.source);
    auto* const destination = reinterpret_cast<bits_of<To>*>(piece.destination);
    const auto elements_to = [](const void* address, unsigned bytes) {
      return static_cast<unsigned>(-reinterpret_cast<std::uintptr_t>(address) / bytes % lanes);
    };
    unsigned begin = elements_to(source, from_bytes), end = piece.size;
    constexpr bool is_double = from_bytes == 8;  // one at a time
    if (is_double || begin != elements_to(destination, to_bytes) || begin > end) begin = end;
    const unsigned aligned_end = end - (end - begin) % lanes;
    bits_of<Reported> max_abs = 0;
    if constexpr (!is_double) max_abs = run(source, destination, begin, aligned_end);
    const unsigned rest = begin + (end - aligned_end);
    for (unsigned i = threadIdx.x % 32; i < rest; i += 32) {
      const unsigned at = i < begin ? i : aligned_end + i - begin;
      bits_of<To> result{};
      if constexpr (adds) result = destination[at];
      max_abs = hd::larger_of(max_abs, unscale_one(source[at], result));
      destination[at] = result;
    }
    return max_abs;
  }
};
/// This block's pieces of a group. Not inlined, so that each pair of dtypes has its own registers.
template <class By>
[[gnu::noinline]] __device__ bits_of<typename By::Reported> unscale_group(const List& list,
                                                                          const BlockWork& group,
                                                                          float scale, Sums* now) {
  using Reported = typename By::Reported;
  const TypedPiece head = list.pieces[group.first];
  const bool is_long = head.size > squares_per_sum;
  const unsigned count = count_pieces(head, group);
  const By by{scale};
  bits_of<Reported> max_abs = 0;
  for (unsigned i = (blockIdx.y * blockDim.x + threadIdx.x) / 32; i < count;
       i += gridDim.y * blockDim.x / 32) {
    const TypedPiece piece =
        is_long ? head.cut(i * most_of_warp, most_of_warp) : list.pieces[group.first + i];
    const bits_of<Reported> here = by.run(piece);
    if (here >= Reported::infinity_bits) note_overflow(list, piece, now);
    max_abs = hd::larger_of(max_abs, here);
  }
  return max_abs;
}
/// Several blocks, blockIdx.y, share a group.
template <bool adds>
__global__ void __launch_bounds__(threads, 2) unscale_kernel(List list, Sums* now) {
  const BlockWork group = list.groups[blockIdx.x];
  const TypedPiece head = list.pieces[group.first];
  // Nothing is left for this block
  if (blockIdx.y * blockDim.x / 32 >= count_pieces(head, group)) return;
  const float scale = now->loss_scale;
  const bool is_exact = hd::is_power_of_two(scale);  // then the reciprocal is exact, too
  MaxAbs max_abs;
  with_format(head.from, [&](auto format) {
    using From = decltype(format);
    const auto run = [&](auto to) {
      using To = decltype(to);
      using Exact = Unscale<From, To, adds, true>;
      using Any = Unscale<From, To, adds, false>;
      max_abs.add<typename Any::Reported>(is_exact ? unscale_group<Exact>(list, group, scale, now)
                                                   : unscale_group<Any>(list, group, scale, now));
    };
    constexpr bool is_one = adds || std::is_same_v<From, binary32>;  // pair of dtypes
    if (is_one || head.to != head.from) return run(binary32());
    if constexpr (!is_one) run(From());
  });
  add_max_abs(max_abs, 1.0, now);
}
}  // namespace gpu::detail
HEADROOM_DETAIL_END_NAMESPACE
