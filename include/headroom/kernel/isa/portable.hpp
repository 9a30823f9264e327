#pragma once

#include <headroom/kernel/isa/scalar.hpp>

#if HEADROOM_DETAIL_HAS_VECTORS

// For CPUs without kernels of their own: vectors of the language, of which g++ and clang make its
// SIMD instructions. Four floats. fp16 is widened and rounded by integer arithmetic. Sixteen bits
// are computed as even and odd elements, because packing takes many instructions.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail::portable {
inline constexpr std::size_t vector_bytes = 16;
inline constexpr bool has_fp16_and_fma = false;

#include <headroom/kernel/isa/registers.inl>
#include <headroom/kernel/isa/sixteen_bytes.inl>

/// The position of the half with the lower bits, which has the even element on little-endian CPUs.
inline constexpr int lower = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 1;

/// The number in the highest bits of each lane. Rebiases the exponent. Adds 1 to that of a
/// subnormal number, and subtracts the one that its mantissa does not have.
template <class Format>
inline f32s widened(u32_lanes top) noexcept {
  constexpr int up = binary32::mantissa_bits - Format::mantissa_bits;
  constexpr std::uint32_t one = 1U << binary32::mantissa_bits, rebias = (127U - Format::bias) * one,
                          abs_mask = std::uint32_t{Format::abs_mask} << up;
  constexpr std::int32_t largest = Format::largest_finite_bits << up;
  const u32_lanes magnitudes =
      (top >> (binary32::exponent_bits - Format::exponent_bits)) & abs_mask;
  const auto is_subnormal = u32_lanes(i32_lanes(magnitudes) < all_lanes(one)),
             is_special = u32_lanes(i32_lanes(magnitudes) > all_lanes(largest));
  const u32_lanes bits = magnitudes + rebias + (is_subnormal & one) + (is_special & rebias);
  const f32_lanes value = f32_lanes(bits) - f32_lanes(is_subnormal & (rebias + one));
  return {f32_lanes(u32_lanes(value) | (top & binary32::sign_mask))};
}
template <class Format>
inline f32_pair<Order::even_odd> widened_pair(u16_lanes top) noexcept {
  return {widened<Format>(u32_lanes(top) << 16), widened<Format>(u32_lanes(top) & 0xffff0000)};
}
template <class Compute>
inline Compute widen(binary16, u16s bits) noexcept {
  return widened_pair<binary16>(bits.lanes);
}
template <class Compute, class Format>
inline Compute widen(Format, u8_half bits) noexcept {
  return widened_pair<Format>(__builtin_convertvector(bits.lanes, u16_lanes) << 8);
}
template <class Compute>
inline f32s widen(binary16, u16_half bits) noexcept {
  return widened<binary16>(__builtin_convertvector(bits.lanes, u32_lanes) << 16);
}
template <class Compute>
inline f32s widen(brain16, u16_half bits) noexcept {
  return {f32_lanes(__builtin_convertvector(bits.lanes, u32_lanes) << 16)};
}

/// The magnitude in fp16, in the lower 15 bits of each lane; see codes_of.
inline u32_lanes fp16_magnitudes(u32_lanes bits) noexcept {
  constexpr int dropped = binary32::mantissa_bits - binary16::mantissa_bits;
  constexpr std::int32_t offset = -(113 << binary16::mantissa_bits) & binary16::abs_mask;
  const auto magnitudes = f32_lanes(bits & binary32::abs_mask);
  const f32_lanes overflow = f32_lanes{} + 0x1p16F, smallest = f32_lanes{} + 0x1p-14F;
  const f32_lanes limited = magnitudes < overflow ? magnitudes : overflow;
  const auto powers = f32_lanes(u32_lanes(limited) & binary32::infinity_bits);
  const auto exponents = u32_lanes(powers > smallest ? powers : smallest);
  const f32_lanes sum =
      limited + f32_lanes(exponents + ((dropped << binary32::mantissa_bits) + offset));
  const auto is_nan = u32_lanes(i32_lanes(magnitudes) > all_lanes(binary32::infinity_bits));
  return (u32_lanes(sum) + (exponents >> dropped)) | (is_nan & binary16::quiet_nan_bits);
}
inline u16_half narrow(binary16, f32s value) noexcept {
  const u32_lanes bits = narrow(binary32{}, value).lanes;
  const u32_lanes result = (fp16_magnitudes(bits) & 0x7fff) | ((bits >> 16) & 0x8000);
  return {__builtin_convertvector(result, u16_half_lanes)};
}
template <Order order>
inline f32_pair<Order::even_odd> by_parity(f32_pair<order> pair) noexcept {
  const f32_lanes a = pair.first.lanes, b = pair.second.lanes;
  if constexpr (order == Order::even_odd) return pair;
  if constexpr (order != Order::even_odd)
    return {{__builtin_shufflevector(a, b, lower, lower + 2, lower + 4, lower + 6)},
            {__builtin_shufflevector(a, b, 1 - lower, 3 - lower, 5 - lower, 7 - lower)}};
}
template <Order order>
inline u16s narrow(binary16, f32_pair<order> value) noexcept {
  const f32_pair<Order::even_odd> pair = by_parity(value);
  const u32_lanes even = narrow(binary32{}, pair.first).lanes,
                  odd = narrow(binary32{}, pair.second).lanes;
  return {(by_turns(fp16_magnitudes(even), fp16_magnitudes(odd) << 16) & 0x7fff) |
          (by_turns(even >> 16, odd) & 0x8000)};
}

