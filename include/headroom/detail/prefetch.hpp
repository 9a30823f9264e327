#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

inline constexpr std::size_t cache_line = 64;  // bytes, as most CPUs have it

/// Fetches the line that many bytes ahead into all caches, where the next pass may find it. It may lie beyond the array, where
/// a pointer must not even be formed: the instruction ignores an address that leads nowhere.
inline void prefetch(const unsigned char* from, std::size_t bytes_ahead) noexcept {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + bytes_ahead));
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
