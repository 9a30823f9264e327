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

struct f32x8 {
  float32x4_t low, high;
};
struct u32x8 {
  uint32x4_t low, high;
};
struct u16x8 {
  uint16x8_t lanes;
};
struct f64x8 {
  float64x2_t lanes01, lanes23, lanes45, lanes67;
};

template <class In, class Out>
using compute_for = f32x8;
template <class Compute>
inline constexpr std::size_t lanes_of = 8;
template <class In>
inline constexpr std::size_t read_lanes = 8;

// ---- load and store: as bytes, for elements need no alignment, and as integers, so that no compiler may think a NaN cannot be
// there ----

template <std::size_t Lanes>
inline u32x8 load(binary32, const unsigned char* source) noexcept {
  return {vreinterpretq_u32_u8(vld1q_u8(source)), vreinterpretq_u32_u8(vld1q_u8(source + 16))};
}
template <std::size_t Lanes>
inline u16x8 load(binary16, const unsigned char* source) noexcept {
  return {vreinterpretq_u16_u8(vld1q_u8(source))};
}

inline void store(unsigned char* destination, u32x8 bits) noexcept {
  vst1q_u8(destination, vreinterpretq_u8_u32(bits.low));
  vst1q_u8(destination + 16, vreinterpretq_u8_u32(bits.high));
}
inline void store(unsigned char* destination, u16x8 bits) noexcept { vst1q_u8(destination, vreinterpretq_u8_u16(bits.lanes)); }

// ---- fewer than eight elements, by way of memory ----

template <class Bits>
inline void store_part(unsigned char* destination, Bits bits, std::size_t n) noexcept {
  unsigned char padded[sizeof(Bits)];
  store(padded, bits);
  std::memcpy(destination, padded, n * sizeof(Bits) / 8);
}

// ---- widen to float, narrow to the nearest ----

template <class Compute>
inline f32x8 widen(binary32, u32x8 bits) noexcept {
  return {vreinterpretq_f32_u32(bits.low), vreinterpretq_f32_u32(bits.high)};
}
template <class Compute>
inline f32x8 widen(binary16, u16x8 bits) noexcept {
  const float16x8_t value_f16x8 = vreinterpretq_f16_u16(bits.lanes);
  return {vcvt_f32_f16(vget_low_f16(value_f16x8)), vcvt_high_f32_f16(value_f16x8)};
}
template <class Compute>
inline f32x8 widen(brain16, u16x8 bits) noexcept {
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits.lanes), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(bits.lanes, 16))};
}

// The empty asm hides that the bits come from a floating-point result: under -ffast-math that would count as proof that they
// are not those of Inf or NaN, and the check of them would be folded away.
inline u32x8 narrow(binary32, f32x8 value) noexcept {
  u32x8 bits = {vreinterpretq_u32_f32(value.low), vreinterpretq_u32_f32(value.high)};
  __asm__("" : "+w"(bits.low), "+w"(bits.high));
  return bits;
}
inline u16x8 narrow(binary16, f32x8 value) noexcept {
  uint16x8_t bits_u16x8 = vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(value.low), value.high));
  __asm__("" : "+w"(bits_u16x8));
  return {bits_u16x8};
}

// Nearest-even by adding just under half a unit, and one more where the kept part is odd. A NaN would be carried to Inf or even
// to -0 by that sum: it keeps its upper half instead, made quiet.
inline uint32x4_t rounded_to_brain16(uint32x4_t bits_u32x4) noexcept {
  const uint32x4_t odd_u32x4 = vandq_u32(vshrq_n_u32(bits_u32x4, 16), vdupq_n_u32(1));
  const uint32x4_t rounded_u32x4 = vaddq_u32(vaddq_u32(bits_u32x4, vdupq_n_u32(0x7fff)), odd_u32x4);
  const uint32x4_t quiet_u32x4 = vorrq_u32(bits_u32x4, vdupq_n_u32(0x00400000));
  const uint32x4_t is_nan_u32x4 = vcgtq_u32(vandq_u32(bits_u32x4, vdupq_n_u32(0x7fffffff)), vdupq_n_u32(0x7f800000));
  return vbslq_u32(is_nan_u32x4, quiet_u32x4, rounded_u32x4);
}
inline u16x8 narrow(brain16, f32x8 value) noexcept {
  const u32x8 bits = narrow(binary32{}, value);
  return {vshrn_high_n_u32(vshrn_n_u32(rounded_to_brain16(bits.low), 16), rounded_to_brain16(bits.high), 16)};
}

// ---- arithmetic ----

