// What instruction sets make alike of their own registers, and formats that they have no instructions for, in integers and
// vectors of the language (the vector_size of g++ and clang): what makes a dtype of one specialisation run on all of them.
// Included by each instruction set's file but the scalar one, inside its namespace and its target region, before kernels.inl.
// Which formats come here is said by `has_registers`.

template <class Compute>
using compute_format = binary32;

// ---- pairs of registers, by what there is for one ----

template <class Register, class Order>
inline RegisterPair<Register, Order> multiplied(RegisterPair<Register, Order> a, RegisterPair<Register, Order> b) noexcept {
  return {multiplied(a.first, b.first), multiplied(a.second, b.second)};
}
/// By one divisor, to be rounded to bf16, as all pairs are. The product with the rounded reciprocal is less than two units from
/// the nearest float, and rounds to the same bf16 unless it is that near to the middle between two of them. Only then is there
/// a division, which takes longer than all the rest.
template <class Register, class Order>
inline RegisterPair<Register, Order> divided(RegisterPair<Register, Order> value,
                                             RegisterPair<Register, Order> divisor) noexcept {
  const Register reciprocal = divided(broadcast<Register>(1.0), divisor.first);
  const RegisterPair<Register, Order> product = {multiplied(value.first, reciprocal), multiplied(value.second, reciprocal)};
  if (__builtin_expect(!may_round_otherwise(product.first, product.second), 1)) return product;
  return {divided(value.first, divisor.first), divided(value.second, divisor.first)};
}
template <class Register, class Order>
inline RegisterPair<Register, Order> plus(RegisterPair<Register, Order> a, RegisterPair<Register, Order> b) noexcept {
  return {plus(a.first, b.first), plus(a.second, b.second)};
}
template <class Register, class Order>
inline RegisterPair<Register, Order> plus_exact_square(RegisterPair<Register, Order> sum,
                                                       RegisterPair<Register, Order> value) noexcept {
  return {plus_exact_square(sum.first, value.first), plus_exact_square(sum.second, value.second)};
}

using float_register = compute_for<void, binary32>;  // void: a format without instructions
using float_bits = decltype(narrow(binary32{}, float_register{}));

// ---- formats with instructions ----

/// In memory bf16 is like fp16.
template <std::size_t Lanes>
inline auto load(brain16, const unsigned char* source) noexcept {
  return load<Lanes>(binary16{}, source);
}
template <class Format, class Bits>
inline Bits max_of_abs(Format, Bits largest, Bits bits) noexcept {
  return larger(largest, magnitudes(bits));
}

// ---- formats without instructions ----

inline constexpr std::size_t lane_count = lanes_of<float_register>;

typedef std::uint8_t u8_vector __attribute__((vector_size(lane_count)));
typedef std::uint16_t u16_vector __attribute__((vector_size(2 * lane_count)));
typedef std::uint32_t u32_vector __attribute__((vector_size(4 * lane_count)));
typedef std::int32_t i32_vector __attribute__((vector_size(4 * lane_count)));
typedef float f32_vector __attribute__((vector_size(4 * lane_count)));

/// A register of elements, the bits of one in each lane of 32.
template <class Format>
struct packed {
  float_bits bits;
};
template <class Format>
inline packed<Format> packed_from(u32_vector lanes) noexcept {
  return {__builtin_bit_cast(float_bits, lanes)};
}
template <class Bits>
inline u32_vector lanes_from(Bits bits) noexcept {
  return __builtin_bit_cast(u32_vector, bits);
}
inline u32_vector all_lanes(std::uint32_t value) noexcept { return u32_vector{} + value; }

// Magnitudes are compared as signed integers, which more CPUs can do.
inline u32_vector is_above(u32_vector magnitude, std::uint32_t limit) noexcept {
  return (u32_vector)((i32_vector)magnitude > (i32_vector)all_lanes(limit));
}
inline u32_vector select(u32_vector mask, u32_vector a, u32_vector b) noexcept { return (mask & a) | (~mask & b); }

// ---- load and store; bytes by way of sixteen bits, for g++ would take the lanes one by one otherwise ----

template <std::size_t Lanes, class Format>
inline packed<Format> load(Format, const unsigned char* source) noexcept {
  u16_vector elements;
  if constexpr (sizeof(typename Format::bits_type) == 1) {
    u8_vector bytes;
    std::memcpy(&bytes, source, sizeof bytes);
    elements = __builtin_convertvector(bytes, u16_vector);
  } else {
    std::memcpy(&elements, source, sizeof elements);
  }
  return packed_from<Format>(__builtin_convertvector(elements, u32_vector));
}
template <class Format>
inline void store(unsigned char* destination, packed<Format> stored) noexcept {
  const u16_vector elements = __builtin_convertvector(lanes_from(stored.bits), u16_vector);
  if constexpr (sizeof(typename Format::bits_type) == 1) {
    const u8_vector bytes = __builtin_convertvector(elements, u8_vector);
    std::memcpy(destination, &bytes, sizeof bytes);
  } else {
    std::memcpy(destination, &elements, sizeof elements);
  }
}
template <class Format>
inline void store_streaming(unsigned char* destination, packed<Format> stored) noexcept {
  store(destination, stored);
}

