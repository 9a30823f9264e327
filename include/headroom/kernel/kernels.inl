// The loops over elements. Each file of kernel/isa/ includes this file inside its namespace and its target region, with its own
// registers in scope. So there is no include guard here, no intrinsic and no macro.
//
// Elements are accessed as bytes: they may have any C++ type of the format and any alignment. Source and destination may be the
// same memory if the formats have the same size. Elements left over after whole registers go through the same instructions, so
// a result does not depend on an element's position. Unused lanes are zero, which changes no maximum and no sum. Maxima stay in
// registers from piece to piece.

// ---- scale, unscale, cast, add: load, widen, apply, narrow, store ----

template <Op op, class Compute>
inline Compute applied(Compute value, Compute factor) noexcept {
  if constexpr (op == Op::scale || op == Op::add_scaled || op == Op::quantize) {
    return multiplied(value, factor);
  } else if constexpr (op == Op::unscale || op == Op::add_unscaled) {
    return divided(value, factor);
  } else {
    return value;
  }
}
template <Op op>
inline constexpr bool adds = op == Op::add_scaled || op == Op::add_unscaled;
/// Whether an op reports magnitudes of the source. (A cast reports none, and 8-bit registers have no `larger`.)
template <Op op, class Out>
inline constexpr bool reports_source = op == Op::quantize || (op == Op::cast && is_fp8<Out>);
/// The format of the magnitudes that an op reports.
template <Op op, class In, class Out>
using reported_format =
    std::conditional_t<adds<op>, compute_format<compute_for<In, Out>>, std::conditional_t<reports_source<op, Out>, In, Out>>;
/// The type of a register with the largest of these magnitudes.
template <Op op, class In, class Out, class Compute>
constexpr auto no_magnitudes() noexcept {
  if constexpr (reports_source<op, Out>) {
    return decltype(load<lanes_of<compute_for<In, Out>>>(In{}, nullptr)){};
  } else {
    return decltype(narrow(reported_format<op, In, Out>{}, Compute{})){};
  }
}
/// The register type of loops over whole registers. Ops that add never use a pair.
template <Op op, class In, class Out>
using loop_register = std::conditional_t<adds<op>, compute_for<In, Out>, wide_compute_for<In, Out>>;

template <std::size_t Lanes, bool Whole, class Format>
inline auto load_up_to(Format, const unsigned char* source, std::size_t n) noexcept {
  if constexpr (Whole) {
    return load<Lanes>(Format{}, source);
  } else if constexpr (is_fp8<Format>) {
    decltype(load<Lanes>(Format{}, source)) bits{};
    std::memcpy(&bits, source, n);
    return bits;
  } else {
    return load_part<Lanes>(Format{}, source, n);
  }
}
enum class Stored { whole, in_part, past_caches };
template <Stored stored, class Bits>
inline void store_up_to(unsigned char* destination, Bits bits, std::size_t n) noexcept {
  if constexpr (stored == Stored::whole) {
    store(destination, bits);
  } else if constexpr (stored == Stored::in_part) {
    store_part(destination, bits, n);
  } else {
    store_streaming(destination, bits);
  }
}

/// Processes `n` elements of a piece, from element `first` on, in one register. Updates `largest` with their magnitudes.
template <Op op, class In, class Out, Stored stored, class Compute, class Bits>
[[gnu::always_inline]] inline void transform_register(const Piece& piece, std::size_t first, std::size_t n, Compute factor,
                                                      Bits& largest) noexcept {
  constexpr std::size_t width = lanes_of<Compute>;
  constexpr bool whole = stored != Stored::in_part;
  const unsigned char* const source = element_at<In>(piece.source, first);
  unsigned char* const destination = element_at<Out>(piece.destination, first);
  const auto elements = load_up_to<width, whole>(In{}, source, n);
  if constexpr (op == Op::cast && std::is_same_v<In, Out>) return store_up_to<stored>(destination, elements, n);
  const Compute value = applied<op>(widen<Compute>(In{}, elements), factor);
  if constexpr (adds<op>) {
    const Compute before = widen<Compute>(Out{}, load_up_to<width, whole>(Out{}, destination, n));
    store_up_to<stored>(destination, narrow(Out{}, plus(before, value)), n);
    largest = max_of_abs(reported_format<op, In, Out>{}, largest, narrow(reported_format<op, In, Out>{}, value));
  } else {
    const auto bits = narrow(stored_format<op, Out>{}, value);
    store_up_to<stored>(destination, bits, n);
    if constexpr (op == Op::quantize) {
      largest = max_of_abs(In{}, largest, elements);
    } else if constexpr (op != Op::cast) {  // a cast reports none
      largest = max_of_abs(Out{}, largest, bits);
    }
  }
}

/// Processes as many whole blocks of registers as there are. With four maxima, no register waits for the one before.
template <Op op, class In, class Out, Stored stored, class Compute, class Bits, std::size_t... Register>
inline void transform_blocks(Piece& rest, Compute factor, Bits (&largest)[4], std::index_sequence<Register...>) noexcept {
  constexpr std::size_t width = lanes_of<Compute>, block = width * sizeof...(Register);
  for (; rest.size >= block; rest = after<In, Out>(rest, block)) {
    if constexpr (stored == Stored::past_caches) prefetch(element_at<In>(rest.source, 0), 1024);  // more is no faster
    (transform_register<op, In, Out, stored>(rest, Register * width, width, factor, largest[Register % 4]), ...);
  }
}
/// A block has four registers, two pairs or two quads. With AVX2 and ordinary stores it has eight registers: at one of four
/// alignments of its code, a loop of four is a fifth slower.
template <class In, class Out, Stored stored, class Compute>
constexpr std::size_t registers_per_block() noexcept {
  constexpr bool is_single = sizeof(Compute) == sizeof(compute_for<In, Out>);
  return !is_single ? (is_fp8<Out> ? 1 : 2) : lanes_of<Compute> == 8 && stored == Stored::whole ? 8 : 4;
}
template <Op op, class In, class Out, Stored stored, class Compute, class Bits>
inline void transform_blocks(Piece& rest, Compute factor, Bits (&largest)[4]) noexcept {
  constexpr std::size_t registers = registers_per_block<In, Out, stored, Compute>();
  transform_blocks<op, In, Out, stored>(rest, factor, largest, std::make_index_sequence<registers>{});
}

