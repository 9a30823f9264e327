#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_VECTORS

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/kernel/isa/common.hpp>
#include <headroom/kernel/isa/scalar.hpp>
#include <type_traits>

// Vectors of the language (the vector_size of g++ and clang), which become SSE2, VSX or whatever the flags of the including
// file allow: the larger part of Isa::scalar on CPUs that have such registers, by the arithmetic of scalar.hpp. Eight elements
// at a time, one register of sixteen-bit ones or a pair of registers of floats; four of the formats that lanes.inl converts.
//
// No conversion has a branch, or meets a subnormal float, which might be flushed to zero, and no NaN is left to arithmetic but
// where it comes out as one.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail::portable {

typedef float f32_lanes __attribute__((vector_size(16)));
typedef double f64_lanes __attribute__((vector_size(16)));
typedef std::uint32_t u32_lanes __attribute__((vector_size(16)));
typedef std::int32_t i32_lanes __attribute__((vector_size(16)));
typedef std::uint16_t u16_lanes __attribute__((vector_size(16)));
typedef std::int16_t i16_lanes __attribute__((vector_size(16)));

struct f32x4 {
  f32_lanes lanes;
};
struct u32x4 {
  u32_lanes lanes;
};
struct f32x8 {
  f32_lanes low, high;
};
struct u32x8 {
  u32_lanes low, high;
};
struct u16x8 {
  u16_lanes lanes;
};

/// Whether the format is left to lanes.inl.
template <class Format>
inline constexpr bool is_generic = !is_sixteen_bits<Format> && !std::is_same_v<Format, binary32>;

template <class In, class Out>
using compute_for = std::conditional_t<is_generic<In> || is_generic<Out>, f32x4, f32x8>;
template <class Compute>
inline constexpr std::size_t lanes_of = std::is_same_v<Compute, f32x8> ? 8 : 4;
template <class In>
inline constexpr std::size_t read_lanes = is_generic<In> ? 4 : 8;

inline constexpr bool is_unrolled = false;  // more code, and no faster where measured

// ---- load and store: as integers, so that no compiler may think a NaN cannot be there ----

template <class Bits>
inline Bits load_bits(const unsigned char* source) noexcept {
  Bits bits;
  std::memcpy(&bits, source, sizeof bits);
  return bits;
}
template <std::size_t Lanes>
inline auto load(binary32, const unsigned char* source) noexcept {
  return load_bits<std::conditional_t<Lanes == 8, u32x8, u32x4>>(source);
}
template <std::size_t>
inline u16x8 load(binary16, const unsigned char* source) noexcept {
  return load_bits<u16x8>(source);
}
inline void store(unsigned char* destination, u32x4 bits) noexcept { std::memcpy(destination, &bits, sizeof bits); }
inline void store(unsigned char* destination, u16x8 bits) noexcept { std::memcpy(destination, &bits, sizeof bits); }
inline void store(unsigned char* destination, u32x8 bits) noexcept {  // not at once, for g++ would assemble it on the stack
  store(destination, u32x4{bits.low});
  store(destination + sizeof bits.low, u32x4{bits.high});
}

// ---- widen to float ----

inline u16_lanes u16_above(u16_lanes magnitude, std::int16_t limit) noexcept {
  return (u16_lanes)((i16_lanes)magnitude > limit);
}
inline u32_lanes u32_above(u32_lanes magnitude, std::int32_t limit) noexcept {
  return (u32_lanes)((i32_lanes)magnitude > limit);
}
inline u32_lanes blended(u32_lanes mask, u32_lanes a, u32_lanes b) noexcept { return (mask & a) | (~mask & b); }
inline i32_lanes larger(i32_lanes a, i32_lanes b) noexcept { return a > b ? a : b; }

/// Lanes of 32 bits from their upper and their lower halves.
inline u32x8 joined(u16_lanes upper, u16_lanes lower) noexcept {
  constexpr bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  const u16_lanes first = little ? lower : upper, second = little ? upper : lower;
  return {(u32_lanes)__builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11),
          (u32_lanes)__builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15)};
}

template <class Compute>
inline f32x4 widen(binary32, u32x4 bits) noexcept {
  return {(f32_lanes)bits.lanes};
}
template <class Compute>
inline f32x8 widen(binary32, u32x8 bits) noexcept {
  return {(f32_lanes)bits.low, (f32_lanes)bits.high};
}
template <class Compute>
inline f32x8 widen(brain16, u16x8 bits) noexcept {
  return widen<f32x8>(binary32{}, joined(bits.lanes, u16_lanes{}));
}
/// In halves of floats: a normal number needs another bias, and Inf and NaN the highest exponent. The digits of a subnormal one
/// go behind the one of 2^-14, which is then subtracted.
template <class Compute>
inline f32x8 widen(binary16, u16x8 bits) noexcept {
  const u16_lanes magnitude = bits.lanes & binary16::abs_mask, sign = bits.lanes ^ magnitude;
  const u16_lanes is_normal = u16_above(magnitude, binary16::mantissa_mask);
  const u16_lanes unit = ~is_normal & 0x3880;  // 2^-14
  const u16_lanes beyond = u16_above(magnitude, binary16::largest_finite_bits) & 0x7f80;
  const u32x8 digits = joined((((magnitude >> 3) + (is_normal & 0x3800)) | unit) | beyond, magnitude << 13);
  const u32x8 units = joined(unit, u16_lanes{}), signs = joined(sign, u16_lanes{});
  return {(f32_lanes)((u32_lanes)((f32_lanes)digits.low - (f32_lanes)units.low) | signs.low),
          (f32_lanes)((u32_lanes)((f32_lanes)digits.high - (f32_lanes)units.high) | signs.high)};
}

