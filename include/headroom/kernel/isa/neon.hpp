#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_NEON

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/kernel/isa/common.hpp>

// NEON as every aarch64 CPU has it, with the fp16 conversions (FCVTN, FCVTL) of the baseline: no target region is needed. Eight
// elements at a time: one register of sixteen-bit elements, a pair of registers of floats.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail::neon {

inline constexpr std::size_t vector_bytes = 16;

template <class Lanes>
inline Lanes hidden(Lanes lanes) noexcept {
  __asm__("" : "+w"(lanes));
  return lanes;
}

#include <headroom/kernel/isa/registers.inl>

struct f64x8 {
  float64x2_t lanes01, lanes23, lanes45, lanes67;
};

template <class In, class Out>
using compute_for = f32_pair;
template <class Compute>
inline constexpr std::size_t lanes_of = 8;
template <class In>
inline constexpr std::size_t read_lanes = 8;

template <std::size_t>
inline u16s load(binary16, const unsigned char* source) noexcept {
  return {loaded<u16_lanes>(source)};
}

// ---- fewer than eight elements, by way of memory ----

template <class Bits>
inline void store_part(unsigned char* destination, Bits bits, std::size_t n) noexcept {
  unsigned char padded[sizeof(Bits)];
  store(padded, bits);
  std::memcpy(destination, padded, n * sizeof(Bits) / 8);
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32_pair widen(binary16, u16s bits) noexcept {
  const auto value_f16x8 = (float16x8_t)bits.lanes;
  return {{(f32_lanes)vcvt_f32_f16(vget_low_f16(value_f16x8))}, {(f32_lanes)vcvt_high_f32_f16(value_f16x8)}};
}
template <class Compute>
inline f32_pair widen(brain16, u16s bits) noexcept {
  const auto bits_u16x8 = (uint16x8_t)bits.lanes;
  return {{(f32_lanes)vshll_n_u16(vget_low_u16(bits_u16x8), 16)}, {(f32_lanes)vshll_high_n_u16(bits_u16x8, 16)}};
}
inline u16s narrow(binary16, f32_pair value) noexcept {
  const float16x4_t low_f16x4 = vcvt_f16_f32((float32x4_t)value.first.lanes);
  return {hidden((u16_lanes)vcvt_high_f16_f32(low_f16x4, (float32x4_t)value.second.lanes))};
}

// Nearest-even by adding just under half a unit, and one more where the kept part is odd. A NaN would be carried to Inf or even
// to -0 by that sum: it keeps its upper half instead, made quiet.
inline uint32x4_t rounded_to_brain16(u32_lanes bits) noexcept {
  const u32_lanes rounded = bits + 0x7fff + ((bits >> 16) & 1), quiet = bits | 0x00400000;
  const auto is_nan = (uint32x4_t)((bits & binary32::abs_mask) > binary32::infinity_bits);
  return vbslq_u32(is_nan, (uint32x4_t)quiet, (uint32x4_t)rounded);
}
inline u16s narrow(brain16, f32_pair value) noexcept {
  const u32_pair bits = narrow(binary32{}, value);
  const uint16x4_t low_u16x4 = vshrn_n_u32(rounded_to_brain16(bits.first.lanes), 16);
  return {(u16_lanes)vshrn_high_n_u32(low_u16x4, rounded_to_brain16(bits.second.lanes), 16)};
}

// ---- arithmetic ----

inline f32s plus_exact_square(f32s sum, f32s value) noexcept {
  const auto factor = (float32x4_t)value.lanes;
  return {hidden((f32_lanes)vfmaq_f32((float32x4_t)sum.lanes, factor, factor))};
}
// Not by the operator: -ffast-math allows an approximate reciprocal and Newton steps for it.
inline f32s divided(f32s value, f32s divisor) noexcept {
  f32s quotient;
  __asm__("fdiv %0.4s, %1.4s, %2.4s" : "=w"(quotient.lanes) : "w"(value.lanes), "w"(divisor.lanes));
  return quotient;
}
inline f32_pair divided(f32_pair value, f32_pair divisor) noexcept {
  return {divided(value.first, divisor.first), divided(value.second, divisor.second)};
}

// ---- magnitudes ----

inline std::uint32_t largest_lane(u32_pair bits) noexcept {
  return vmaxvq_u32((uint32x4_t)larger(bits.first, bits.second).lanes);
}
inline std::uint16_t largest_lane(u16s bits) noexcept { return vmaxvq_u16((uint16x8_t)bits.lanes); }
template <class Bits, class Limit>
inline bool any_above(Bits magnitudes, Limit limit) noexcept {
  return largest_lane(magnitudes) > limit;
}
inline bool any_beyond(u16s lowest, u16s min, u16s max, u16s highest) noexcept {
  const auto is_beyond = ((i16_lanes)min.lanes < (i16_lanes)lowest.lanes) | ((i16_lanes)max.lanes > (i16_lanes)highest.lanes);
  return vmaxvq_u16((uint16x8_t)is_beyond) != 0;
}
inline u16s plus_unless_zero(u16s bits, u16s abs, u16s amount) noexcept {
  return {bits.lanes + (amount.lanes & (u16_lanes)(abs.lanes != 0))};
}

// ---- sums of squares. Hidden, so that -ffast-math does not add in another order ----

inline f64x8 to_doubles(f32_pair value) noexcept {
  const auto low = (float32x4_t)value.first.lanes, high = (float32x4_t)value.second.lanes;
  return {vcvt_f64_f32(vget_low_f32(low)), vcvt_high_f64_f32(low), vcvt_f64_f32(vget_low_f32(high)), vcvt_high_f64_f32(high)};
}
inline float64x2_t added(float64x2_t a, float64x2_t b) noexcept { return hidden(vaddq_f64(a, b)); }
inline f64x8 added(f64x8 a, f64x8 b) noexcept {
  return {added(a.lanes01, b.lanes01), added(a.lanes23, b.lanes23), added(a.lanes45, b.lanes45), added(a.lanes67, b.lanes67)};
}
inline double sum_of(f64x8 sums) noexcept {
  return vaddvq_f64(added(added(sums.lanes01, sums.lanes45), added(sums.lanes23, sums.lanes67)));
}

#include <headroom/kernel/isa/lanes.inl>
#include <headroom/kernel/kernels.inl>

}  // namespace detail::neon
template <>
struct detail::IsaKernels<Isa::neon> : detail::neon::Kernels {};
}  // namespace HEADROOM_BUILD
}  // namespace headroom

#endif
