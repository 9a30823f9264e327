// Every loop over elements, once. Included again by each file of kernel/isa/ inside its namespace and its target region, with
// the registers of that instruction set in scope; hence no include guard, no intrinsics and no macros here.
//
// `source` and `destination` are bytes: the elements may be of any C++ type with the format, aligned or not, and may be the
// same memory where the formats are of one size. What is left over after whole registers is loaded into a register, too, and
// goes through the same instructions, so an element's result does not depend on where it lies. The lanes after it are zeros:
// they change no maximum and no sum.

// ---- what is done to each element ----

struct multiply {
  static constexpr bool reports = true;
  template <class Compute>
  static Compute apply(Compute value, Compute factor) noexcept {
    return multiplied(value, factor);
  }
};
struct divide {
  static constexpr bool reports = true;
  template <class Compute>
  static Compute apply(Compute value, Compute factor) noexcept {
    return divided(value, factor);
  }
};
struct convert {
  static constexpr bool reports = false;  // nobody asks what was cast
  template <class Compute>
  static Compute apply(Compute value, Compute) noexcept {
    return value;
  }
};

/// One register: load, widen, apply, narrow, store; returns what was stored.
template <class Verb, class In, class Out, bool Streaming = false, class Compute>
inline auto transform_register(const unsigned char* source, unsigned char* destination, Compute factor) noexcept {
  const Compute value = widen<Compute>(In{}, load<lanes_of<Compute>>(In{}, source));
  const auto bits = narrow(Out{}, Verb::apply(value, factor));
  if constexpr (Streaming) {
    store_streaming(destination, bits);
  } else {
    store(destination, bits);
  }
  return bits;
}

template <class Verb, class Out, class Bits>
inline Bits largest_with(Out, Bits largest, Bits bits) noexcept {
  if constexpr (Verb::reports) {
    return max_of_abs(Out{}, largest, bits);
  } else {
    return largest;
  }
}

/// destination = Verb(source, factor) for `n` elements, widened to float (double where one side is double) and rounded once
/// into `Out`. Returns the largest of the stored bits without their sign: up to Out::largest_finite_bits, all that was
/// stored is finite; 0 where Verb does not report. Streaming: the destination is aligned to `streaming_alignment`, and
/// finish_streaming() is called afterwards.
template <class Verb, class In, class Out, bool Streaming = false>
inline typename Out::bits_type transform(const void* source_elements, void* destination_elements, std::size_t n,
                                         double factor) noexcept {
  using Compute = compute_for<In, Out>;
  using Bits = decltype(narrow(Out{}, Compute{}));
  constexpr std::size_t width = lanes_of<Compute>;
  constexpr std::size_t in_size = sizeof(typename In::bits_type), out_size = sizeof(typename Out::bits_type);
  constexpr std::size_t in_step = width * in_size, out_step = width * out_size;
  const auto* source = static_cast<const unsigned char*>(source_elements);
  auto* destination = static_cast<unsigned char*>(destination_elements);
  const Compute lanes = broadcast<Compute>(factor);

  // Four maxima, so that no iteration waits for the one before.
  Bits largest0{}, largest1{}, largest2{}, largest3{};
  std::size_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    const unsigned char* const from = source + i * in_size;
    unsigned char* const to = destination + i * out_size;
    if constexpr (Streaming) prefetch_ahead(from);
    const auto bits0 = transform_register<Verb, In, Out, Streaming>(from, to, lanes);
    const auto bits1 = transform_register<Verb, In, Out, Streaming>(from + in_step, to + out_step, lanes);
    const auto bits2 = transform_register<Verb, In, Out, Streaming>(from + 2 * in_step, to + 2 * out_step, lanes);
    const auto bits3 = transform_register<Verb, In, Out, Streaming>(from + 3 * in_step, to + 3 * out_step, lanes);
    largest0 = largest_with<Verb>(Out{}, largest0, bits0);
    largest1 = largest_with<Verb>(Out{}, largest1, bits1);
    largest2 = largest_with<Verb>(Out{}, largest2, bits2);
    largest3 = largest_with<Verb>(Out{}, largest3, bits3);
  }
  for (; i + width <= n; i += width) {
    const auto bits = transform_register<Verb, In, Out>(source + i * in_size, destination + i * out_size, lanes);
    largest0 = largest_with<Verb>(Out{}, largest0, bits);
  }
  if (i < n) {
    const Compute value = widen<Compute>(In{}, load_part<width>(In{}, source + i * in_size, n - i));
    const Bits bits = narrow(Out{}, Verb::apply(value, lanes));
    store_part(destination + i * out_size, bits, n - i);
    largest1 = largest_with<Verb>(Out{}, largest1, bits);
  }
  return largest_lane(larger(larger(largest0, largest1), larger(largest2, largest3)));
}

