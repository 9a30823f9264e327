#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_VECTORS

#include <headroom/dtype/format.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

// The exponents of eight elements at a time, for count_exponents.hpp. In vectors of the language, for every instruction set.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

typedef std::uint16_t lanes_u16 __attribute__((vector_size(16)));
typedef std::int16_t lanes_i16 __attribute__((vector_size(16)));
typedef std::uint32_t lanes_u32 __attribute__((vector_size(16)));
typedef std::int32_t lanes_i32 __attribute__((vector_size(16)));
typedef float lanes_f32 __attribute__((vector_size(16)));

template <class Lanes>
inline Lanes load_lanes(const unsigned char* source) noexcept {
  Lanes lanes;
  std::memcpy(&lanes, source, sizeof lanes);
  return lanes;
}

/// Of eight elements. A pair is two cells in the lower 16 bits of a lane, with any bits above them.
struct ExponentLanes {
  lanes_u32 pairs;
  lanes_u16 is_special;  ///< all ones for a power of two, Inf, and what else the cell does not tell
};

/// Elements of 16 bits whose subnormal numbers have cells of their own, 1 to mantissa_bits, below those of normal ones. Cells
/// are below 256. Special are powers of two and Inf.
template <class Format>
inline ExponentLanes spread_exponents(const unsigned char* source) noexcept {
  constexpr std::int16_t one = 1 << Format::mantissa_bits;
  const lanes_u16 magnitude = load_lanes<lanes_u16>(source) & Format::abs_mask;
  const auto is_subnormal = (lanes_u16)((lanes_i16)magnitude < one);
  // As a float, an integer has the exponent of its highest digit. Zero becomes a one, and has one less than the others.
  const auto odd = (lanes_u32)(magnitude + magnitude + 1);
  const auto low = (lanes_u32) __builtin_convertvector((lanes_i32)(odd & 0xffff), lanes_f32) >> binary32::mantissa_bits;
  const auto high = (lanes_u32) __builtin_convertvector((lanes_i32)(odd >> 16), lanes_f32) >> binary32::mantissa_bits;
  const auto highest_digit = (lanes_i16)(low | high << 16);
  constexpr std::int16_t above = binary32::bias + Format::mantissa_bits;  // less than any normal number has
  const auto digit = (lanes_u16)(highest_digit < above ? highest_digit : lanes_i16{} + above);
  const lanes_u16 cell = digit - std::uint16_t{binary32::bias} + (magnitude >> Format::mantissa_bits);
  const lanes_u16 below_highest = magnitude + is_subnormal;  // a mask is -1
  const auto is_power = (lanes_u16)((magnitude & below_highest & Format::mantissa_mask) == 0);
  const auto both = (lanes_u32)cell;
  return {both | both >> 8, is_power & (lanes_u16)(magnitude != 0)};
}

/// By the exponent field, which has eight bits or less. Special are powers of two, Inf and subnormal numbers: either all digits
/// are zero, or the exponent field is, while a zero has both.
template <class Format>
inline ExponentLanes field_exponents(const unsigned char* source) noexcept {
  constexpr auto field_mask = static_cast<typename Format::bits_type>(Format::abs_mask ^ Format::mantissa_mask);
  if constexpr (sizeof(typename Format::bits_type) == 2) {
    const auto bits = load_lanes<lanes_u16>(source);
    const lanes_u16 field = bits & field_mask;
    const auto special = (lanes_u16)((field == 0) ^ ((bits & Format::mantissa_mask) == 0));
    const auto both = (lanes_u32)field;
    return {both >> Format::mantissa_bits | both >> (Format::mantissa_bits + 8), special};
  } else {
    const auto a = load_lanes<lanes_u32>(source), b = load_lanes<lanes_u32>(source + sizeof a);
    const lanes_u32 a_field = (a & field_mask) >> Format::mantissa_bits, b_field = (b & field_mask) >> Format::mantissa_bits;
    const auto a_special = (lanes_u32)((a_field == 0) ^ ((a & Format::mantissa_mask) == 0));
    const auto b_special = (lanes_u32)((b_field == 0) ^ ((b & Format::mantissa_mask) == 0));
    return {a_field | b_field << 8, (lanes_u16)((a_special & 0xffff) | b_special << 16)};
  }
}

/// The element of 32 bits that is in a lane of `is_special`.
constexpr std::size_t element_in_lane(std::size_t lane) noexcept {
  const bool is_first = (lane % 2 == 0) == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return lane / 2 + (is_first ? 0 : 4);
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom

#endif
