#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_VECTORS

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/dtype/format.hpp>
#include <headroom/kernel/isa/isa_list.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// How exponents are found: up to sixteen vectors of elements at a time, see kernel/exponents.inl.
struct ExponentFinder {
  void (*find)(const unsigned char* source, std::size_t vectors, unsigned char* pairs, unsigned char* special) noexcept;
  std::size_t vector_bytes;
};

namespace portable_exponents {

inline constexpr std::size_t vector_bytes = 16;

#include <headroom/kernel/exponents.inl>

}  // namespace portable_exponents
/// By instruction set.
template <Isa isa>
struct IsaExponents : portable_exponents::Exponents {};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom

#endif