/// From sixteen bits to the same sixteen bits times 2^exponent, which is added to the exponents, block by block, as long as
/// neither what is read nor what is stored is subnormal, Inf or NaN.
template <class In>
inline typename In::bits_type shift_exponents_or_multiply(const unsigned char* source, unsigned char* destination,
                                                          std::size_t n, int exponent, double factor) noexcept {
  constexpr int one = 1 << In::mantissa_bits, largest_finite = In::largest_finite_bits;
  const int amount = exponent * one;
  auto by =
      make_exponent_shift(In{}, amount, amount < 0 ? one - amount : one, amount < 0 ? largest_finite : largest_finite - amount);
  constexpr std::size_t block = decltype(by)::elements;
  int largest = 0;
  std::size_t unshifted = 4 * block;  // elements that are multiplied where a block fails: more, the more blocks do
  while (n > 0) {
    std::size_t done = block;
    if (n >= block && shift_exponents(source, destination, by)) {
      unshifted = 4 * block;
    } else {
      done = n < unshifted ? n : unshifted;
      unshifted = unshifted < 64 * block ? 2 * unshifted : unshifted;
      const int stored = transform<multiply, In, In>(source, destination, done, factor);
      largest = stored > largest ? stored : largest;
    }
    n -= done;
    source += 2 * done;
    destination += 2 * done;
  }
  const int shifted = largest_lane(by.largest);
  if (shifted > 0 && shifted + amount > largest) largest = shifted + amount;
  return static_cast<typename In::bits_type>(largest);
}
template <class In>
inline typename In::bits_type multiply_sixteen_bits(const void* source, void* destination, std::size_t n,
                                                    double factor) noexcept {
  const auto factor_bits = headroom::detail::bit_cast<std::uint64_t>(factor);
  const int exponent = static_cast<int>(factor_bits >> binary64::mantissa_bits) - binary64::bias;
  constexpr int limit = std::is_same_v<In, binary16> ? 30 : 126;  // a shift has to fit 16 bits, the factor has to be a float
  const bool is_small = n < decltype(make_exponent_shift(In{}, 0, 0, 0))::elements;
  if (is_small || (factor_bits & binary64::mantissa_mask) != 0 || exponent < -limit || exponent > limit) {
    return transform<multiply, In, In>(source, destination, n, factor);
  }
  return shift_exponents_or_multiply<In>(static_cast<const unsigned char*>(source), static_cast<unsigned char*>(destination), n,
                                         exponent, factor);
}

/// The same with streaming stores, but for what lies before the first aligned element. Without an aligned element there is
/// none.
template <class Verb, class In, class Out>
inline typename Out::bits_type transform_streaming(const void* source_elements, void* destination_elements, std::size_t n,
                                                   double factor) noexcept {
  constexpr std::size_t in_size = sizeof(typename In::bits_type), out_size = sizeof(typename Out::bits_type);
  const auto* source = static_cast<const unsigned char*>(source_elements);
  auto* destination = static_cast<unsigned char*>(destination_elements);
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(destination) % streaming_alignment;
  const std::size_t head = (streaming_alignment - beyond) % streaming_alignment / out_size;
  if (beyond % out_size != 0 || head >= n) return transform<Verb, In, Out>(source, destination, n, factor);

  const auto largest0 = transform<Verb, In, Out>(source, destination, head, factor);
  const auto largest1 =
      transform<Verb, In, Out, true>(source + head * in_size, destination + head * out_size, n - head, factor);
  finish_streaming();
  return largest0 > largest1 ? largest0 : largest1;
}

