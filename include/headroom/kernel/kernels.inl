// Every loop over elements, once. Included again by each file of kernel/isa/ inside its namespace and its target region, with
// the registers of that instruction set in scope; hence no include guard, no intrinsics and no macros here.
//
// Elements are read and written as bytes: they may be of any C++ type with the format, aligned or not, and source and
// destination may be the same memory where the formats are of one size. What is left over after whole registers is loaded into
// a register, too, and goes through the same instructions, so an element's result does not depend on where it lies. The lanes
// after it are zeros: they change no maximum and no sum. Maxima stay in registers from piece to piece.

// ---- one register: load, widen, apply, narrow, store ----

template <Op op, class Compute>
inline Compute applied(Compute value, Compute factor) noexcept {
  if constexpr (op == Op::scale || op == Op::add_scaled) {
    return multiplied(value, factor);
  } else if constexpr (op == Op::unscale || op == Op::add_unscaled) {
    return divided(value, factor);
  } else {
    return value;
  }
}
template <Op op>
inline constexpr bool adds = op == Op::add_scaled || op == Op::add_unscaled;
/// Where a sum is stored, one register of floats is enough for each step.
template <Op op, class In, class Out>
using compute_of = compute_for<In, std::conditional_t<adds<op> && std::is_same_v<Out, brain16>, binary32, Out>>;
/// The format of the magnitudes that an op reports.
template <Op op, class In, class Out>
using reported_format = std::conditional_t<adds<op>, compute_format<compute_of<op, In, Out>>, Out>;

template <std::size_t Lanes, bool Whole, class Format>
inline auto load_up_to(Format, const unsigned char* source, std::size_t n) noexcept {
  if constexpr (Whole) {
    return load<Lanes>(Format{}, source);
  } else {
    return load_part<Lanes>(Format{}, source, n);
  }
}
template <bool Whole, class Bits>
inline void store_up_to(unsigned char* destination, Bits bits, std::size_t n) noexcept {
  if constexpr (Whole) {
    store(destination, bits);
  } else {
    store_part(destination, bits, n);
  }
}

/// The `n` elements of a register, all of them where Whole. Returns what is reported of them.
template <Op op, class In, class Out, bool Whole, bool Streaming, class Compute>
inline auto transform_register(const unsigned char* source, unsigned char* destination, std::size_t n,
                               Compute factor) noexcept {
  constexpr std::size_t width = lanes_of<Compute>;
  const Compute value = applied<op>(widen<Compute>(In{}, load_up_to<width, Whole>(In{}, source, n)), factor);
  if constexpr (adds<op>) {
    const Compute before = widen<Compute>(Out{}, load_up_to<width, Whole>(Out{}, destination, n));
    store_up_to<Whole>(destination, narrow(Out{}, plus(before, value)), n);
    return narrow(compute_format<Compute>{}, value);
  } else {
    const auto bits = narrow(Out{}, value);
    if constexpr (Streaming) store_streaming(destination, bits);
    if constexpr (!Streaming) store_up_to<Whole>(destination, bits, n);
    return bits;
  }
}

template <Op op, class Format, class Bits>
inline Bits largest_with(Format, Bits largest, Bits bits) noexcept {
  if constexpr (op != Op::cast) {
    return max_of_abs(Format{}, largest, bits);
  } else {
    return largest;  // nobody asks what was cast
  }
}

// ---- scale, unscale, cast, add ----

/// Whether four registers at a time are worth their code: not where one element at a time is rounded to a short format.
template <class Compute, class Out>
inline constexpr bool goes_in_fours = is_unrolled &&
                                      (lanes_of<Compute> > 1 || sizeof(typename Out::bits_type) >= sizeof(float));

