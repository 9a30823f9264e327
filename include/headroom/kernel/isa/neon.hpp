#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_NEON

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/kernel/isa/common.hpp>

// NEON, which every aarch64 CPU has, with the fp16 conversions (FCVTN, FCVTL) of the baseline. It needs no target region. A
// register has four floats. 16-bit formats are loaded four at a time as half a register.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail::neon {

inline constexpr std::size_t vector_bytes = 16;

template <class Lanes>
inline Lanes hidden(Lanes lanes) noexcept {
  __asm__("" : "+w"(lanes));
  return lanes;
}

#include <headroom/kernel/isa/registers.inl>

// ---- partial registers, through memory ----

template <std::size_t Lanes, class Format>
inline auto load_part(Format, const unsigned char* source, std::size_t n) noexcept {
  unsigned char padded[Lanes * sizeof(typename Format::bits_type)] = {};
  std::memcpy(padded, source, n * sizeof(typename Format::bits_type));
  return load<Lanes>(Format{}, padded);
}
template <class Bits>
inline void store_part(unsigned char* destination, Bits bits, std::size_t n) noexcept {
  std::memcpy(destination, &bits.lanes, n * sizeof bits.lanes[0]);
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32s widen(binary16, u16_half bits) noexcept {
  return {(f32_lanes)vcvt_f32_f16((float16x4_t)bits.lanes)};
}
template <class Compute>
inline f32s widen(brain16, u16_half bits) noexcept {
  return {(f32_lanes)vshll_n_u16((uint16x4_t)bits.lanes, 16)};
}
inline u16_half narrow(binary16, f32s value) noexcept {
  return {hidden((u16_half_lanes)vcvt_f16_f32((float32x4_t)value.lanes))};
}
inline bool any_nan(u32_lanes, u32_lanes) noexcept { return true; }  // a test would take longer than it saves
inline u16_half upper_halves(u32_lanes bits) noexcept { return {(u16_half_lanes)vshrn_n_u32((uint32x4_t)bits, 16)}; }
inline u16_lanes saturating_difference(u16_lanes a, u16_lanes b) noexcept {
  return (u16_lanes)vqsubq_u16((uint16x8_t)a, (uint16x8_t)b);
}
inline u16_lanes by_turns(u32_lanes lower, u32_lanes upper) noexcept {
  return (u16_lanes)((lower & 0xffff) | (upper & 0xffff0000));
}
inline u16s rounded_upper_halves(u32_lanes first, u32_lanes second) noexcept {
  const uint16x4_t low_u16x4 = vshrn_n_u32((uint32x4_t)rounded_number(first), 16);
  return {(u16_lanes)vshrn_high_n_u32(low_u16x4, (uint32x4_t)rounded_number(second), 16)};
}

inline u16_half_lanes sign_extended(u8_quarter bytes) noexcept {
  return (u16_half_lanes) __builtin_convertvector((i8_quarter_lanes)bytes.lanes, i16_half_lanes);
}
inline u8s low_bytes(u32_lanes a, u32_lanes b, u32_lanes c, u32_lanes d) noexcept {
  const uint16x8_t ab = vuzp1q_u16((uint16x8_t)a, (uint16x8_t)b), cd = vuzp1q_u16((uint16x8_t)c, (uint16x8_t)d);
  return {(u8_lanes)vuzp1q_u8((uint8x16_t)ab, (uint8x16_t)cd)};
}

// Inline assembly, because -ffast-math lets compilers turn the operator into an approximate reciprocal and Newton steps.
inline f32s divided(f32s value, f32s divisor) noexcept {
  f32s quotient;
  __asm__("fdiv %0.4s, %1.4s, %2.4s" : "=w"(quotient.lanes) : "w"(value.lanes), "w"(divisor.lanes));
  return quotient;
}

// ---- magnitudes ----

inline std::uint32_t largest_lane(u32s bits) noexcept { return vmaxvq_u32((uint32x4_t)bits.lanes); }
inline std::uint16_t largest_lane(u16s bits) noexcept { return vmaxvq_u16((uint16x8_t)bits.lanes); }
inline std::uint16_t largest_lane(u16_half bits) noexcept { return vmaxv_u16((uint16x4_t)bits.lanes); }
template <class Bits, class Limit>
inline bool any_above(Bits magnitudes, Limit limit) noexcept {
  return largest_lane(magnitudes) > limit;
}

// ---- sums of squares ----

inline f32s plus_exact_square(f32s sum, f32s value) noexcept {
  const auto factor = (float32x4_t)value.lanes;
  return {hidden((f32_lanes)vfmaq_f32((float32x4_t)sum.lanes, factor, factor))};
}
inline f64s to_doubles(f32s value) noexcept {
  const auto floats = (float32x4_t)value.lanes;
  return {(f64_lanes)vcvt_f64_f32(vget_low_f32(floats)), (f64_lanes)vcvt_high_f64_f32(floats)};
}
inline even_odd_f64s to_doubles(f32_pair<Order::even_odd> value) noexcept {
  return {to_doubles(value.first), to_doubles(value.second)};
}
inline double sum_of(f64_lanes sums) noexcept { return vaddvq_f64((float64x2_t)sums); }

#include <headroom/kernel/kernels.inl>

}  // namespace detail::neon
template <>
struct detail::IsaKernels<Isa::neon> : detail::neon::Kernels {};
HEADROOM_DETAIL_END_NAMESPACE

#endif
