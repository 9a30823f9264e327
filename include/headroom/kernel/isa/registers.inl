// What the SIMD instruction sets share: registers of `vector_bytes` bytes as vector types of g++ and clang (vector_size), and
// the operations on them that compile to the same instructions as intrinsics. Each SIMD file includes this file inside its
// namespace and its target region. Before that it defines
//
//   hidden(lanes)   the same vector, without the compiler knowing how it was computed. Under -ffast-math it would take an
//                   arithmetic result as proof that no lane is Inf or NaN, and drop the check for them. It would also reorder
//                   sums and turn products into parts of fused multiply-adds

typedef float f32_lanes HEADROOM_DETAIL_VECTOR(vector_bytes);
typedef double f64_lanes HEADROOM_DETAIL_VECTOR(vector_bytes);
typedef std::uint32_t u32_lanes HEADROOM_DETAIL_VECTOR(vector_bytes);
typedef std::int32_t i32_lanes HEADROOM_DETAIL_VECTOR(vector_bytes);
typedef std::uint16_t u16_lanes HEADROOM_DETAIL_VECTOR(vector_bytes);
typedef std::int16_t i16_lanes HEADROOM_DETAIL_VECTOR(vector_bytes);
typedef std::uint8_t u8_lanes HEADROOM_DETAIL_VECTOR(vector_bytes);
typedef std::uint8_t u8_quarter_lanes HEADROOM_DETAIL_VECTOR(vector_bytes / 4);
typedef std::int8_t i8_quarter_lanes HEADROOM_DETAIL_VECTOR(vector_bytes / 4);
typedef std::uint16_t u16_half_lanes HEADROOM_DETAIL_VECTOR(vector_bytes / 2);
typedef std::int16_t i16_half_lanes HEADROOM_DETAIL_VECTOR(vector_bytes / 2);

// Structs, because a raw vector type loses its alignment attribute as a template argument.
struct f32s {
  f32_lanes lanes;
};
struct u32s {
  u32_lanes lanes;
};
struct u16s {
  u16_lanes lanes;
};
struct u16_half {
  u16_half_lanes lanes;  // as many lanes as f32s
};
struct u8s {
  u8_lanes lanes;
};
struct u8_quarter {
  u8_quarter_lanes lanes;  // as many lanes as f32s
};
struct f64s {
  f64_lanes low, high;  // as many lanes as f32s
};
struct u32_pair {
  u32s first, second;
};
/// Two registers of floats that become one of bf16, in half the instructions. The first has the first half of the elements
/// (of_memory), or the even ones.
enum class Order { of_memory, even_odd };
template <Order>
struct f32_pair {
  f32s first, second;
};

/// Four registers, in the order of memory. Those of floats become one of an 8-bit format.
template <class Register>
struct quad {
  Register a, b, c, d;
};
using f32_quad = quad<f32s>;

template <class In, class Out>
using compute_for = f32s;
template <class In, class Out>
using wide_compute_for =
    std::conditional_t<is_fp8<Out>, f32_quad,
                       std::conditional_t<!std::is_same_v<Out, brain16> || std::is_same_v<In, binary16> || is_fp8<In>, f32s,
                                          f32_pair<std::is_same_v<In, brain16> ? Order::even_odd : Order::of_memory>>>;
template <class Compute>
using compute_format = binary32;
template <class Compute>
inline constexpr std::size_t lanes_of = sizeof(Compute) / sizeof(float);
template <class In>
inline constexpr std::size_t read_lanes = vector_bytes / sizeof(typename In::bits_type);

// ---- load and store: unaligned, and as integers, so that the compiler cannot assume that there is no NaN ----

