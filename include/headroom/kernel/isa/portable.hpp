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

inline constexpr std::size_t vector_bytes = 16;

template <class Lanes>
inline Lanes hidden(Lanes lanes) noexcept {
  return launder(lanes);
}

#include <headroom/kernel/isa/registers.inl>

/// Whether the format is left to lanes.inl.
template <class Format>
inline constexpr bool is_generic = !is_sixteen_bits<Format> && !std::is_same_v<Format, binary32>;

template <class In, class Out>
using compute_for = std::conditional_t<is_generic<In> || is_generic<Out>, f32s, f32_pair>;
template <class Compute>
inline constexpr std::size_t lanes_of = std::is_same_v<Compute, f32_pair> ? 8 : 4;
template <class In>
inline constexpr std::size_t read_lanes = is_generic<In> ? 4 : 8;

inline constexpr bool is_unrolled = false;  // more code, and no faster where measured

template <std::size_t>
inline u16s load(binary16, const unsigned char* source) noexcept {
  return {loaded<u16_lanes>(source)};
}

// ---- widen to float ----

inline u16_lanes u16_above(u16_lanes magnitude, std::int16_t limit) noexcept {
  return (u16_lanes)((i16_lanes)magnitude > limit);
}
inline u32_lanes u32_above(u32_lanes magnitude, std::int32_t limit) noexcept {
  return (u32_lanes)((i32_lanes)magnitude > limit);
}
inline u32_lanes blended(u32_lanes mask, u32_lanes a, u32_lanes b) noexcept { return (mask & a) | (~mask & b); }

/// Lanes of 32 bits from their upper and their lower halves.
inline u32_pair joined(u16_lanes upper, u16_lanes lower) noexcept {
  constexpr bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  const u16_lanes first = little ? lower : upper, second = little ? upper : lower;
  return {{(u32_lanes)__builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11)},
          {(u32_lanes)__builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15)}};
}

template <class Compute>
inline f32_pair widen(brain16, u16s bits) noexcept {
  return widen<f32_pair>(binary32{}, joined(bits.lanes, u16_lanes{}));
}
/// In halves of floats: a normal number needs another bias, and Inf and NaN the highest exponent. The digits of a subnormal one
/// go behind the one of 2^-14, which is then subtracted.
template <class Compute>
inline f32_pair widen(binary16, u16s bits) noexcept {
  const u16_lanes magnitude = bits.lanes & binary16::abs_mask, sign = bits.lanes ^ magnitude;
  const u16_lanes is_normal = u16_above(magnitude, binary16::mantissa_mask);
  const u16_lanes unit = ~is_normal & 0x3880;  // 2^-14
  const u16_lanes beyond = u16_above(magnitude, binary16::largest_finite_bits) & 0x7f80;
  const u32_pair digits = joined((((magnitude >> 3) + (is_normal & 0x3800)) | unit) | beyond, magnitude << 13);
  const u32_pair units = joined(unit, u16_lanes{}), signs = joined(sign, u16_lanes{});
  return {{(f32_lanes)((u32_lanes)((f32_lanes)digits.first.lanes - (f32_lanes)units.first.lanes) | signs.first.lanes)},
          {(f32_lanes)((u32_lanes)((f32_lanes)digits.second.lanes - (f32_lanes)units.second.lanes) | signs.second.lanes)}};
}

// ---- narrow to the nearest ----