template <std::size_t Lanes, class Format>
inline auto load_part(Format, const unsigned char* source, std::size_t n) noexcept {
  unsigned char padded[Lanes * sizeof(typename Format::bits_type)] = {};
  std::memcpy(padded, source, n * sizeof(typename Format::bits_type));
  return load<Lanes>(Format{}, padded);
}
template <std::size_t Lanes>
inline auto load_part(brain16, const unsigned char* source, std::size_t n) noexcept {
  return load_part<Lanes>(binary16{}, source, n);
}
template <class Format>
inline void store_part(unsigned char* destination, packed<Format> stored, std::size_t n) noexcept {
  unsigned char padded[lane_count * sizeof(typename Format::bits_type)];
  store(padded, stored);
  std::memcpy(destination, padded, n * sizeof(typename Format::bits_type));
}

// ---- widen to float, narrow to the nearest ----

/// The place of the sign in a float minus its place in the format.
template <class Format>
inline constexpr int sign_shift = 31 - Format::exponent_bits - Format::mantissa_bits;
template <class Format>
inline constexpr std::uint32_t bias_difference = binary32::bias - Format::bias;

/// A normal number needs another bias and more digits. A subnormal one is its fraction times a power of two, a normal float:
/// flush-to-zero changes nothing.
template <class Compute, class Format>
inline Compute widen(Format, packed<Format> loaded) noexcept {
  constexpr std::uint32_t bias = bias_difference<Format>;
  constexpr auto unit = bit_cast<float>((bias + 1 - Format::mantissa_bits) << binary32::mantissa_bits);
  const u32_vector bits = lanes_from(loaded.bits), magnitude = bits & Format::abs_mask;
  const u32_vector sign = (bits & Format::sign_mask) << sign_shift<Format>;
  const u32_vector digits = magnitude << (binary32::mantissa_bits - Format::mantissa_bits);
  const auto subnormal = (u32_vector)(__builtin_convertvector((i32_vector)magnitude, f32_vector) * unit);
  u32_vector wide = digits + (bias << binary32::mantissa_bits);
  wide = select(is_above(magnitude, Format::mantissa_mask), wide, subnormal);
  wide = select(is_above(magnitude, Format::largest_finite_bits), all_lanes(binary32::infinity_bits), wide);
  wide = select(is_above(magnitude, Format::smallest_nan_bits - 1), all_lanes(binary32::quiet_nan_bits), wide);
  return widen<Compute>(binary32{}, __builtin_bit_cast(float_bits, wide | sign));
}

/// Ties to even: in integers where the result is a normal number; where it is subnormal, by adding the float whose last digit
/// is the format's. No larger number takes part in that sum, NaN least of all.
template <class Format>
inline packed<Format> narrow(Format, float_register value) noexcept {
  constexpr std::uint32_t bias = bias_difference<Format>, least_normal = (bias + 1) << binary32::mantissa_bits;
  constexpr int dropped = binary32::mantissa_bits - Format::mantissa_bits;
  constexpr std::uint32_t half_unit = std::uint32_t{1} << (dropped - 1);
  constexpr std::uint32_t last_digit = (bias + 1 + dropped) << binary32::mantissa_bits;
  const u32_vector bits = lanes_from(narrow(binary32{}, value)), magnitude = bits & binary32::abs_mask;
  const u32_vector sign = (bits & binary32::sign_mask) >> sign_shift<Format>;
  const u32_vector rounded = (magnitude + (half_unit - 1) + ((magnitude >> dropped) & 1)) >> dropped;
  const u32_vector is_normal = is_above(magnitude, least_normal - 1), small = ~is_normal & magnitude;
  const u32_vector subnormal = (u32_vector)((f32_vector)small + bit_cast<float>(last_digit)) - last_digit;
  u32_vector narrowed = select(is_normal, rounded - (bias << Format::mantissa_bits), subnormal);
  narrowed = select(is_above(narrowed, Format::largest_finite_bits), all_lanes(Format::overflow_bits), narrowed);
  narrowed = select(is_above(magnitude, binary32::infinity_bits), all_lanes(Format::quiet_nan_bits), narrowed);
  return packed_from<Format>(narrowed | sign);
}

// ---- the largest magnitude ----

template <class Format>
inline packed<Format> larger(packed<Format> a, packed<Format> b) noexcept {
  return {larger(a.bits, b.bits)};
}
template <class Format>
inline packed<Format> max_of_abs(Format, packed<Format> largest, packed<Format> read) noexcept {
  return larger(largest, packed_from<Format>(lanes_from(read.bits) & Format::abs_mask));
}
template <class Format>
inline typename Format::bits_type largest_lane(packed<Format> magnitudes) noexcept {
  return static_cast<typename Format::bits_type>(largest_lane(magnitudes.bits));
}
template <class Format>
inline bool any_above(packed<Format> magnitudes, typename Format::bits_type limit) noexcept {
  return any_above(magnitudes.bits, limit);
}