template <class Lanes>
inline Lanes loaded(const unsigned char* source) noexcept {
  Lanes lanes;
  std::memcpy(&lanes, source, sizeof lanes);
  // Otherwise g++ repeats a load of 64 bytes for each use, and an unaligned load reads two cache lines each time.
  return sizeof lanes == cache_line ? hidden(lanes) : lanes;
}
template <std::size_t Lanes, class Format>
inline auto load(Format, const unsigned char* source) noexcept {
  if constexpr (Lanes == lanes_of<f32_quad>) {
    constexpr std::size_t width = lanes_of<f32s>, step = width * bytes_each<Format>;
    using Register = decltype(load<width>(Format{}, source));
    return quad<Register>{load<width>(Format{}, source), load<width>(Format{}, source + step),
                          load<width>(Format{}, source + 2 * step), load<width>(Format{}, source + 3 * step)};
  } else if constexpr (is_fp8<Format>) {
    return u8_quarter{loaded<u8_quarter_lanes>(source)};
  } else if constexpr (std::is_same_v<Format, binary32> && Lanes == lanes_of<f32s>) {
    return u32s{loaded<u32_lanes>(source)};
  } else if constexpr (std::is_same_v<Format, binary32>) {
    return u32_pair{{loaded<u32_lanes>(source)}, {loaded<u32_lanes>(source + vector_bytes)}};
  } else if constexpr (Lanes == lanes_of<f32s>) {
    return u16_half{loaded<u16_half_lanes>(source)};
  } else {
    return u16s{loaded<u16_lanes>(source)};
  }
}
template <class Bits>
inline void store(unsigned char* destination, Bits bits) noexcept {
  std::memcpy(destination, &bits.lanes, sizeof bits.lanes);
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32s widen(binary32, u32s bits) noexcept {
  return {(f32_lanes)bits.lanes};
}
template <class Compute, class Format, class Bits>
inline f32_quad widen(Format format, quad<Bits> bits) noexcept {
  return {widen<f32s>(format, bits.a), widen<f32s>(format, bits.b), widen<f32s>(format, bits.c), widen<f32s>(format, bits.d)};
}
inline u32s narrow(binary32, f32s value) noexcept { return {hidden((u32_lanes)value.lanes)}; }

template <class Compute>
inline Compute widen(binary32, u32_pair bits) noexcept {
  return {{(f32_lanes)bits.first.lanes}, {(f32_lanes)bits.second.lanes}};
}
template <class Compute>
inline Compute widen(brain16, u16s bits) noexcept {
  const auto both = (u32_lanes)bits.lanes;
  return {{(f32_lanes)(both << 16)}, {(f32_lanes)(both & 0xffff0000)}};
}
// Rounds to bf16, nearest-even, in the upper half of each lane: adds just under half a unit, and one more if the upper half is
// odd. This would make some NaNs Inf or -0. So a NaN keeps its upper half and becomes quiet.
inline u32_lanes rounded_number(u32_lanes bits) noexcept { return bits + 0x7fff + ((bits >> 16) & 1); }
inline u32_lanes rounded(u32_lanes bits) noexcept {
  const i32_lanes magnitudes = (i32_lanes)(bits & binary32::abs_mask), infinity = i32_lanes{} + binary32::infinity_bits;
  return magnitudes > infinity ? bits | 0x00400000 : rounded_number(bits);
}
// Each SIMD file defines these:
inline bool any_nan(u32_lanes a, u32_lanes b) noexcept;
inline u16_half upper_halves(u32_lanes bits) noexcept;
inline u16_lanes by_turns(u32_lanes lower, u32_lanes upper) noexcept;  // the lower halves of `lower`, the upper ones of `upper`
inline u16s rounded_upper_halves(u32_lanes first, u32_lanes second) noexcept;  // not for NaNs
/// `a - b`, or 0 if b is larger.
inline u16_lanes saturating_difference(u16_lanes a, u16_lanes b) noexcept;

// Round up if the dropped half, minus one when the kept half is even, is at least 0x8000.
inline u16s rounded(u16_lanes kept, u16_lanes dropped) noexcept {
  return {kept + (saturating_difference(dropped, ~kept & 1) >> 15)};
}

inline u16_half narrow(brain16, f32s value) noexcept { return upper_halves(rounded(narrow(binary32{}, value).lanes)); }
inline u16s narrow(brain16, f32_pair<Order::of_memory> value) noexcept {
  u32_lanes first = narrow(binary32{}, value.first).lanes, second = narrow(binary32{}, value.second).lanes;
  if (__builtin_expect(any_nan(first, second), 0)) {
    first = rounded(first) & 0xffff0000;  // rounding these again changes nothing
    second = rounded(second) & 0xffff0000;
  }
  return rounded_upper_halves(first, second);
}
// A NaN has a zero lower half here, because it was widened from bf16 or is the CPU's default NaN. So rounding keeps it.
inline u16s narrow(brain16, f32_pair<Order::even_odd> value) noexcept {
  const u32_lanes even = narrow(binary32{}, value.first).lanes, odd = narrow(binary32{}, value.second).lanes;
  return rounded(by_turns(even >> 16, odd), by_turns(even, odd << 16));
}

// ---- arithmetic ----

template <class Compute>
inline Compute broadcast(double factor) noexcept {
  const f32s all = {(f32_lanes)(u32_lanes{} + bit_cast<std::uint32_t>(static_cast<float>(factor)))};
  if constexpr (std::is_same_v<Compute, f32s>) {
    return all;
  } else if constexpr (std::is_same_v<Compute, f32_quad>) {
    return {all, all, all, all};
  } else {
    return {all, all};
  }
}
inline f32s multiplied(f32s value, f32s factor) noexcept { return {value.lanes * factor.lanes}; }
inline f32s divided(f32s value, f32s divisor) noexcept;  // in each SIMD file
template <Order order>
inline f32_pair<order> multiplied(f32_pair<order> value, f32_pair<order> factor) noexcept {
  return {multiplied(value.first, factor.first), multiplied(value.second, factor.second)};
}
template <Order order>
inline f32_pair<order> divided(f32_pair<order> value, f32_pair<order> divisor) noexcept {
  return {divided(value.first, divisor.first), divided(value.second, divisor.second)};
}
inline f32_quad multiplied(f32_quad value, f32_quad factor) noexcept {
  return {multiplied(value.a, factor.a), multiplied(value.b, factor.b), multiplied(value.c, factor.c),
          multiplied(value.d, factor.d)};
}
inline f32s plus(f32s value, f32s product) noexcept { return {hidden(value.lanes + hidden(product.lanes))}; }
template <Order order>
inline f32_pair<order> plus(f32_pair<order> value, f32_pair<order> product) noexcept {
  return {plus(value.first, product.first), plus(value.second, product.second)};
}

// ---- the largest magnitude: without the sign, bits order as values do, with Inf and NaN on top. Compared as signed integers,
// which more CPUs support, or with more units ----

template <class Lanes>
inline Lanes larger_lanes(Lanes a, Lanes b) noexcept {
  return a > b ? a : b;
}
inline u32s larger(u32s a, u32s b) noexcept { return {(u32_lanes)larger_lanes((i32_lanes)a.lanes, (i32_lanes)b.lanes)}; }
inline u16s larger(u16s a, u16s b) noexcept { return {(u16_lanes)larger_lanes((i16_lanes)a.lanes, (i16_lanes)b.lanes)}; }
inline u16_half larger(u16_half a, u16_half b) noexcept {
  return {(u16_half_lanes)larger_lanes((i16_half_lanes)a.lanes, (i16_half_lanes)b.lanes)};
}
template <class Format, class Bits>
inline Bits max_of_abs(Format, Bits largest, Bits bits) noexcept {
  return larger(largest, {bits.lanes & Format::abs_mask});
}
template <class Format, class Bits>
inline Bits max_of_abs(Format format, Bits largest, quad<Bits> bits) noexcept {
  const Bits first = max_of_abs(format, max_of_abs(format, largest, bits.a), bits.b), zero = {};
  return larger(first, max_of_abs(format, max_of_abs(format, zero, bits.c), bits.d));
}

// ---- 8-bit formats ----

// Each SIMD file defines these:
template <class Compute>
inline f32s widen(binary16, u16_half bits) noexcept;
inline u16_half_lanes sign_extended(u8_quarter bytes) noexcept;
inline u8s low_bytes(u32_lanes a, u32_lanes b, u32_lanes c, u32_lanes d) noexcept;  // the upper ones must be zero

/// fp16 has all numbers of e5m2, with the same exponents, and those of e4m3, 2^8 times smaller.
template <class Compute, class Format>
inline std::enable_if_t<is_fp8<Format>, f32s> widen(Format, u8_quarter bits) noexcept {
  const u16_half_lanes bytes = sign_extended(bits);
  if constexpr (Format::mantissa_bits == e5m2::mantissa_bits) {
    return widen<f32s>(binary16{}, u16_half{bytes << 8});
  } else {
    const u16_half_lanes shifted = bytes << 7;                           // the sign twice, exponent, mantissa, seven zeros
    const u16_half_lanes nans = ((shifted & 0x3f80) + 0x0080) & 0x4000;  // the carry of 0x7f makes exponent 31
    return {hidden(widen<f32s>(binary16{}, u16_half{(shifted & 0xbf80) | nans}).lanes * 256.0F)};
  }
}
/// The code of each lane, saturated. Adding `unit` rounds to the digits of the format, nearest-even. The low bits of the sum
/// are then the code; `offset` makes the smallest exponent 0. Subnormal numbers round like those of the smallest exponent.
template <class Format>
inline u32_lanes codes_of(f32s value) noexcept {
  constexpr int dropped = binary32::mantissa_bits - Format::mantissa_bits, smallest = binary32::bias + 1 - Format::bias;
  constexpr std::int32_t offset = -(smallest << Format::mantissa_bits) & Format::abs_mask;
  constexpr std::int32_t largest = convert_bits<Format, binary32>(Format::largest_finite_bits);
  const u32_lanes bits = narrow(binary32{}, value).lanes, nan = u32_lanes{} + Format::quiet_nan_bits;
  const i32_lanes largest_lanes = hidden(i32_lanes{} + largest);  // or g++ compares with another constant and blends
  const auto magnitudes = (i32_lanes)(bits & binary32::abs_mask);
  const i32_lanes limited = magnitudes < largest_lanes ? magnitudes : largest_lanes;
  const i32_lanes smallest_lanes = i32_lanes{} + (smallest << binary32::mantissa_bits);
  const i32_lanes exponents = larger_lanes(limited & binary32::infinity_bits, smallest_lanes);
  const i32_lanes unit = exponents + ((dropped << binary32::mantissa_bits) + offset);
  const auto sum = (u32_lanes)hidden((f32_lanes)limited + (f32_lanes)unit);
  const u32_lanes codes = (sum + ((u32_lanes)exponents >> dropped)) & Format::abs_mask;
  const i32_lanes infinity = i32_lanes{} + binary32::infinity_bits;
  return (magnitudes > infinity ? nan : codes) | (bits >> 24 & Format::sign_mask);
}
template <class Format>
inline u8s narrow(saturating<Format>, f32_quad value) noexcept {
  return low_bytes(codes_of<Format>(value.a), codes_of<Format>(value.b), codes_of<Format>(value.c), codes_of<Format>(value.d));
}

// ---- sums of squares ----

inline f64s added(f64s a, f64s b) noexcept { return {hidden(a.low + b.low), hidden(a.high + b.high)}; }
inline double sum_of(f64_lanes sums) noexcept;  // in each SIMD file
inline double sum_of(f64s sums) noexcept { return sum_of(hidden(sums.low + sums.high)); }

inline f32s plus_exact_square(f32s sum, f32s value) noexcept;  // in each SIMD file
template <Order order>
inline f32_pair<order> plus_exact_square(f32_pair<order> sum, f32_pair<order> value) noexcept {
  return {plus_exact_square(sum.first, value.first), plus_exact_square(sum.second, value.second)};
}
struct even_odd_f64s {
  f64s even, odd;
};
inline even_odd_f64s added(even_odd_f64s a, even_odd_f64s b) noexcept { return {added(a.even, b.even), added(a.odd, b.odd)}; }
inline double sum_of(even_odd_f64s sums) noexcept { return hide_from_optimizer(sum_of(sums.even) + sum_of(sums.odd)); }