/// Streaming: destinations are aligned to `streaming_alignment`, sizes are multiples of four registers, and finish_streaming()
/// is called afterwards.
template <Op op, class In, class Out, bool Streaming = false>
inline void transform(const Piece* piece, const Piece* last, double factor, Found& found) noexcept {
  using Compute = compute_of<op, In, Out>;
  using Format = reported_format<op, In, Out>;
  using Bits = decltype(narrow(Format{}, Compute{}));
  constexpr std::size_t width = lanes_of<Compute>;
  constexpr std::size_t in_step = width * sizeof(typename In::bits_type), out_step = width * sizeof(typename Out::bits_type);
  const Compute lanes = broadcast<Compute>(factor);

  // Four maxima, so that no iteration waits for the one before.
  Bits largest0{}, largest1{}, largest2{}, largest3{};
  for (; piece != last; ++piece) {
    const auto* from = static_cast<const unsigned char*>(piece->source);
    auto* to = static_cast<unsigned char*>(piece->destination);
    std::size_t n = piece->size;
    for (; goes_in_fours<Compute, Out> && n >= 4 * width; n -= 4 * width, from += 4 * in_step, to += 4 * out_step) {
      if constexpr (Streaming) prefetch_ahead(from);
      const auto bits0 = transform_register<op, In, Out, true, Streaming>(from, to, width, lanes);
      const auto bits1 = transform_register<op, In, Out, true, Streaming>(from + in_step, to + out_step, width, lanes);
      const auto bits2 = transform_register<op, In, Out, true, Streaming>(from + 2 * in_step, to + 2 * out_step, width, lanes);
      const auto bits3 = transform_register<op, In, Out, true, Streaming>(from + 3 * in_step, to + 3 * out_step, width, lanes);
      largest0 = largest_with<op>(Format{}, largest0, bits0);
      largest1 = largest_with<op>(Format{}, largest1, bits1);
      largest2 = largest_with<op>(Format{}, largest2, bits2);
      largest3 = largest_with<op>(Format{}, largest3, bits3);
    }
    if constexpr (Streaming) continue;
    for (; n >= width; n -= width, from += in_step, to += out_step) {
      const auto bits = transform_register<op, In, Out, true, false>(from, to, width, lanes);
      largest0 = largest_with<op>(Format{}, largest0, bits);
    }
    if (n > 0) {
      const auto bits = transform_register<op, In, Out, false, false>(from, to, n, lanes);
      largest1 = largest_with<op>(Format{}, largest1, bits);
    }
  }
  add_largest<Format>(found, largest_lane(larger(larger(largest0, largest1), larger(largest2, largest3))));
}

#include <headroom/kernel/streaming.inl>

// ---- sixteen bits times a power of two: the exponent is added in integers, block by block, as long as neither what is read
// nor what is stored is subnormal, Inf or NaN ----

template <class In>
inline void shift_exponents_or_scale(const Piece& piece, int exponent, double factor, Found& found) noexcept {
  constexpr int one = 1 << In::mantissa_bits, largest_finite = In::largest_finite_bits;
  const int amount = exponent * one;
  auto by =
      make_exponent_shift(In{}, amount, amount < 0 ? one - amount : one, amount < 0 ? largest_finite : largest_finite - amount);
  constexpr std::size_t block = decltype(by)::elements;
  std::size_t unshifted = 4 * block;  // elements that are multiplied where a block fails: more, the more blocks do
  Piece rest = piece;
  while (rest.size > 0) {
    const auto* source = static_cast<const unsigned char*>(rest.source);
    auto* destination = static_cast<unsigned char*>(rest.destination);
    std::size_t done = block;
    if (rest.size >= block && shift_exponents(source, destination, by)) {
      unshifted = 4 * block;
    } else {
      done = rest.size < unshifted ? rest.size : unshifted;
      unshifted = unshifted < 64 * block ? 2 * unshifted : unshifted;
      const Piece multiplied{source, destination, done};
      transform<Op::scale, In, In>(&multiplied, &multiplied + 1, factor, found);
    }
    rest = {source + 2 * done, destination + 2 * done, rest.size - done};
  }
  const int shifted = largest_lane(by.largest);
  if (shifted > 0) add_largest<In>(found, static_cast<typename In::bits_type>(shifted + amount));
}
template <class In>
inline void scale_sixteen_bits(const Piece* piece, const Piece* last, double factor, Found& found) noexcept {
  constexpr std::size_t block = decltype(make_exponent_shift(In{}, 0, 0, 0))::elements;
  constexpr int limit = std::is_same_v<In, binary16> ? 30 : 126;  // a shift has to fit 16 bits, the factor has to be a float
  const auto factor_bits = bit_cast<std::uint64_t>(factor);
  const int exponent = static_cast<int>(factor_bits >> binary64::mantissa_bits) - binary64::bias;
  const bool shifts = (factor_bits & binary64::mantissa_mask) == 0 && exponent >= -limit && exponent <= limit;
  while (piece != last) {
    const Piece* const first = piece;
    while (piece != last && !(shifts && piece->size >= block)) ++piece;
    if (piece != first) transform<Op::scale, In, In>(first, piece, factor, found);
    if (piece != last) shift_exponents_or_scale<In>(*piece++, exponent, factor, found);
  }
}

// ---- reading ----

template <class In>
inline void max_abs(const Piece* piece, const Piece* last, double, Found& found) noexcept {
  constexpr std::size_t width = read_lanes<In>, step = width * sizeof(typename In::bits_type);
  using Bits = decltype(load<width>(In{}, nullptr));
  Bits largest0{}, largest1{}, largest2{}, largest3{};
  for (; piece != last; ++piece) {
    const auto* source = static_cast<const unsigned char*>(piece->source);
    std::size_t n = piece->size;
    for (; n >= 4 * width; n -= 4 * width, source += 4 * step) {
      largest0 = max_of_abs(In{}, largest0, load<width>(In{}, source));
      largest1 = max_of_abs(In{}, largest1, load<width>(In{}, source + step));
      largest2 = max_of_abs(In{}, largest2, load<width>(In{}, source + 2 * step));
      largest3 = max_of_abs(In{}, largest3, load<width>(In{}, source + 3 * step));
    }
    for (; n >= width; n -= width, source += step) largest0 = max_of_abs(In{}, largest0, load<width>(In{}, source));
    if (n > 0) largest1 = max_of_abs(In{}, largest1, load_part<width>(In{}, source, n));
  }
  add_largest<In>(found, largest_lane(larger(larger(largest0, largest1), larger(largest2, largest3))));
}