// ---- narrow to the nearest ----

inline u32x4 narrow(binary32, f32x4 value) noexcept { return {(u32_lanes)launder(value.lanes)}; }
inline u32x8 narrow(binary32, f32x8 value) noexcept { return {(u32_lanes)launder(value.low), (u32_lanes)launder(value.high)}; }

/// The lower halves of all lanes. By pairs, for which every CPU has an instruction.
inline u16x8 packed_lower(u32x8 bits) noexcept {
  constexpr int first = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 1;
  const u32_lanes lower = __builtin_shufflevector(bits.low, bits.high, first, 2 + first, 4 + first, 6 + first);
  const u32_lanes upper = __builtin_shufflevector(bits.low, bits.high, 1 - first, 3 - first, 5 - first, 7 - first);
  return {(u16_lanes)(lower | upper << 16)};
}
/// Nearest-even by adding just under half a unit, and one more where the kept part is odd. A NaN would be carried to Inf or
/// even to -0 by that sum: it keeps its upper half instead, made quiet.
inline u32_lanes rounded_to_brain16(u32_lanes bits) noexcept {
  const u32_lanes rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return blended(u32_above(bits & binary32::abs_mask, binary32::infinity_bits), bits | 0x00400000, rounded) >> 16;
}
inline u16x8 narrow(brain16, f32x8 value) noexcept {
  const u32x8 bits = narrow(binary32{}, value);
  return packed_lower({rounded_to_brain16(bits.low), rounded_to_brain16(bits.high)});
}
/// Rounds by adding a power of two whose last digit is that of the result. What is too large is as good as 65536, which becomes
/// Inf. No NaN takes part in the sum.
inline u32_lanes rounded_to_binary16(u32_lanes bits) noexcept {
  constexpr std::int32_t infinity = 0x47800000, least_normal = 0x38800000, thirteen = 13 << binary32::mantissa_bits;
  const u32_lanes magnitude = bits & binary32::abs_mask, sign = (bits ^ magnitude) >> 16;
  const i32_lanes limit = i32_lanes{} + infinity;
  const i32_lanes number = (i32_lanes)magnitude > limit ? limit : (i32_lanes)magnitude;
  const i32_lanes exponent = larger(number & (i32_lanes)(u32_lanes{} + binary32::infinity_bits), i32_lanes{} + least_normal);
  const auto sum = (i32_lanes)((f32_lanes)number + (f32_lanes)(exponent + thirteen));
  const i32_lanes rounded = sum - exponent + (exponent >> 13) - (thirteen + (least_normal >> 13));
  return (u32_lanes)rounded | (u32_above(magnitude, binary32::infinity_bits) & 0x0200) | sign;
}
inline u16x8 narrow(binary16, f32x8 value) noexcept {
  const u32x8 bits = narrow(binary32{}, value);
  return packed_lower({rounded_to_binary16(bits.low), rounded_to_binary16(bits.high)});
}

// ---- arithmetic ----

template <class Compute>
inline Compute broadcast(double factor) noexcept {
  const auto one = static_cast<float>(factor);
  const f32_lanes lanes = {one, one, one, one};
  if constexpr (std::is_same_v<Compute, f32x8>) {
    return {lanes, lanes};
  } else {
    return {lanes};
  }
}
inline f32x4 multiplied(f32x4 value, f32x4 factor) noexcept { return {value.lanes * factor.lanes}; }
inline f32x8 multiplied(f32x8 value, f32x8 factor) noexcept { return {value.low * factor.low, value.high * factor.high}; }
// The empty asm keeps the product from becoming a part of a fused multiply-add.
inline f32x4 plus(f32x4 value, f32x4 product) noexcept { return {value.lanes + launder(product.lanes)}; }
inline f32x8 plus(f32x8 value, f32x8 product) noexcept {
  return {value.low + launder(product.low), value.high + launder(product.high)};
}
// In double, as in scalar.hpp.
inline f32_lanes divided(f32_lanes value, f32_lanes divisor) noexcept {
  const f64_lanes by = launder(f64_lanes{static_cast<double>(divisor[0]), static_cast<double>(divisor[1])});
  const f64_lanes low = f64_lanes{static_cast<double>(value[0]), static_cast<double>(value[1])} / by;
  const f64_lanes high = f64_lanes{static_cast<double>(value[2]), static_cast<double>(value[3])} / by;
  return f32_lanes{static_cast<float>(low[0]), static_cast<float>(low[1]), static_cast<float>(high[0]),
                   static_cast<float>(high[1])};
}
inline f32x4 divided(f32x4 value, f32x4 divisor) noexcept { return {divided(value.lanes, divisor.lanes)}; }
inline f32x8 divided(f32x8 value, f32x8 divisor) noexcept {
  return {divided(value.low, divisor.low), divided(value.high, divisor.high)};
}