/// The largest of the bits of `n` elements without their sign.
template <class In>
inline typename In::bits_type max_abs_bits(const void* elements, std::size_t n) noexcept {
  constexpr std::size_t width = read_lanes<In>, step = width * sizeof(typename In::bits_type);
  using Bits = decltype(load<width>(In{}, nullptr));
  const auto* source = static_cast<const unsigned char*>(elements);
  Bits largest0{}, largest1{}, largest2{}, largest3{};
  for (; n >= 4 * width; n -= 4 * width, source += 4 * step) {
    largest0 = max_of_abs(In{}, largest0, load<width>(In{}, source));
    largest1 = max_of_abs(In{}, largest1, load<width>(In{}, source + step));
    largest2 = max_of_abs(In{}, largest2, load<width>(In{}, source + 2 * step));
    largest3 = max_of_abs(In{}, largest3, load<width>(In{}, source + 3 * step));
  }
  for (; n >= width; n -= width, source += step) largest0 = max_of_abs(In{}, largest0, load<width>(In{}, source));
  if (n > 0) largest1 = max_of_abs(In{}, largest1, load_part<width>(In{}, source, n));
  return largest_lane(larger(larger(largest0, largest1), larger(largest2, largest3)));
}

template <class Compute, class In>
inline auto doubles_at(In, const unsigned char* source) noexcept {
  return to_doubles(widen<Compute>(In{}, load<lanes_of<Compute>>(In{}, source)));
}

/// `sum_lanes` elements of measure_bits, or the `n` that are left; a register at a time, by recursion, because a loop that is
/// not unrolled keeps the sums in memory.
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

/// As max_abs_bits, and the sum of squares in double. Element i adds to the i-mod-32nd of 32 sums, whatever the width of a
/// register, and these are added in one fixed order, i to i + 16, then i to i + 8, and so on: every instruction set rounds
/// alike.
template <class In>
inline MeasuredBits<In> measure_bits(const void* elements, std::size_t n) noexcept {
  using Compute = float_lanes<In>;
  constexpr std::size_t size = sizeof(typename In::bits_type), width = lanes_of<Compute>;
  const auto* source = static_cast<const unsigned char*>(elements);
  decltype(load<width>(In{}, nullptr)) largest{};
  decltype(to_doubles(Compute{})) sums[sum_lanes / width] = {};
  for (; n >= sum_lanes; n -= sum_lanes, source += sum_lanes * size) {
    largest = measure_group<In, 0, true>(source, sum_lanes, largest, sums);
  }
  largest = measure_group<In, 0, false>(source, n, largest, sums);
  double lanes[width];
  store_sums(lanes, sum_of_registers<0, 1>(sums));
  return {largest_lane(largest), sum_of_lanes(lanes, width)};
}

// ---- what kernel/table.hpp chooses from: one entry a kernel ----

template <class In, class Out>
constexpr TransformKernels<In, Out> make_row() {
  if constexpr (has_exponent_shift && std::is_same_v<In, Out> && sizeof(typename In::bits_type) == 2) {
    return {&multiply_sixteen_bits<In>, &transform<divide, In, Out>, &transform<convert, In, Out>};
  } else {
    return {&transform<multiply, In, Out>, &transform<divide, In, Out>, &transform<convert, In, Out>};
  }
}
template <class In, class Out>
inline constexpr TransformKernels<In, Out> transform_row = make_row<In, Out>();
template <class In, class Out>
constexpr TransformKernels<In, Out> make_streaming_row() {
  if constexpr (has_streaming_stores) {
    return {&transform_streaming<multiply, In, Out>, &transform_streaming<divide, In, Out>,
            &transform_streaming<convert, In, Out>};
  } else {
    return transform_row<In, Out>;
  }
}
template <class In, class Out>
inline constexpr TransformKernels<In, Out> streaming_row = make_streaming_row<In, Out>();
template <class In>
inline constexpr ReadKernels<In> read_row = {&max_abs_bits<In>, &measure_bits<In>};
