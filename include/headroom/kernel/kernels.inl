// Every loop over elements, once. Included again by each file of kernel/isa/ inside its namespace and its target region, with
// the registers of that instruction set in scope; hence no include guard, no intrinsics and no macros here.
//
// `source` and `destination` are bytes: the elements may be of any C++ type with the format, aligned or not, and may be the
// same memory where the formats are of one size. What is left over after whole registers is loaded into a register, too, and
// goes through the same instructions, so an element's result does not depend on where it lies. The lanes after it are zeros:
// they change no maximum and no sum.

// ---- what is done to each element ----

struct multiply {
  template <class Compute>
  static Compute apply(Compute value, Compute factor) noexcept {
    return multiplied(value, factor);
  }
};
struct divide {
  template <class Compute>
  static Compute apply(Compute value, Compute factor) noexcept {
    return divided(value, factor);
  }
};
struct convert {
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

/// destination = Verb(source, factor) for `n` elements, widened to float (double where one side is double) and rounded once
/// into `Out`. Returns the largest of the stored bits without their sign: below Out::infinity_bits, all that was stored is
/// finite. Streaming: the destination is aligned to `streaming_alignment`, and finish_streaming() is called afterwards.
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
  for (; n >= 4 * width; n -= 4 * width, source += 4 * in_step, destination += 4 * out_step) {
    if constexpr (Streaming) prefetch_ahead(source);
    const auto bits0 = transform_register<Verb, In, Out, Streaming>(source, destination, lanes);
    const auto bits1 = transform_register<Verb, In, Out, Streaming>(source + in_step, destination + out_step, lanes);
    const auto bits2 = transform_register<Verb, In, Out, Streaming>(source + 2 * in_step, destination + 2 * out_step, lanes);
    const auto bits3 = transform_register<Verb, In, Out, Streaming>(source + 3 * in_step, destination + 3 * out_step, lanes);
    largest0 = max_of_abs(Out{}, largest0, bits0);
    largest1 = max_of_abs(Out{}, largest1, bits1);
    largest2 = max_of_abs(Out{}, largest2, bits2);
    largest3 = max_of_abs(Out{}, largest3, bits3);
  }
  for (; n >= width; n -= width, source += in_step, destination += out_step) {
    largest0 = max_of_abs(Out{}, largest0, transform_register<Verb, In, Out>(source, destination, lanes));
  }
  if (n > 0) {
    const Compute value = widen<Compute>(In{}, load_part<width>(In{}, source, n));
    const Bits bits = narrow(Out{}, Verb::apply(value, lanes));
    store_part(destination, bits, n);
    largest1 = max_of_abs(Out{}, largest1, bits);
  }
  return largest_lane(larger(larger(largest0, largest1), larger(largest2, largest3)));
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

/// Sixteen elements of measure_bits, or the `n` that are left; a register at a time, by recursion, because a loop that is not
/// unrolled keeps the sums in memory.
template <class In, std::size_t Register, bool Whole, class Bits, class Sums>
inline Bits measure_group(const unsigned char* source, std::size_t n, Bits largest, Sums& sums) noexcept {
  using Compute = float_lanes<In>;
  constexpr std::size_t width = lanes_of<Compute>, begin = Register * width;
  if (!Whole && n <= begin) return largest;
  Bits bits;
  const unsigned char* const first = source + begin * sizeof(typename In::bits_type);
  if (Whole || n >= begin + width) {
    bits = load<width>(In{}, first);
  } else {
    bits = load_part<width>(In{}, first, n - begin);
  }
  largest = max_of_abs(In{}, largest, bits);
  add_squares(sums[Register], widen<Compute>(In{}, bits));
  if constexpr ((Register + 1) * width < sum_lanes) {
    return measure_group<In, Register + 1, Whole>(source, n, largest, sums);
  } else {
    return largest;
  }
}

/// As max_abs_bits, and the sum of squares in double. Element i adds to the i-mod-16th of 16 sums, whatever the width of a
/// register, and the 16 are added in one fixed order: every instruction set rounds alike.
template <class In>
inline MeasuredBits<In> measure_bits(const void* elements, std::size_t n) noexcept {
  constexpr std::size_t size = sizeof(typename In::bits_type), width = lanes_of<float_lanes<In>>;
  const auto* source = static_cast<const unsigned char*>(elements);
  decltype(load<width>(In{}, nullptr)) largest{};
  sums_register sums[sum_lanes / width] = {};
  for (; n >= sum_lanes; n -= sum_lanes, source += sum_lanes * size) {
    largest = measure_group<In, 0, true>(source, sum_lanes, largest, sums);
  }
  largest = measure_group<In, 0, false>(source, n, largest, sums);
  double lanes[sum_lanes];
  for (std::size_t i = 0; i < sum_lanes / width; ++i) store_sums(lanes + i * width, sums[i]);
  return {largest_lane(largest), sum_of_lanes(lanes)};
}

// ---- what kernel/table.hpp chooses from: one entry a kernel ----

template <class In, class Out>
inline constexpr TransformKernels<In, Out> transform_row = {&transform<multiply, In, Out>, &transform<divide, In, Out>,
                                                            &transform<convert, In, Out>};
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