/// Processes one piece, which consists of whole blocks and has an aligned destination: see Streaming.
template <Op op, class In, class Out>
void transform_past_caches(const Piece* piece, const Piece*, double factor, bool, Found& found) noexcept {
  using Wide = loop_register<op, In, Out>;
  decltype(no_magnitudes<op, In, Out, Wide>()) largest[4] = {};
  Piece rest = *piece;
  transform_blocks<op, In, Out, Stored::past_caches>(rest, broadcast<Wide>(factor), largest);
  add_largest<reported_format<op, In, Out>>(
      found, largest_lane(larger(larger(largest[0], largest[1]), larger(largest[2], largest[3]))));
}

template <Op op, class In, class Out>
void transform(const Piece* piece, const Piece* last, double factor, bool streaming, Found& found) noexcept {
  using Compute = compute_for<In, Out>;
  using Wide = loop_register<op, In, Out>;
  using Format = reported_format<op, In, Out>;
  constexpr std::size_t width = lanes_of<Compute>;
  if constexpr (has_streaming_stores && !adds<op>) {
    if (streaming) {
      constexpr std::size_t block = registers_per_block<In, Out, Stored::past_caches, Wide>() * lanes_of<Wide>;
      constexpr std::size_t aligned = is_fp8<Out> ? lanes_of<Wide> : width;
      static constexpr Streaming kernels{
          &transform<op, In, Out>, &transform_past_caches<op, In, Out>, bytes_each<In>, bytes_each<Out>, aligned, block};
      kernels.run(piece, last, factor, found);
      return finish_streaming();
    }
  }
  // Blocks do not pay for one float at a time, nor for divisions in single registers, which are limited by the CPU's divider.
  constexpr bool divides = op == Op::unscale || op == Op::add_unscaled;
  constexpr bool goes_in_blocks = width > 1 && !(divides && std::is_same_v<Compute, Wide>);
  const Compute lanes = broadcast<Compute>(factor);
  const Wide wide_lanes = broadcast<Wide>(factor);
  auto largest = no_magnitudes<op, In, Out, Compute>();
  decltype(no_magnitudes<op, In, Out, Wide>()) of_blocks[4] = {};
  Piece rest{};
  while (rest.size > 0 || piece != last) {
    std::size_t n = rest.size;  // the end of a piece, after its whole registers
    if (n == 0) {
      rest = *piece++;
      n = elements_before_line<width, In, Out>(rest);
    }
    if (n > 0) {
      transform_register<op, In, Out, Stored::in_part>(rest, 0, n, lanes, largest);
      rest = after<In, Out>(rest, n);
    }
    if constexpr (goes_in_blocks) transform_blocks<op, In, Out, Stored::whole>(rest, wide_lanes, of_blocks);
    for (; rest.size >= width; rest = after<In, Out>(rest, width)) {
      transform_register<op, In, Out, Stored::whole>(rest, 0, width, lanes, largest);
    }
  }
  const auto of_all_blocks = larger(larger(of_blocks[0], of_blocks[1]), larger(of_blocks[2], of_blocks[3]));
  if constexpr (std::is_same_v<Compute, Wide>) {
    add_largest<Format>(found, largest_lane(larger(largest, of_all_blocks)));
  } else {
    add_largest<Format>(found, largest_lane(largest));
    add_largest<Format>(found, largest_lane(of_all_blocks));
  }
}

// ---- reading ----

/// The largest of `largest` and the magnitudes of `n` elements, register by register.
template <class In, class Bits>
inline Bits largest_in(const unsigned char* source, std::size_t n, Bits largest) noexcept {
  constexpr std::size_t width = read_lanes<In>, step = width * sizeof(typename In::bits_type);
  for (; n >= width; n -= width, source += step) largest = max_of_abs(In{}, largest, load<width>(In{}, source));
  return n > 0 ? max_of_abs(In{}, largest, load_part<width>(In{}, source, n)) : largest;
}

template <class In>
void max_abs(const Piece* piece, const Piece* last, double, bool, Found& found) noexcept {
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
    largest0 = largest_in<In>(source, n, largest0);
  }
  add_largest<In>(found, largest_lane(larger(larger(largest0, largest1), larger(largest2, largest3))));
}

#include <headroom/kernel/measure.inl>
#include <headroom/kernel/mx.inl>

// ---- what kernel/table.hpp chooses from ----

template <Op op, class In, class Out>
constexpr Kernel find_kernel() noexcept {
  if constexpr (op == Op::max_abs) {
    return &max_abs<In>;
  } else if constexpr (op == Op::measure) {
    return &measure<In>;
  } else if constexpr (op == Op::mx_quantize) {
    return &mx_quantize<In, Out>;
  } else {
    return &transform<op, In, Out>;
  }
}
struct Kernels {
  template <Op op, class In, class Out>
  static constexpr Kernel kernel = find_kernel<op, In, Out>();
};
