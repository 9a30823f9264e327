// The loops over elements, once. Included again by each instruction set's file inside its namespace and its target region, with
// its registers in scope; hence no include guard, no intrinsics and no macros here.
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

/// Less than a register by way of memory, where loops are to be short.
template <Op op, class In, class Out>
void transform_rest(const unsigned char* from, unsigned char* to, std::size_t n, double factor, Found& found) noexcept;

/// From how many elements on it pays to begin at a cache line: where those before it go as part of a register, and where they
/// take a call.
inline constexpr std::size_t worth_a_register = 192, worth_a_call = 1024;

/// Streaming: destinations begin at a cache line, so that whole ones are written, sizes are multiples of four registers, and
/// finish_streaming() is called afterwards. Stops before a piece of `too_many` elements or more, and returns where.
template <Op op, class In, class Out, bool Streaming = false>
inline const Piece* transform_below(std::size_t too_many, const Piece* piece, const Piece* last, double factor,
                                    Found& found) noexcept {
  using Compute = compute_of<op, In, Out>;
  using Format = reported_format<op, In, Out>;
  using Bits = decltype(narrow(Format{}, Compute{}));
  constexpr std::size_t width = lanes_of<Compute>;
  constexpr std::size_t in_step = width * sizeof(typename In::bits_type), out_step = width * sizeof(typename Out::bits_type);
  constexpr bool by_destination = out_step > in_step;  // begins at a line; shorter registers lie within one mostly
  constexpr bool begins_at_line = is_unrolled && !Streaming && (by_destination ? out_step : 2 * in_step) >= cache_line;
  static_assert(goes_in_fours<Compute, Out> || !Streaming, "only fours stream");
  const Compute lanes = broadcast<Compute>(factor);
  // Four maxima, so that no iteration waits for the one before.
  Bits largest0{}, largest1{}, largest2{}, largest3{};
  for (; piece != last && piece->size < too_many; ++piece) {
    const auto* from = static_cast<const unsigned char*>(piece->source);
    auto* to = static_cast<unsigned char*>(piece->destination);
    std::size_t n = piece->size;
    if constexpr (begins_at_line) {
      const std::size_t head = by_destination ? elements_to_line<Out, out_step, worth_a_register>(to, n)
                                              : elements_to_line<In, in_step, worth_a_register>(from, n);
      if (head > 0) {
        const auto bits = transform_register<op, In, Out, false, false>(from, to, head, lanes);
        largest1 = largest_with<op>(Format{}, largest1, bits);
        n -= head;
        from += head * sizeof(typename In::bits_type);
        to += head * sizeof(typename Out::bits_type);
      }
    }
    for (; goes_in_fours<Compute, Out> && n >= 4 * width; n -= 4 * width, from += 4 * in_step, to += 4 * out_step) {
      if constexpr (Streaming) prefetch(from, 1024);  // further ahead is no faster
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
    if (n == 0) continue;
    if constexpr (is_unrolled) {
      const auto bits = transform_register<op, In, Out, false, false>(from, to, n, lanes);
      largest1 = largest_with<op>(Format{}, largest1, bits);
    } else {
      transform_rest<op, In, Out>(from, to, n, factor, found);
    }
  }
  add_largest<Format>(found, largest_lane(larger(larger(largest0, largest1), larger(largest2, largest3))));
  return piece;
}
template <Op op, class In, class Out>
inline void transform(const Piece* piece, const Piece* last, double factor, Found& found) noexcept {
  (void)transform_below<op, In, Out>(~std::size_t{0}, piece, last, factor, found);
}

template <Op op, class In, class Out>
[[gnu::noinline]] void transform_rest(const unsigned char* from, unsigned char* to, std::size_t n, double factor,
                                      Found& found) noexcept {
  constexpr std::size_t in_size = sizeof(typename In::bits_type), out_size = sizeof(typename Out::bits_type);
  constexpr std::size_t width = lanes_of<compute_of<op, In, Out>>;
  unsigned char source[width * in_size] = {}, destination[width * out_size] = {};
  std::memcpy(source, from, n * in_size);
  if constexpr (adds<op>) std::memcpy(destination, to, n * out_size);
  const Piece whole{source, destination, width};
  transform<op, In, Out>(&whole, &whole + 1, factor, found);
  std::memcpy(to, destination, n * out_size);
}

#include <headroom/kernel/streaming.inl>

// ---- sixteen bits times a power of two: the exponent is added in integers, block by block, as long as neither what is read
// nor what is stored is subnormal, Inf or NaN ----

/// What is added to the bits, and the magnitudes it may be added to.
struct ExponentShift {
  int amount, lowest, highest;
};
inline constexpr std::size_t shift_block = 4 * sizeof(sixteen_bits) / sizeof(std::uint16_t);  // elements

/// Returns how many elements it has done: whole blocks, up to the first with a number that is out of range. A function by
/// itself, without a call in its loop: else the compiler keeps the constants and the maximum in memory.
template <class In>
[[gnu::noinline]] inline std::size_t shift_exponents(const Piece& piece, const ExponentShift& by, Found& found) noexcept {
  constexpr std::size_t step = sizeof(sixteen_bits), width = shift_block / 4;
  const auto amount = all_sixteen(by.amount), highest = all_sixteen(by.highest);
  const auto lowest = with_zero_last(all_sixteen(by.lowest));
  sixteen_bits largest{};
  const auto* from = static_cast<const unsigned char*>(piece.source);
  auto* to = static_cast<unsigned char*>(piece.destination);
  std::size_t left = piece.size;
  for (; left >= shift_block; left -= shift_block, from += 4 * step, to += 4 * step) {
    const auto bits0 = load<width>(In{}, from), bits1 = load<width>(In{}, from + step);
    const auto bits2 = load<width>(In{}, from + 2 * step), bits3 = load<width>(In{}, from + 3 * step);
    const auto abs0 = magnitudes(bits0), abs1 = magnitudes(bits1), abs2 = magnitudes(bits2), abs3 = magnitudes(bits3);
    const auto max = larger(larger(abs0, abs1), larger(abs2, abs3));
    const auto min = smaller(smaller(with_zero_last(abs0), with_zero_last(abs1)),  //
                             smaller(with_zero_last(abs2), with_zero_last(abs3)));
    if (any_beyond(lowest, min, max, highest)) break;
    largest = larger(largest, max);
    store(to, plus_unless_zero(bits0, abs0, amount));
    store(to + step, plus_unless_zero(bits1, abs1, amount));
    store(to + 2 * step, plus_unless_zero(bits2, abs2, amount));
    store(to + 3 * step, plus_unless_zero(bits3, abs3, amount));
  }
  const int shifted = largest_lane(largest);
  if (shifted > 0) add_largest<In>(found, static_cast<typename In::bits_type>(shifted + by.amount));
  return piece.size - left;
}
/// The first `n` elements of the piece, which it then is without.
template <class In>
inline void scale_first(Piece& piece, std::size_t n, double factor, Found& found) noexcept {
  const Piece first = part_of<In, In>(piece, 0, n);
  transform<Op::scale, In, In>(&first, &first + 1, factor, found);
  piece = part_of<In, In>(piece, n, piece.size - n);
}
template <class In>
inline void shift_exponents_or_scale(Piece piece, int exponent, double factor, Found& found) noexcept {
  constexpr int one = 1 << In::mantissa_bits, largest_finite = In::largest_finite_bits;
  const int amount = exponent * one;
  const ExponentShift by{amount, amount < 0 ? one - amount : one, amount < 0 ? largest_finite : largest_finite - amount};
  const std::size_t head = elements_to_line<In, sizeof(sixteen_bits), worth_a_call>(piece.source, piece.size);
  if (head > 0) scale_first<In>(piece, head, factor, found);
  constexpr std::size_t fewest = 256, most = 4096;
  std::size_t unshifted = fewest;  // elements that are multiplied where a block fails: more, the more blocks do
  while (piece.size > 0) {
    const std::size_t shifted = shift_exponents<In>(piece, by, found);
    piece = part_of<In, In>(piece, shifted, piece.size - shifted);
    if (shifted > 0) {
      unshifted = fewest;
    } else {
      scale_first<In>(piece, piece.size < unshifted ? piece.size : unshifted, factor, found);
      unshifted = unshifted < most ? 2 * unshifted : unshifted;
    }
  }
}
template <class In>
inline void scale_sixteen_bits(const Piece* piece, const Piece* last, double factor, Found& found) noexcept {
  if (last - piece == 1 && piece->size < shift_block) return transform<Op::scale, In, In>(piece, last, factor, found);
  constexpr int limit = std::is_same_v<In, binary16> ? 30 : 126;  // the shift fits 16 bits, the factor is a normal float
  const auto factor_bits = bit_cast<std::uint64_t>(factor);
  const int exponent = static_cast<int>(factor_bits >> binary64::mantissa_bits) - binary64::bias;
  const bool shifts = (factor_bits & binary64::mantissa_mask) == 0 && exponent >= -limit && exponent <= limit;
  while (piece != last) {
    const Piece* const first = piece;
    while (piece != last && !(shifts && piece->size >= shift_block)) ++piece;
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

#include <headroom/kernel/measure.inl>

// ---- what kernel/table.hpp chooses from ----

template <Op op, class In, class Out>
constexpr Kernel kernel_for() noexcept {
  if constexpr (op == Op::max_abs) {
    return &max_abs<In>;
  } else if constexpr (op == Op::measure) {
    return &measure<In>;
  } else if constexpr (op == Op::scale && std::is_same_v<In, Out> && is_sixteen_bits<In>) {
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
