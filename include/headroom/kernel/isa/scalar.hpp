#pragma once

#include <headroom/kernel/isa/common.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// The kernels in plain C++, one element at a time: for every CPU, for double, and for all formats without SIMD kernels. A
// "register" holds one element, as float, or as double if source or destination is double.
//
// Under -ffast-math a compiler may assume that a computed float is finite, and that dividing by s is multiplying by 1/s.
// hide_from_optimizer keeps both assumptions from the bits that are stored and classified.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail::scalar {

template <class In, class Out>
using compute_for = std::conditional_t<std::is_same_v<In, binary64> || std::is_same_v<Out, binary64>, double, float>;
template <class In, class Out>
using wide_compute_for = compute_for<In, Out>;
template <class Compute>
inline constexpr std::size_t lanes_of = 1;
template <class In>
inline constexpr std::size_t read_lanes = 1;

template <class Compute>
using compute_format = std::conditional_t<std::is_same_v<Compute, double>, binary64, binary32>;

template <std::size_t Lanes, class Format>
inline typename Format::bits_type load(Format, const unsigned char* source) noexcept {
  typename Format::bits_type bits;
  std::memcpy(&bits, source, sizeof bits);
  return bits;
}

template <class Bits>
inline void store(unsigned char* destination, Bits bits) noexcept {
  std::memcpy(destination, &bits, sizeof bits);
}

// Never called, because a register of one element is never partial.
template <std::size_t Lanes, class Format>
inline typename Format::bits_type load_part(Format, const unsigned char*, std::size_t) noexcept {
  return 0;
}
template <class Bits>
inline void store_part(unsigned char*, Bits, std::size_t) noexcept {}

template <class Compute, class Format>
inline Compute widen(Format, typename Format::bits_type bits) noexcept {
  return bit_cast<Compute>(convert_bits<Format, compute_format<Compute>>(bits));
}

template <class Format, class Compute>
inline typename Format::bits_type narrow(Format, Compute value) noexcept {
  using From = compute_format<Compute>;
  return convert_bits<From, Format>(bit_cast<typename From::bits_type>(hide_from_optimizer(value)));
}

template <class Compute>
inline Compute broadcast(double factor) noexcept {
  return static_cast<Compute>(factor);
}
template <class Compute>
inline Compute multiplied(Compute value, Compute factor) noexcept {
  return value * factor;
}
template <class Compute>
inline Compute plus(Compute value, Compute product) noexcept {
  return hide_from_optimizer(value + hide_from_optimizer(product));  // in this order, and no fused multiply-add
}
// Rounds as a fused multiply-add does. The square has at most 24 significant bits, so it is exact in float if it is normal.
// Otherwise the sum is computed in double. If that is inexact, it is not near the middle between two floats.
inline float plus_exact_square(float sum, float value) noexcept {
  const float square = hide_from_optimizer(value * value);
  if (square >= 0x1p-126F) return hide_from_optimizer(sum + square);
  const auto wide = static_cast<double>(value);
  return hide_from_optimizer(static_cast<float>(hide_from_optimizer(static_cast<double>(sum) + wide * wide)));
}
// Divides in double, which -mrecip does not approximate. The quotient of two floats, rounded to double and then to float, is
// the nearest float.
template <class Compute>
inline Compute divided(Compute value, Compute divisor) noexcept {
  return static_cast<Compute>(static_cast<double>(value) / hide_from_optimizer(static_cast<double>(divisor)));
}

template <class Format, class Bits>
inline Bits max_of_abs(Format, Bits largest, Bits bits) noexcept {
  const auto magnitude = static_cast<Bits>(bits & Format::abs_mask);
  return magnitude > largest ? magnitude : largest;
}
template <class Bits>
inline Bits larger(Bits a, Bits b) noexcept {
  return a > b ? a : b;
}
template <class Bits>
inline Bits largest_lane(Bits bits) noexcept {
  return bits;
}
template <class Bits, class Limit>
inline bool any_above(Bits magnitude, Limit limit) noexcept {
  return magnitude > limit;
}

struct f64x1 {
  double lane0;
};
template <class Compute>
inline f64x1 to_doubles(Compute value) noexcept {
  return {static_cast<double>(value)};
}
inline f64x1 added(f64x1 a, f64x1 b) noexcept { return {hide_from_optimizer(a.lane0 + b.lane0)}; }
inline double sum_of(f64x1 sums) noexcept { return sums.lane0; }

#include <headroom/kernel/kernels.inl>

}  // namespace detail::scalar
template <>
struct detail::IsaKernels<Isa::scalar> : detail::scalar::Kernels {};
HEADROOM_DETAIL_END_NAMESPACE