template <class Compute, class In>
inline auto doubles_at(In, const unsigned char* source) noexcept {
  return to_doubles(widen<Compute>(In{}, load<lanes_of<Compute>>(In{}, source)));
}

/// `sum_lanes` elements, or the `n` that are left; a register at a time, by recursion, because a loop that is not unrolled
/// keeps the sums in memory.
template <class In, std::size_t Register, bool Whole, class Bits, class Sums>
inline Bits measure_group(const unsigned char* source, std::size_t n, Bits largest, Sums& sums) noexcept {
  using Compute = float_lanes<In>;
  constexpr std::size_t width = lanes_of<Compute>, begin = Register * width;
  if (!Whole && n <= begin) return largest;
  const unsigned char* const first = source + begin * sizeof(typename In::bits_type);
  if (Whole || n >= begin + width) {
    largest = max_of_abs(In{}, largest, load<width>(In{}, first));
    add_squares(sums[Register], doubles_at<Compute>(In{}, first));
  } else {
    const Bits bits = load_part<width>(In{}, first, n - begin);
    largest = max_of_abs(In{}, largest, bits);
    add_squares(sums[Register], to_doubles(widen<Compute>(In{}, bits)));
  }
  if constexpr ((Register + 1) * width < sum_lanes) {
    return measure_group<In, Register + 1, Whole>(source, n, largest, sums);
  } else {
    return largest;
  }
}

/// The sums in `Begin` and every `Step`-th register after it; first of all those are added that are furthest from each other.
template <std::size_t Begin, std::size_t Step, class Sums, std::size_t Count>
inline Sums sum_of_registers(const Sums (&sums)[Count]) noexcept {
  if constexpr (Step == Count) {
    return sums[Begin];
  } else {
    return added(sum_of_registers<Begin, 2 * Step>(sums), sum_of_registers<Begin + Step, 2 * Step>(sums));
  }
}

/// Element i adds to the i-mod-32nd of 32 sums, whatever the width of a register, and these are added in one fixed order, i to
/// i + 16, then i to i + 8, and so on: every instruction set rounds alike.
template <class In>
inline void measure_chunk(const unsigned char* source, std::size_t n, Found& found) noexcept {
  using Compute = float_lanes<In>;
  constexpr std::size_t size = sizeof(typename In::bits_type), width = lanes_of<Compute>;
  decltype(load<width>(In{}, nullptr)) largest{};
  decltype(to_doubles(Compute{})) sums[sum_lanes / width] = {};
  for (; n >= sum_lanes; n -= sum_lanes, source += sum_lanes * size) {
    largest = measure_group<In, 0, true>(source, sum_lanes, largest, sums);
  }
  largest = measure_group<In, 0, false>(source, n, largest, sums);
  double lanes[width];
  store_sums(lanes, sum_of_registers<0, 1>(sums));
  add_largest<In>(found, largest_lane(largest));
  add_to_sum(found, sum_of_lanes(lanes, width));
}
/// The sums of chunks are added in their order, which is the same however the pieces are shared out among threads.
template <class In>
inline void measure(const Piece* piece, const Piece* last, double, Found& found) noexcept {
  for (; piece != last; ++piece) {
    const auto* source = static_cast<const unsigned char*>(piece->source);
    for (std::size_t begin = 0; begin < piece->size; begin += chunk_size) {
      const std::size_t n = piece->size - begin < chunk_size ? piece->size - begin : chunk_size;
      measure_chunk<In>(source + begin * sizeof(typename In::bits_type), n, found);
    }
  }
}

// ---- what kernel/table.hpp chooses from ----

template <Op op, class In, class Out>
constexpr Kernel kernel_for() noexcept {
  if constexpr (op == Op::max_abs) {
    return &max_abs<In>;
  } else if constexpr (op == Op::measure) {
    return &measure<In>;
  } else if constexpr (op == Op::scale && has_exponent_shift && std::is_same_v<In, Out> && is_sixteen_bits<In>) {
    return &scale_sixteen_bits<In>;
  } else if constexpr (ordinary(op) == op) {
    return &transform<op, In, Out>;
  } else if constexpr (has_streaming_stores) {
    return &transform_streaming<ordinary(op), In, Out>;
  } else {
    return &transform<ordinary(op), In, Out>;
  }
}
struct Kernels {
  template <Op op, class In, class Out>
  static constexpr Kernel kernel = kernel_for<op, In, Out>();
};
