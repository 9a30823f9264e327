#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/bfloat16.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/dtype/span.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class Element, class Bits>
[[nodiscard]] auto as_elements(Bits* bits, std::size_t size) noexcept {
  static_assert(std::is_same_v<std::remove_const_t<Bits>, std::uint16_t> || std::is_void_v<Bits>,
                "headroom: as_half and as_bfloat16 take a pointer to std::uint16_t or to void, const or not");
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

}  // namespace HEADROOM_BUILD
}  // namespace headroom
