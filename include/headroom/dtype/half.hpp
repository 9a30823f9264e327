#pragma once

#include <headroom/dtype/span.hpp>
#include <headroom/dtype/storage_float.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

// The formats of 16 bits.

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// IEEE 754 binary16, "fp16": 1 sign, 5 exponent, 10 fraction bits. Largest finite 65504, smallest normal 2^-14, smallest
/// subnormal 2^-24. Magnitudes below 2^-25 round to zero, which is why loss scaling exists.
using half = storage_float<binary16>;

/// bfloat16: 1 sign, 8 exponent, 7 fraction bits. The range of float with 3 significant digits; it rarely needs a loss scale.
using bfloat16 = storage_float<brain16>;

struct cb16 : ieee_format<std::uint16_t, 6, 9, 42> {};  ///< Cerebras' 1-6-9

/// Cerebras' cbfloat16: 1 sign, 6 exponent, 9 fraction bits. Nothing published gives the rest. Assumed here: the bias is 42,
/// exponent 63 is reserved for Inf and NaN, and underflow is gradual. Then the largest finite value is 2,095,104, the smallest
/// normal one 2^-41, the smallest subnormal one 2^-50.
using cbfloat16 = storage_float<cb16>;

namespace detail {

template <class Element, class Bits>
[[nodiscard]] auto as_elements(Bits* bits, std::size_t size) noexcept {
  static_assert(std::is_same_v<std::remove_const_t<Bits>, std::uint16_t> || std::is_void_v<Bits>);
  using Result = std::conditional_t<std::is_const_v<Bits>, const Element, Element>;
  return span<Result>(reinterpret_cast<Result*>(bits), size);
}

}  // namespace detail

/// `size` fp16 numbers whose bits are kept as std::uint16_t, or behind a pointer to void, as C code, DLPack and ggml
/// (ggml_fp16_t) keep them: `loss_scale.unscale_in_place(as_half(bits, size))`. `size` counts numbers, not bytes. A view:
/// nothing is copied, and it needs no alignment. headroom reads and writes elements as bytes, which breaks no aliasing rule.
template <class Bits>
[[nodiscard]] auto as_half(Bits* bits, std::size_t size) noexcept {
  return detail::as_elements<half>(bits, size);
}
/// The same for bfloat16 numbers.
template <class Bits>
[[nodiscard]] auto as_bfloat16(Bits* bits, std::size_t size) noexcept {
  return detail::as_elements<bfloat16>(bits, size);
}

HEADROOM_DETAIL_END_NAMESPACE
