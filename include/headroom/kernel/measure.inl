// The kernel of `measure`: the largest magnitude and the sum of squares. kernels.inl includes this file, so there is no include
// guard here, no intrinsic and no macro.
//
// Squares are summed in float within a block of 512 elements, and in double from block to block. The order is fixed, so every
// instruction set rounds alike. Element i of a block is added to sum i mod 64, whatever the width of a register. At the end of
// a block, sum i + 32 is added to sum i, then i + 16 to i, in float. Sixteen sums in double take the results. In the end i + 8
// is added to i, then i + 4, and so on.

/// If the largest magnitude of a block is above 2^most_exponent, its elements are multiplied by 2^down_exponent before they are
/// squared. If it is at most 2^least_exponent, they are multiplied by 2^up_exponent.
inline constexpr int least_exponent = -40, most_exponent = 60, up_exponent = 101, down_exponent = -70;
static_assert(2 * most_exponent + 5 < 128 && 2 * (least_exponent + up_exponent) + 5 < 128 &&
                  2 * (128 + down_exponent) + 5 < 128,
              "32 squares, which are added up in float, may be more than a float can be");

/// Whether sums of squares of the format's numbers may overflow in float; whether the squares may underflow there.
template <class In>
inline constexpr bool may_overflow =
    !std::is_same_v<In, binary64> && (In::largest_finite_bits >> In::mantissa_bits) >= In::bias + most_exponent;
template <class In>
inline constexpr bool may_vanish = !std::is_same_v<In, binary64> && In::bias + In::mantissa_bits > 62;
/// 2^exponent as bits of the format: 0 if its normal numbers are all larger, above all its patterns if they are all smaller.
template <class In>
inline constexpr auto power_bits(int exponent) noexcept {
  constexpr int beyond = (In::abs_mask >> In::mantissa_bits) + 1;
  const int field = exponent + In::bias;
  return static_cast<typename In::bits_type>((field < 0 ? 0 : field > beyond ? beyond : field) << In::mantissa_bits);
}

/// The register type in which squares are computed.
template <class In>
using float_lanes = wide_compute_for<In, In>;

/// Whether float has enough digits for the squares of the format's numbers. If so, fused and separate operations round alike.
template <class In>
inline constexpr bool squares_are_floats = 2 * (In::mantissa_bits + 1) <= binary32::mantissa_bits + 1;

template <class In, bool Scaled, class Compute>
inline Compute plus_square(Compute sum, Compute value, Compute factor) noexcept {
  if constexpr (Scaled) value = multiplied(value, factor);
  if constexpr (squares_are_floats<In>) {
    return plus_exact_square(sum, value);
  } else {
    return plus(sum, multiplied(value, value));
  }
}
/// Adds `sum_lanes` elements, one register at a time. It recurses, because a loop that is not unrolled keeps the sums in
/// memory. With two maxima, no register waits for the one before.
template <class In, bool Scaled, std::size_t Register, class Bits, class Compute, std::size_t Count>
inline void add_group(const unsigned char* source, Compute factor, Bits (&largest)[2], Compute (&sums)[Count]) noexcept {
  constexpr std::size_t width = lanes_of<Compute>, size = sizeof(typename In::bits_type);
  const unsigned char* const from = source + Register * width * size;
  // The arithmetic keeps the CPU from reading far enough ahead by itself. Prefetching only 4 KiB ahead was too little.
  if constexpr (Register * width * size % cache_line == 0) prefetch(from, 8192);
  const auto bits = load<width>(In{}, from);
  Bits& max = largest[Register * width / read_lanes<In> % 2];
  if constexpr (width == read_lanes<In>) {
    max = max_of_abs(In{}, max, bits);
  } else if constexpr (Register * width % read_lanes<In> == 0) {
    max = max_of_abs(In{}, max, load<read_lanes<In>>(In{}, from));
  }
  sums[Register] = plus_square<In, Scaled>(sums[Register], widen<Compute>(In{}, bits), factor);
  if constexpr (Register + 1 < Count) add_group<In, Scaled, Register + 1>(source, factor, largest, sums);
}
/// Adds the last `n` elements, fewer than `sum_lanes`. The caller finds their maximum if a register for reading has more lanes.
template <class In, bool Scaled, std::size_t Register, class Bits, class Compute, std::size_t Count>
inline void add_part_of_group(const unsigned char* source, std::size_t n, Compute factor, Bits (&largest)[2],
                              Compute (&sums)[Count]) noexcept {
  constexpr std::size_t width = lanes_of<Compute>;
  const unsigned char* const from = source + Register * width * sizeof(typename In::bits_type);
  const auto bits = n < width ? load_part<width>(In{}, from, n) : load<width>(In{}, from);
  if constexpr (width == read_lanes<In>) largest[Register % 2] = max_of_abs(In{}, largest[Register % 2], bits);
  sums[Register] = plus_square<In, Scaled>(sums[Register], widen<Compute>(In{}, bits), factor);
  if constexpr (Register + 1 < Count) {
    if (n > width) add_part_of_group<In, Scaled, Register + 1>(source, n - width, factor, largest, sums);
  }
}
template <class In, bool Scaled, class Bits, class Compute, std::size_t Count>
inline void add_block(const unsigned char* source, std::size_t n, Compute factor, Bits (&largest)[2],
                      Compute (&sums)[Count]) noexcept {
  for (; n >= sum_lanes; n -= sum_lanes, source += sum_lanes * sizeof(typename In::bits_type)) {
    add_group<In, Scaled, 0>(source, factor, largest, sums);
  }
  if (n == 0) return;
  if constexpr (lanes_of<Compute> != read_lanes<In>) largest[0] = largest_in<In>(source, n, largest[0]);
  add_part_of_group<In, Scaled, 0>(source, n, factor, largest, sums);
}