/// The lower halves of all lanes. By pairs, for which every CPU has an instruction.
inline u16s packed_lower(u32_pair bits) noexcept {
  constexpr int first = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 1;
  const u32_lanes lower = __builtin_shufflevector(bits.first.lanes, bits.second.lanes, first, 2 + first, 4 + first, 6 + first);
  const u32_lanes upper =
      __builtin_shufflevector(bits.first.lanes, bits.second.lanes, 1 - first, 3 - first, 5 - first, 7 - first);
  return {(u16_lanes)(lower | upper << 16)};
}
/// Nearest-even by adding just under half a unit, and one more where the kept part is odd. A NaN would be carried to Inf or
/// even to -0 by that sum: it keeps its upper half instead, made quiet.
inline u32_lanes rounded_to_brain16(u32_lanes bits) noexcept {
  const u32_lanes rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return blended(u32_above(bits & binary32::abs_mask, binary32::infinity_bits), bits | 0x00400000, rounded) >> 16;
}
inline u16s narrow(brain16, f32_pair value) noexcept {
  const u32_pair bits = narrow(binary32{}, value);
  return packed_lower({{rounded_to_brain16(bits.first.lanes)}, {rounded_to_brain16(bits.second.lanes)}});
}
/// Rounds by adding a power of two whose last digit is that of the result. What is too large is as good as 65536, which becomes
/// Inf. No NaN takes part in the sum.
inline u32_lanes rounded_to_binary16(u32_lanes bits) noexcept {
  constexpr std::int32_t infinity = 0x47800000, least_normal = 0x38800000, thirteen = 13 << binary32::mantissa_bits;
  const u32_lanes magnitude = bits & binary32::abs_mask, sign = (bits ^ magnitude) >> 16;
  const i32_lanes limit = i32_lanes{} + infinity;
  const i32_lanes number = (i32_lanes)magnitude > limit ? limit : (i32_lanes)magnitude;
  const i32_lanes exponent =
      larger_lanes(number & (i32_lanes)(u32_lanes{} + binary32::infinity_bits), i32_lanes{} + least_normal);
  const auto sum = (i32_lanes)((f32_lanes)number + (f32_lanes)(exponent + thirteen));
  const i32_lanes rounded = sum - exponent + (exponent >> 13) - (thirteen + (least_normal >> 13));
  return (u32_lanes)rounded | (u32_above(magnitude, binary32::infinity_bits) & 0x0200) | sign;
}
inline u16s narrow(binary16, f32_pair value) noexcept {
  const u32_pair bits = narrow(binary32{}, value);
  return packed_lower({{rounded_to_binary16(bits.first.lanes)}, {rounded_to_binary16(bits.second.lanes)}});
}

// ---- arithmetic ----

// In double, as in scalar.hpp.
inline f32s divided(f32s dividend, f32s divisor) noexcept {
  const f32_lanes value = dividend.lanes;
  const f64_lanes by = launder(f64_lanes{static_cast<double>(divisor.lanes[0]), static_cast<double>(divisor.lanes[1])});
  const f64_lanes low = f64_lanes{static_cast<double>(value[0]), static_cast<double>(value[1])} / by;
  const f64_lanes high = f64_lanes{static_cast<double>(value[2]), static_cast<double>(value[3])} / by;
  return {f32_lanes{static_cast<float>(low[0]), static_cast<float>(low[1]), static_cast<float>(high[0]),
                    static_cast<float>(high[1])}};
}
inline f32_pair divided(f32_pair value, f32_pair divisor) noexcept {
  return {divided(value.first, divisor.first), divided(value.second, divisor.second)};
}

// ---- the largest magnitude ----

template <class Lane, class Lanes>
inline Lane largest_of(Lanes lanes) noexcept {
  Lane largest = 0;
  for (std::size_t i = 0; i < sizeof lanes / sizeof largest; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  return largest;
}
inline std::uint32_t largest_lane(u32s bits) noexcept { return largest_of<std::uint32_t>(bits.lanes); }
inline std::uint32_t largest_lane(u32_pair bits) noexcept {
  return largest_of<std::uint32_t>(larger(bits.first, bits.second).lanes);
}
inline std::uint16_t largest_lane(u16s bits) noexcept { return largest_of<std::uint16_t>(bits.lanes); }

// ---- sixteen bits times a power of two, in integers ----

inline bool any_beyond(u16s lowest, u16s min, u16s max, u16s highest) noexcept {
  const i16_lanes beyond = ((i16_lanes)min.lanes < (i16_lanes)lowest.lanes) | ((i16_lanes)max.lanes > (i16_lanes)highest.lanes);
  std::uint64_t halves[2];
  std::memcpy(halves, &beyond, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}
inline u16s plus_unless_zero(u16s bits, u16s abs, u16s amount) noexcept {
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