template <class Compute>
inline f32x8 broadcast(double factor) noexcept {
  const float32x4_t lanes = vdupq_n_f32(static_cast<float>(factor));
  return {lanes, lanes};
}
inline f32x8 multiplied(f32x8 value, f32x8 factor) noexcept {
  return {vmulq_f32(value.low, factor.low), vmulq_f32(value.high, factor.high)};
}
// The empty asm keeps the product from becoming a part of a fused multiply-add, and sums in their order.
inline f32x8 plus(f32x8 value, f32x8 product) noexcept {
  __asm__("" : "+w"(product.low), "+w"(product.high));
  f32x8 sum = {vaddq_f32(value.low, product.low), vaddq_f32(value.high, product.high)};
  __asm__("" : "+w"(sum.low), "+w"(sum.high));
  return sum;
}

inline f32x8 plus_exact_square(f32x8 sum, f32x8 value) noexcept {
  sum = {vfmaq_f32(sum.low, value.low, value.low), vfmaq_f32(sum.high, value.high, value.high)};
  __asm__("" : "+w"(sum.low), "+w"(sum.high));
  return sum;
}

// Not vdivq_f32: -ffast-math allows an approximate reciprocal and Newton steps for it.
inline float32x4_t divided(float32x4_t value, float32x4_t divisor) noexcept {
  float32x4_t quotient;
  __asm__("fdiv %0.4s, %1.4s, %2.4s" : "=w"(quotient) : "w"(value), "w"(divisor));
  return quotient;
}
inline f32x8 divided(f32x8 value, f32x8 divisor) noexcept {
  return {divided(value.low, divisor.low), divided(value.high, divisor.high)};
}

// ---- the largest magnitude, in integers: the bits without the sign order as the values do, Inf and NaN on top ----

inline u32x8 larger(u32x8 a, u32x8 b) noexcept { return {vmaxq_u32(a.low, b.low), vmaxq_u32(a.high, b.high)}; }
inline u16x8 larger(u16x8 a, u16x8 b) noexcept { return {vmaxq_u16(a.lanes, b.lanes)}; }
inline u32x8 magnitudes(u32x8 bits) noexcept {
  const uint32x4_t abs_mask_u32x4 = vdupq_n_u32(0x7fffffff);
  return {vandq_u32(bits.low, abs_mask_u32x4), vandq_u32(bits.high, abs_mask_u32x4)};
}
inline u16x8 magnitudes(u16x8 bits) noexcept { return {vandq_u16(bits.lanes, vdupq_n_u16(0x7fff))}; }

inline std::uint32_t largest_lane(u32x8 bits) noexcept { return vmaxvq_u32(vmaxq_u32(bits.low, bits.high)); }
inline std::uint16_t largest_lane(u16x8 bits) noexcept { return vmaxvq_u16(bits.lanes); }
template <class Bits, class Limit>
inline bool any_above(Bits magnitudes, Limit limit) noexcept {
  return largest_lane(magnitudes) > limit;
}

// ---- sixteen bits times a power of two, in integers ----

using sixteen_bits = u16x8;
inline u16x8 all_sixteen(int value) noexcept { return {vdupq_n_u16(static_cast<std::uint16_t>(value))}; }
inline u16x8 smaller(u16x8 a, u16x8 b) noexcept { return {vminq_u16(a.lanes, b.lanes)}; }
// Less 1, magnitudes stay in order, but for zero, which is the greatest.
inline u16x8 with_zero_last(u16x8 bits) noexcept { return {vsubq_u16(bits.lanes, vdupq_n_u16(1))}; }
inline bool any_beyond(u16x8 lowest, u16x8 min, u16x8 max, u16x8 highest) noexcept {
  return vmaxvq_u16(vorrq_u16(vcltq_u16(min.lanes, lowest.lanes), vcgtq_u16(max.lanes, highest.lanes))) != 0;
}
inline u16x8 plus_unless_zero(u16x8 bits, u16x8 abs, u16x8 amount) noexcept {
  return {vaddq_u16(bits.lanes, vandq_u16(amount.lanes, vtstq_u16(abs.lanes, abs.lanes)))};
}

// ---- sums of squares. The asm keeps -ffast-math from adding in another order ----

inline f64x8 to_doubles(f32x8 value) noexcept {
  return {vcvt_f64_f32(vget_low_f32(value.low)), vcvt_high_f64_f32(value.low), vcvt_f64_f32(vget_low_f32(value.high)),
          vcvt_high_f64_f32(value.high)};
}
inline float64x2_t added(float64x2_t a, float64x2_t b) noexcept {
  float64x2_t sum = vaddq_f64(a, b);
  __asm__("" : "+w"(sum));
  return sum;
}
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