// ---- the largest magnitude, in signed integers, which more CPUs compare ----

inline i16_lanes larger(i16_lanes a, i16_lanes b) noexcept { return a > b ? a : b; }
inline i16_lanes smaller(i16_lanes a, i16_lanes b) noexcept { return a < b ? a : b; }
inline u32_lanes larger(u32_lanes a, u32_lanes b) noexcept { return (u32_lanes)larger((i32_lanes)a, (i32_lanes)b); }
inline u32x4 larger(u32x4 a, u32x4 b) noexcept { return {larger(a.lanes, b.lanes)}; }
inline u32x8 larger(u32x8 a, u32x8 b) noexcept { return {larger(a.low, b.low), larger(a.high, b.high)}; }
inline u16x8 larger(u16x8 a, u16x8 b) noexcept { return {(u16_lanes)larger((i16_lanes)a.lanes, (i16_lanes)b.lanes)}; }

inline u32x4 magnitudes(u32x4 bits) noexcept { return {bits.lanes & binary32::abs_mask}; }
inline u32x8 magnitudes(u32x8 bits) noexcept { return {bits.low & binary32::abs_mask, bits.high & binary32::abs_mask}; }
inline u16x8 magnitudes(u16x8 bits) noexcept { return {bits.lanes & binary16::abs_mask}; }

template <class Lane, class Lanes>
inline Lane largest_of(Lanes lanes) noexcept {
  Lane largest = 0;
  for (std::size_t i = 0; i < sizeof lanes / sizeof largest; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  return largest;
}
inline std::uint32_t largest_lane(u32x4 bits) noexcept { return largest_of<std::uint32_t>(bits.lanes); }
inline std::uint32_t largest_lane(u32x8 bits) noexcept { return largest_of<std::uint32_t>(larger(bits.low, bits.high)); }
inline std::uint16_t largest_lane(u16x8 bits) noexcept { return largest_of<std::uint16_t>(bits.lanes); }

// ---- sixteen bits times a power of two, in integers ----

using sixteen_bits = u16x8;
inline u16x8 all_sixteen(int value) noexcept { return {u16_lanes{} + static_cast<std::uint16_t>(value)}; }
inline u16x8 smaller(u16x8 a, u16x8 b) noexcept { return {(u16_lanes)smaller((i16_lanes)a.lanes, (i16_lanes)b.lanes)}; }
// Plus 0x7fff, magnitudes are in order from the most negative integer on, but for zero, which is the greatest.
inline u16x8 with_zero_last(u16x8 bits) noexcept { return {bits.lanes + 0x7fff}; }
inline bool any_beyond(u16x8 lowest, u16x8 min, u16x8 max, u16x8 highest) noexcept {
  const i16_lanes beyond = ((i16_lanes)min.lanes < (i16_lanes)lowest.lanes) | ((i16_lanes)max.lanes > (i16_lanes)highest.lanes);
  std::uint64_t halves[2];
  std::memcpy(halves, &beyond, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}
inline u16x8 plus_unless_zero(u16x8 bits, u16x8 abs, u16x8 amount) noexcept {
  return {bits.lanes + (amount.lanes & (u16_lanes)(abs.lanes != 0))};
}

#include <headroom/kernel/isa/lanes.inl>
#include <headroom/kernel/kernels.inl>

/// The rest goes one element at a time: doubles, formats whose numbers may be subnormal floats, sums of squares; and of the
/// formats of lanes.inl, magnitudes and pairs with sixteen bits.
template <Op op, class In, class Out>
constexpr bool is_in_vectors() noexcept {
  if (op == Op::measure || !has_registers<In> || !has_registers<Out>) return false;
  if (is_generic<In>) return op != Op::max_abs && !is_sixteen_bits<Out>;
  return !is_generic<Out> || !is_sixteen_bits<In>;
}
template <Op op, class In, class Out>
constexpr Kernel portable_kernel() noexcept {
  if constexpr (is_in_vectors<op, In, Out>()) {
    return Kernels::kernel<op, In, Out>;
  } else {
    return scalar::Kernels::kernel<op, In, Out>;
  }
}

}  // namespace detail::portable
template <>
struct detail::IsaKernels<Isa::scalar> {
  template <Op op, class In, class Out>
  static constexpr Kernel kernel = portable::portable_kernel<op, In, Out>();
};
}  // namespace HEADROOM_BUILD
}  // namespace headroom

#endif
