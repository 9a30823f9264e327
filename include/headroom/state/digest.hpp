#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

inline constexpr std::uint64_t first_digest = 0xcbf29ce484222325;
/// FNV-1a, a word at a time, and shifted so that high bits reach the low ones.
[[nodiscard]] constexpr std::uint64_t digest_with(std::uint64_t digest, std::uint64_t word) noexcept {
  digest = (digest ^ word) * 0x100000001b3;
  return digest ^ (digest >> 32U);
}
[[nodiscard]] constexpr std::uint64_t digest_with(std::uint64_t digest, std::string_view text) noexcept {
  for (const char c : text) digest = digest_with(digest, static_cast<unsigned char>(c));
  return digest_with(digest, text.size());
}

}  // namespace detail

/// A hash of keys and values, the same on every machine, by which ranks compare their states: see GradScaler::set_reducer. Not
/// cryptographic.
[[nodiscard]] inline std::uint64_t digest(const StateDict& state) {
  std::uint64_t result = detail::first_digest;
  for (const auto& [key, value] : state) {
    result = detail::digest_with(result, key);
    result = value.is_real() ? detail::digest_with(result, detail::bit_cast<std::uint64_t>(value.real()))
                             : detail::digest_with(result, detail::to_text(value));
  }
  return result;
}

namespace detail {

template <class Policy>
using state_digest_t = decltype(std::uint64_t{std::declval<const Policy&>().state_digest()});
template <class Policy>
using state_dict_t = decltype(std::declval<const Policy&>().state_dict());
/// What ranks compare of their policies.
template <class Policy>
[[nodiscard]] std::uint64_t state_digest(const Policy& policy) {
  if constexpr (is_detected_v<state_digest_t, Policy>) {
    return policy.state_digest();
  } else if constexpr (is_detected_v<state_dict_t, Policy>) {
    return headroom::digest(policy.state_dict());
  } else {
    return digest_with(first_digest, bit_cast<std::uint32_t>(policy.loss_scale()));
  }
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
