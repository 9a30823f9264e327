#pragma once

#include <headroom/config.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <string_view>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

inline constexpr std::uint64_t first_digest = 0xcbf29ce484222325;  // where FNV-1a begins

/// The hash goes on with eight more bytes: FNV-1a, a word at a time, and shifted so that high bits reach the low ones.
[[nodiscard]] constexpr std::uint64_t digest_with(std::uint64_t digest, std::uint64_t word) noexcept {
  digest = (digest ^ word) * 0x100000001b3;
  return digest ^ (digest >> 32U);
}
[[nodiscard]] constexpr std::uint64_t digest_with(std::uint64_t digest, std::string_view text) noexcept {
  for (const char c : text) digest = digest_with(digest, static_cast<unsigned char>(c));
  return digest_with(digest, text.size());
}
/// For a policy without states.
[[nodiscard]] inline std::uint64_t digest_of_scale(const float& scale) noexcept {
  return digest_with(first_digest, bit_cast<std::uint32_t>(scale));
}

}  // namespace detail

/// A hash of keys and values: equal for states that compare equal, on every machine, and with near certainty different for
/// others. Ranks compare those of their policies: see GradScaler::set_reducer. Not meant against people who forge states.
[[nodiscard]] inline std::uint64_t digest(const StateDict& state) noexcept {
  std::uint64_t result = detail::first_digest;
  for (const auto& [key, value] : state) {
    result = detail::digest_with(result, key);
    // As StateValue compares them: kinds differ, but true is 1.
    result = detail::digest_with(result, value.is_bool() ? 0 : value.index());
    if (const auto* text = std::get_if<std::string>(&value)) {
      result = detail::digest_with(result, *text);
    } else if (const auto* real = std::get_if<double>(&value)) {
      result = detail::digest_with(result, detail::bit_cast<std::uint64_t>(*real));
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      result = detail::digest_with(result, *flag ? 1U : 0U);
    } else {
      result = detail::digest_with(result, static_cast<std::uint64_t>(*std::get_if<std::int64_t>(&value)));
    }
  }
  return result;
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