/// The number of registers for `sum_lanes` sums in float, and for sixteen in double.
template <class In>
inline constexpr std::size_t sum_registers = sum_lanes / lanes_of<float_lanes<In>>;
template <class In>
inline constexpr std::size_t double_registers = lanes_of<float_lanes<In>> < 16 ? 16 / lanes_of<float_lanes<In>> : 1;
template <class In>
using DoubleSums = decltype(to_doubles(float_lanes<In>{}))[double_registers<In>];

template <std::size_t Register, class Compute, std::size_t Count, std::size_t Half>
inline void fold(const Compute (&sums)[Count], Compute (&folded)[Half]) noexcept {
  folded[Register] = plus(sums[Register], sums[Register + Half]);
  if constexpr (Register + 1 < Half) fold<Register + 1>(sums, folded);
}
template <std::size_t Register, class Compute, std::size_t Count, class Doubles, std::size_t DoubleCount>
inline void add_in_double(const Compute (&sums)[Count], Doubles (&doubles)[DoubleCount]) noexcept {
  if constexpr (Count > DoubleCount) {
    Compute folded[Count / 2];
    fold<0>(sums, folded);
    add_in_double<0>(folded, doubles);
  } else {
    doubles[Register] = added(doubles[Register], to_doubles(sums[Register]));
    if constexpr (Register + 1 < Count) add_in_double<Register + 1>(sums, doubles);
  }
}
/// The sum of register `Begin` and every `Step`-th one after it. Registers that are furthest apart are added first.
template <std::size_t Begin, std::size_t Step, class Doubles, std::size_t Count>
inline Doubles sum_of_registers(const Doubles (&doubles)[Count]) noexcept {
  if constexpr (Step == Count) {
    return doubles[Begin];
  } else {
    return added(sum_of_registers<Begin, 2 * Step>(doubles), sum_of_registers<Begin + Step, 2 * Step>(doubles));
  }
}

/// Computed from bits, because -fsingle-precision-constant makes literals floats.
inline double power_of_two(int exponent) noexcept {
  return bit_cast<double>(static_cast<std::uint64_t>(binary64::bias + exponent) << binary64::mantissa_bits);
}
/// The sum of squares of a block whose squares overflow or underflow in float. The elements are multiplied by 2^exponent first.
/// Those that this makes zero are too small to matter beside the largest.
template <class In>
[[gnu::noinline]] inline double sum_of_rescaled(const unsigned char* source, std::size_t n, int exponent) noexcept {
  using Compute = float_lanes<In>;
  Compute sums[sum_registers<In>] = {};
  decltype(load<read_lanes<In>>(In{}, nullptr)) largest[2] = {};
  add_block<In, true>(source, n, broadcast<Compute>(power_of_two(exponent)), largest, sums);
  DoubleSums<In> doubles = {};
  add_in_double<0>(sums, doubles);
  return sum_of(sum_of_registers<0, 1>(doubles)) * power_of_two(-2 * exponent);
}

/// Computes one sum of squares.
template <class In, class Bits>
struct Squares {
  Bits largest[2] = {};
  DoubleSums<In> doubles = {};
  double rescaled = 0.0;

  /// Adds up to `square_block` elements.
  void add(const unsigned char* source, std::size_t n) noexcept {
    float_lanes<In> sums[sum_registers<In>] = {};
    if constexpr (!may_overflow<In> && !may_vanish<In>) {
      add_block<In, false>(source, n, sums[0], largest, sums);
    } else {
      Bits both[2] = {};
      add_block<In, false>(source, n, sums[0], both, sums);
      const Bits of_block = larger(both[0], both[1]);
      largest[0] = larger(largest[0], of_block);
      if (const int exponent = exponent_to_fit(of_block); exponent != 0) {
        rescaled = hide_from_optimizer(rescaled + sum_of_rescaled<In>(source, n, exponent));
        return;
      }
    }
    add_in_double<0>(sums, doubles);
  }
  /// The exponent of the power of two that a block is to be multiplied by, from its largest magnitude; usually 0.
  [[nodiscard]] static int exponent_to_fit(Bits of_block) noexcept {
    if constexpr (may_overflow<In>) {
      if (any_above(of_block, power_bits<In>(most_exponent))) return down_exponent;
    }
    if constexpr (may_vanish<In>) {
      if (!any_above(of_block, power_bits<In>(least_exponent)) && any_above(of_block, std::uint8_t{0})) return up_exponent;
    }
    return 0;
  }
  void add_to(Found& found) const noexcept {
    add_to_sum(found, hide_from_optimizer(sum_of(sum_of_registers<0, 1>(doubles)) + rescaled));
    add_largest<In>(found, largest_lane(larger(largest[0], largest[1])));
  }
};

/// The pieces, at most one group (see Share in ops/run.hpp), have one sum.
template <class In>
void measure(const Piece* piece, const Piece* last, double, bool, Found& found) noexcept {
  Squares<In, decltype(load<read_lanes<In>>(In{}, nullptr))> squares;
  for (; piece != last; ++piece) {
    const auto* source = static_cast<const unsigned char*>(piece->source);
    for (std::size_t left = piece->size, n = 0; left > 0; left -= n, source += n * sizeof(typename In::bits_type)) {
      n = left < square_block ? left : square_block;
      squares.add(source, n);
    }
  }
  squares.add_to(found);
}