// Floats from even and odd elements, in their order
inline u32_pair narrow(binary32, f32_pair<Order::even_odd> value) noexcept {
  const u32_lanes a = narrow(binary32{}, value.first).lanes,
                  b = narrow(binary32{}, value.second).lanes;
  constexpr int even = 4 * lower, odd = 4 - even;
  return {{__builtin_shufflevector(a, b, even, odd, even + 1, odd + 1)},
          {__builtin_shufflevector(a, b, even + 2, odd + 2, even + 3, odd + 3)}};
}
inline void store(unsigned char* destination, u32_pair bits) noexcept {
  std::memcpy(destination, &bits, sizeof bits);
}
inline u32_pair larger_of(u32_pair a, u32_pair b) noexcept {
  return {larger_of(a.first, b.first), larger_of(a.second, b.second)};
}
template <class Format>
inline u32_pair max_of_abs(Format, u32_pair max_abs, u32_pair bits) noexcept {
  return {max_of_abs(Format{}, max_abs.first, bits.first),
          max_of_abs(Format{}, max_abs.second, bits.second)};
}
inline u16_lanes saturating_difference(u16_lanes a, u16_lanes b) noexcept {
  return a > b ? a - b : 0;
}
inline u16s rounded_upper_halves(u32_lanes first, u32_lanes second) noexcept {
  const auto pair = by_parity(block_pair{{f32_lanes(first)}, {f32_lanes(second)}});
  const auto even = u32_lanes(pair.first.lanes), odd = u32_lanes(pair.second.lanes);
  return rounded(by_turns(even >> 16, odd), by_turns(even, odd << 16));
}
inline u16_lanes sign_extended(u8_half_lanes bytes) noexcept {
  return u16_lanes(i16_lanes(__builtin_convertvector(bytes, u16_lanes) << 8) >> 8);
}
inline u8s low_bytes(u32_lanes a, u32_lanes b, u32_lanes c, u32_lanes d) noexcept {
  const u8_quarter_lanes quarters[] = {
      __builtin_convertvector(a, u8_quarter_lanes), __builtin_convertvector(b, u8_quarter_lanes),
      __builtin_convertvector(c, u8_quarter_lanes), __builtin_convertvector(d, u8_quarter_lanes)};
  return {loaded<u8_lanes>(reinterpret_cast<const unsigned char*>(quarters))};
}

inline bool any_nan(u32_lanes a, u32_lanes b) noexcept {
  const i32_lanes infinity = all_lanes(binary32::infinity_bits);
  return any(u32_lanes(i32_lanes(a & binary32::abs_mask) > infinity) |
             u32_lanes(i32_lanes(b & binary32::abs_mask) > infinity));
}
template <class Bits>
inline auto largest_lane(Bits bits) noexcept {
  auto result = bits.lanes[0];
  for (std::size_t i = 1; i < sizeof bits / sizeof result; ++i)
    result = larger_of<decltype(result)>(result, bits.lanes[i]);
  return result;
}
inline std::uint32_t largest_lane(u32_pair bits) noexcept {
  return largest_lane(larger_of(bits.first, bits.second));
}

// In double, which -mrecip does not approximate. Rounded to float, the quotient is the nearest.
inline f32s divided(f32s value, f32s divisor) noexcept {
  const f32_lanes a = value.lanes, b = divisor.lanes;
  return {f32_lanes{scalar::divided(a[0], b[0]), scalar::divided(a[1], b[1]),
                    scalar::divided(a[2], b[2]), scalar::divided(a[3], b[3])}};
}
// Rounds as a fused multiply-add does; see scalar.hpp.
inline f32s plus_exact_square(f32s sum, f32s value) noexcept {
  const f32_lanes square = hide_from_optimizer(value.lanes * value.lanes);
  f32s result = {hide_from_optimizer(sum.lanes + square)};
  // Not 0, but below 2^-63: the square may be subnormal
  const u32_lanes from_one = (u32_lanes(value.lanes) & binary32::abs_mask) - 1 + 0x80000000;
  const i32_lanes limit = all_lanes((64 << 23) - 1 - 0x7fffffff - 1);
  if (__builtin_expect(any(u32_lanes(i32_lanes(from_one) < limit)), 0)) {
    for (int i = 0; i < 4; ++i)
      result.lanes[i] = scalar::plus_exact_square(sum.lanes[i], value.lanes[i]);
  }
  return result;
}
inline f64s to_doubles(f32s value) noexcept {
  const f32_lanes floats = value.lanes;
  return {f64_lanes{static_cast<double>(floats[0]), static_cast<double>(floats[1])},
          f64_lanes{static_cast<double>(floats[2]), static_cast<double>(floats[3])}};
}
inline double sum_of(f64_lanes sums) noexcept { return hide_from_optimizer(sums[0] + sums[1]); }

#include <headroom/kernel/kernels.inl>
}  // namespace detail::portable
template <>
struct detail::IsaKernels<Isa::portable> : detail::portable::Kernels {};
HEADROOM_DETAIL_END_NAMESPACE

#else

HEADROOM_DETAIL_BEGIN_NAMESPACE
template <>
struct detail::IsaKernels<Isa::portable> : detail::scalar::Kernels {};
HEADROOM_DETAIL_END_NAMESPACE

#endif
