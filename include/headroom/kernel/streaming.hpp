#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <cstdio>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Bytes of the largest data cache of this machine, from Linux's sysfs, because sysconf adds up the caches of all sockets on
/// some machines; 32 MiB if unknown.
[[nodiscard]] inline std::size_t read_largest_cache() {
  std::size_t largest = 0;
#if defined(__linux__)
  for (int index = 0; index < 8; ++index) {
    char name[80];
    std::snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    std::FILE* file = std::fopen(name, "r");
    if (file == nullptr) break;
    unsigned long size = 0;
    char unit = ' ';
    const int fields = std::fscanf(file, "%lu%c", &size, &unit);
    std::fclose(file);
    if (fields < 1) continue;
    const std::size_t bytes = size * (fields == 2 && unit == 'K' ? 1024U : fields == 2 && unit == 'M' ? 1048576U : 1U);
    if (bytes > largest) largest = bytes;
  }
#endif
  constexpr std::size_t when_unknown = std::size_t{32} << 20;
  return largest == 0 ? when_unknown : largest;
}

/// From how many bytes, read and written, stores that bypass the caches pay for a pass that is not in place. Ordinary stores
/// also load what they are about to overwrite. In measurements they pay, even if the destination is read right afterwards, from
/// three quarters of the largest cache on, but of one that many share nobody has as much to himself: of 300 MiB, 96.
[[nodiscard]] constexpr std::size_t streaming_threshold(std::size_t largest_cache) noexcept {
  constexpr std::size_t most = std::size_t{96} << 20;
  return largest_cache / 4 * 3 < most ? largest_cache / 4 * 3 : most;
}
/// That of this machine.
[[nodiscard]] inline std::size_t streaming_threshold() {
  static const std::size_t threshold = streaming_threshold(read_largest_cache());
  return threshold;
}
[[nodiscard]] inline bool is_worth_streaming(std::size_t bytes) { return bytes >= streaming_threshold(); }

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
