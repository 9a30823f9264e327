#pragma once

#include <cstddef>
#include <cstring>
#include <headroom/config.hpp>
#include <headroom/kernel/isa/common.hpp>
#include <type_traits>

// One element at a time, in the language itself: what every CPU can do, the kernels of double, and what portable.hpp has to
// equal, which takes the place of most of them where the CPU has registers for the vectors of the language. A "register" holds
// one element; it is computed with as float, or as double where source or destination is double.
//
// Under -ffast-math a compiler may assume that a float it computed is finite, and that dividing by s is multiplying by 1/s. The
// empty asm statements hide the origin of a value from it, so that neither reaches the bits that are stored or classified.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail::scalar {

template <class In, class Out>
using compute_for = std::conditional_t<std::is_same_v<In, binary64> || std::is_same_v<Out, binary64>, double, float>;

template <class In>
using float_lanes = compute_for<In, In>;
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

// A register of one element is never filled in part.
template <std::size_t Lanes, class Format>
inline typename Format::bits_type load_part(Format, const unsigned char*, std::size_t) noexcept {
  return 0;
}
template <class Bits>
inline void store_part(unsigned char*, Bits, std::size_t) noexcept {}

inline constexpr bool has_exponent_shift = false;
inline constexpr bool has_streaming_stores = false;
inline constexpr std::size_t streaming_alignment = 1;
inline void prefetch_ahead(const unsigned char*) noexcept {}
inline void finish_streaming() noexcept {}

template <class Compute, class Format>
inline Compute widen(Format, typename Format::bits_type bits) noexcept {
  return bit_cast<Compute>(convert_bits<Format, compute_format<Compute>>(bits));
}

template <class Format, class Compute>
inline typename Format::bits_type narrow(Format, Compute value) noexcept {
  using From = compute_format<Compute>;
  return convert_bits<From, Format>(bit_cast<typename From::bits_type>(launder(value)));
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
  return value + launder(product);  // and no fused multiply-add
}
// In double, of which -mrecip makes no approximation; the quotient of two floats rounded to double and then to float is the
// nearest float.
template <class Compute>
inline Compute divided(Compute value, Compute divisor) noexcept {
  return static_cast<Compute>(static_cast<double>(value) / launder(static_cast<double>(divisor)));
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

struct f64x1 {
  double lane0;
};
template <class Compute>
inline f64x1 to_doubles(Compute value) noexcept {
  return {static_cast<double>(value)};
}
// Doubles come here, too, whose squares are rounded: not fused, so that every CPU does the same.
inline void add_squares(f64x1& sums, f64x1 value) noexcept {
  sums.lane0 = launder(sums.lane0 + launder(value.lane0 * value.lane0));
}
inline f64x1 added(f64x1 a, f64x1 b) noexcept { return {launder(a.lane0 + b.lane0)}; }
inline void store_sums(double* destination, f64x1 sums) noexcept { *destination = sums.lane0; }

#include <headroom/kernel/kernels.inl>

}  // namespace detail::scalar
#if !HEADROOM_DETAIL_HAS_VECTORS  // else portable.hpp chooses
template <>
struct detail::IsaKernels<Isa::scalar> : detail::scalar::Kernels {};
#endif
}  // namespace HEADROOM_BUILD
}  // namespace headroom
